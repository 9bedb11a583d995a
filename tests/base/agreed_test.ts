/**
 * Values that several parts must agree on have one place, src/base/agreed.ts, which every part
 * follows.
 */
import { strict as assert } from "node:assert";
import { DEFAULT_HTTP, DEFAULT_LISTEN, GRPC_PORT, HTTP_PORT } from "../../src/base/agreed.ts";

const ROOT = new URL("../../", import.meta.url);
const AGREED = new URL("src/base/agreed.ts", ROOT);
const [OTHER_HTTP, OTHER_GRPC] = [18055, 18056];

/** What parts say with a copy of agreed.ts in its place that has other ports. */
async function withOtherPorts(program: string): Promise<string> {
  const dir = await Deno.makeTempDir();
  const copy = `${dir}/agreed.ts`;
  await Deno.writeTextFile(
    copy,
    (await Deno.readTextFile(AGREED))
      .replace(`HTTP_PORT = ${HTTP_PORT}`, `HTTP_PORT = ${OTHER_HTTP}`)
      .replace(`GRPC_PORT = ${GRPC_PORT}`, `GRPC_PORT = ${OTHER_GRPC}`),
  );
  const config = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  const map = { imports: { ...config.imports, [AGREED.href]: `file://${copy}` } };
  await Deno.writeTextFile(`${dir}/map.json`, JSON.stringify(map));
  await Deno.writeTextFile(`${dir}/program.ts`, program);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...[
        "run",
        "-A",
        "--no-check",
        "--no-lock",
        `--config=${new URL("deno.json", ROOT).pathname}`,
      ],
      ...[`--import-map=${dir}/map.json`, `${dir}/program.ts`],
    ],
    cwd: new URL(".", ROOT).pathname,
    env: { NO_COLOR: "1", MOSAIC_STATE_DIR: `${dir}/state` },
  }).output();
  await Deno.remove(dir, { recursive: true });
  assert.ok(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

const at = (path: string) => JSON.stringify(new URL(path, ROOT).href);

Deno.test("every part follows another default port: options, help, permission plans, addresses of proxies, hints", async () => {
  const said = JSON.parse(
    await withOtherPorts(`
      const { daemonOptions } = await import(${at("src/daemon/start/options.ts")});
      const { parseProxyArguments, PROXY_USAGE } = await import(${
      at("src/proxy/start/arguments.ts")
    });
      const { daemonPlan } = await import(${at("src/permissions/daemon_plan.ts")});
      const { proxyPlan } = await import(${at("src/permissions/proxy_plan.ts")});
      const { parseTarget } = await import(${at("src/wire/address/target.ts")});
      const { parseListen } = await import(${at("src/wire/address/address.ts")});
      const world = {
        cwd: "/",
        env: (name) => name === "MOSAIC_STATE_DIR" ? "/state" : undefined,
        envNames: () => [],
        readText: () => undefined,
      };
      const hintOf = (call) => {
        try {
          return call() && "";
        } catch (error) {
          return error.hint;
        }
      };
      const { listen, http } = daemonOptions(["--state-dir", "/state"], world.env);
      console.log(JSON.stringify({
        listen,
        http,
        target: parseProxyArguments(["--run-id", "a", "--", "b"]).target,
        usage: PROXY_USAGE,
        daemon: daemonPlan([], world).net,
        proxy: proxyPlan(["--run-id", "a", "--", "b"], world).net,
        hints: [hintOf(() => parseTarget("")), hintOf(() => parseListen("nothing"))],
      }));
    `),
  );
  const [http, listen] = [`127.0.0.1:${OTHER_HTTP}`, `127.0.0.1:${OTHER_GRPC}`];
  assert.deepEqual([said.http, said.listen, said.target], [http, listen, http]);
  assert.ok(said.usage.includes(`(default: ${http})`), said.usage);
  assert.ok(said.daemon.includes(http) && said.daemon.includes(listen), said.daemon.join());
  assert.ok(said.proxy.includes(http), said.proxy.join());
  assert.ok(said.hints[0].includes(http) && said.hints[1].includes(listen), said.hints.join());
});

Deno.test("the permission sets of deno.json name the default ports", async () => {
  const { permissions } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
  for (const part of ["daemon", "client"]) {
    assert.ok(
      permissions[part].net.includes(DEFAULT_HTTP) &&
        permissions[part].net.includes(DEFAULT_LISTEN),
      part,
    );
  }
  assert.ok(permissions.proxy.net.includes(DEFAULT_HTTP));
});

Deno.test("no other file of src/ has the default ports", async () => {
  const { stdout } = await new Deno.Command("grep", {
    args: [
      "-rlE",
      `\\b(${HTTP_PORT}|${GRPC_PORT})\\b`,
      new URL("src", ROOT).pathname,
      "--include=*.ts",
      "--include=*.tsx",
    ],
  }).output();
  const files = new TextDecoder().decode(stdout).trim().split("\n").filter((file) =>
    !file.includes("/src/gen/")
  );
  assert.deepEqual(files, [AGREED.pathname]);
});
