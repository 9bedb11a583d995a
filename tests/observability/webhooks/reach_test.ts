/** Webhooks that a daemon under its plan cannot deliver to: refused when the run is submitted. */
import assert from "node:assert/strict";
import { MosaicError } from "../../../src/base/errors.ts";
import { flagsOf } from "../../../src/permissions/permissions.ts";
import { planFor } from "../../../src/permissions/part_plan.ts";
import { realWorld } from "../../../src/permissions/world.ts";
import { requireReach } from "../../../src/observability/webhooks/reach.ts";
import { configOf } from "../../harness/configs.ts";
import { MAIN, TestDaemon } from "../../harness/daemon.ts";
import { submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";

function said(url: string, secretFile: string | null, ...granted: string[]): string | undefined {
  try {
    requireReach({ url, secretFile }, (kind, entry) => granted.includes(`${kind}=${entry}`));
    return undefined;
  } catch (error) {
    assert.ok(error instanceof MosaicError && error.code === "permission_denied");
    return `${error.message} | ${error.hint}`;
  }
}

Deno.test("a webhook out of reach: the field, the host or file, and the flags", () => {
  assert.equal(said("https://h.example/x", null, "net=h.example:443"), undefined);
  const host = "metadata.webhook: this daemon may not connect to h.example:80";
  assert.equal(
    said("http://h.example", null),
    `${host} | Start the daemon by "deno run" with --allow-net=h.example:80`,
  );
  const both = said("http://h.example", "/k") ?? "";
  assert.ok(
    both.startsWith(`${host}; metadata.webhook.secret_file: this daemon may not read /k | `),
    both,
  );
  assert.ok(both.endsWith(" --allow-net=h.example:80 --allow-read=/k"), both);
});

Deno.test("a daemon under its plan refuses a run whose webhook it cannot reach; one that was allowed to delivers", async () => {
  const got: string[] = [];
  const receiver = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      got.push(JSON.parse(await request.text()).type);
      return new Response();
    },
  );
  const host = `127.0.0.1:${receiver.addr.port}`;
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-test-" });
  const args = ["--listen", "127.0.0.1:0", "--http", "none"];
  const start = async (allow: string) => {
    const env = (name: string) => name === "MOSAIC_ALLOW" ? allow : Deno.env.get(name);
    const flags = flagsOf(
      await planFor("daemon", [...args, "--state-dir", stateDir], { ...realWorld(), env }),
    );
    const program = [Deno.execPath(), "run", "--no-check", "--no-prompt", ...flags, MAIN];
    return await TestDaemon.start({ stateDir, args, program, env: { MOSAIC_ALLOW: allow } });
  };
  const config = configOf({ command: ["/bin/true"], metadata: { webhook: `http://${host}/hook` } });
  try {
    {
      await using daemon = await start("");
      await assert.rejects(
        submit(daemon, config),
        (error) =>
          error instanceof MosaicError && error.code === "permission_denied" &&
          error.message.includes(host),
      );
    }
    await using daemon = await start(`--allow-net=${host}`);
    await untilState(daemon, await submit(daemon, config), "TERMINATED");
    await until(() => got.includes("run.completed"), {
      what: "the webhook to be called",
      state: () => got,
    });
  } finally {
    await receiver.shutdown();
    await Deno.remove(stateDir, { recursive: true });
  }
});
