import { GPU_LOCKS } from "../../src/base/agreed.ts";
import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import {
  flagsOf,
  permissions,
  permissionsOfFlags,
  together,
  without,
} from "../../src/permissions/permissions.ts";
import { isPlanned, planFor } from "../../src/permissions/part_plan.ts";
import type { World } from "../../src/permissions/world.ts";

interface WorldOptions {
  env?: Record<string, string>;
  files?: Record<string, string>;
}

function world(options: WorldOptions): World {
  const env: Record<string, string> = { HOME: "/home/u", PATH: "/usr/bin:/bin", ...options.env };
  return {
    cwd: "/work",
    env: (name) => env[name],
    envNames: () => Object.keys(env),
    readText: (path) => options.files?.[path],
    resolve: (name) => Promise.resolve(name === "gpu.example" ? ["192.0.2.7", "2001:db8::7"] : []),
  };
}

const STATE = "/home/u/.local/state/mosaic";

async function plan(line: string, options: WorldOptions = {}) {
  const [part, ...args] = line.split(" ");
  assert.ok(part !== undefined && isPlanned(part));
  return await planFor(part, args, world(options));
}

/** What the daemon always listens on. */
const SOCKET = `unix:${STATE}/trainer/daemon.sock`;
const TLS_SOCKET = `unix:${STATE}/trainer/tls.sock`;

async function refused(line: string, message: RegExp, options?: WorldOptions): Promise<void> {
  await assert.rejects(
    plan(line, options),
    (error) =>
      error instanceof MosaicError && error.code === "invalid_argument" &&
      message.test(error.message),
  );
}

Deno.test("plan: the daemon gets its state directory, its listeners, a shell, and no more", async () => {
  const planned = await plan("daemon");
  assert.deepEqual(planned.read, ["/dev/null", STATE, GPU_LOCKS]);
  assert.deepEqual(planned.write, [STATE, GPU_LOCKS]);
  assert.deepEqual(planned.net, ["127.0.0.1:50055", "127.0.0.1:8055", SOCKET]);
  assert.deepEqual(planned.run, ["/bin/sh"]);
  assert.ok(
    !planned.env.includes("AWS_SECRET_ACCESS_KEY") && planned.env.includes("LD_LIBRARY_PATH"),
  );
});

const LONG = "l".repeat(100);
const HASHED = "/run/user/7/mosaic-";

Deno.test("plan: a state directory whose socket would have too long a name puts it elsewhere", async () => {
  const planned = await plan(`daemon --state-dir /${LONG}`, {
    env: { XDG_RUNTIME_DIR: "/run/user/7" },
  });
  const directory = [...planned.write].find((path) => path.startsWith(HASHED));
  assert.ok(directory !== undefined && planned.read.includes(directory));
  assert.ok(planned.net.includes(`unix:${directory}/daemon.sock`));
});

const RESOLVED = ["192.0.2.7:443", "[2001:db8::7]:443", "gpu.example", "gpu.example:443"];
const NOTIFY = { NOTIFY_SOCKET: "/run/systemd/notify", RUNTIME_DIRECTORY: "/run/m" };
const ONE = "daemon --http none --listen 127.0.0.1:1";

Deno.test("plan: the daemon's options and environment move and add", async (t) => {
  const cases: [string, Record<string, string>, kind: "read" | "write" | "net", string[]][] = [
    ["daemon --state-dir=s --http none", {}, "write", ["/work/s"]],
    [ONE, {}, "net", ["127.0.0.1:1"]],
    ["daemon --listen localhost:7 --http none", {}, "net", ["127.0.0.1:7", "[::1]:7", "localhost"]],
    ["daemon --listen unix:run/m.sock --http none", {}, "net", ["unix:/work/run/m.sock"]],
    ["daemon --listen unix:run/m.sock --http none", {}, "write", [STATE, "/work/run/m.sock"]],
    [`${ONE} --group-socket lab:/run/m/api.sock`, {}, "net", [
      "127.0.0.1:1",
      "unix:/run/m/api.sock",
    ]],
    [`${ONE} --group-socket lab:/run/m/api.sock`, {}, "read", ["/dev/null", STATE, "/run/m"]],
    [`${ONE} --group-socket lab:/run/m/api.sock`, {}, "write", [STATE, "/run/m/api.sock"]],
    [`${ONE} --webhook https://gpu.example/x`, {}, "net", ["127.0.0.1:1", ...RESOLVED]],
    [`daemon --tls-cert c.pem --listen 0.0.0.0:5 --http none`, {}, "net", [
      "0.0.0.0:5",
      "127.0.0.1:0",
    ]],
    ["daemon --tls-cert c.pem --listen none --http 0.0.0.0:5", {}, "net", [
      "0.0.0.0:5",
      "127.0.0.1:0",
      TLS_SOCKET,
    ]],
    ["daemon --tls-cert c.pem --tls-key /k.pem", {}, "read", [
      "/dev/null",
      STATE,
      "/k.pem",
      "/work/c.pem",
    ]],
    [ONE, { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" }, "net", [
      "127.0.0.1:1",
      "127.0.0.1:4318",
    ]],
    [ONE, NOTIFY, "net", ["127.0.0.1:1", "unix:/run/m/notify.sock", "unix:/run/systemd/notify"]],
    [ONE, { MOSAIC_ALLOW: "--allow-net=10.0.0.1:80" }, "net", ["10.0.0.1:80", "127.0.0.1:1"]],
  ];
  for (const [line, env, kind, expected] of cases) {
    await t.step(`${line} ${JSON.stringify(env)}`, async () => {
      const planned = await plan(line, { env });
      const own = kind === "net" ? [SOCKET] : [GPU_LOCKS];
      assert.deepEqual([...planned[kind]].sort(), [...expected, ...own].sort());
    });
  }
  const planned = await plan("daemon", {
    env: { VECLIB_NUM_THREADS: "2", MOSAIC_WORKER_ENV: "WANDB_*, SEED" },
  });
  for (const name of ["VECLIB_NUM_THREADS", "WANDB_*", "SEED"]) {
    assert.ok(planned.env.includes(name), name);
  }
});

Deno.test("plan: a daemon's proxy gets its run's directory and its daemon's host, whatever the port will be", async () => {
  const observe = {
    roots: ["/home/u/project"],
    globs: [{ root: "/data/logs", glob: "/data/logs/*.csv" }],
  };
  const files = {
    "/s/runs/R/.mosaic/proxy-2.json": JSON.stringify({ daemonJson: "/s/daemon.json", observe }),
  };
  const line =
    "proxy --target 127.0.0.1:5 --run-id R --run-dir /s/runs/R --attempt 2 -- sh --run-dir /etc";
  const planned = await plan(line, { files });
  assert.deepEqual(planned.read, [
    "/data/logs",
    "/dev/null",
    "/home/u/project",
    "/s/daemon.json",
    "/s/runs/R",
  ]);
  assert.deepEqual(planned.write, ["/s/runs/R"]);
  assert.deepEqual(planned.net, ["127.0.0.1"]);
  assert.deepEqual(planned.run, ["/bin/sh"]);
  assert.notEqual(planned.env, "all");
});

Deno.test("plan: a proxy that stands alone reads its whole environment, for it is the worker's", async () => {
  const planned = await plan(
    "proxy --target gpu.example:5 --run-id R --tls-ca ca.pem --run-dir d -- sh",
  );
  assert.equal(planned.env, "all");
  assert.deepEqual(planned.net, ["192.0.2.7:5", "[2001:db8::7]:5", "gpu.example", "gpu.example:5"]);
  // The working directory, whose trackers' files are read, holds the others.
  assert.deepEqual(planned.read, ["/dev/null", "/work"]);
  assert.deepEqual(planned.write, ["/work/d"]);
});

Deno.test("plan: a proxy that stands alone reads the certificates that its environment names, a daemon's does not", async () => {
  const env = {
    MOSAIC_TLS_CA: "/p/ca.pem",
    MOSAIC_TLS_CERT: "own.pem",
    MOSAIC_TLS_KEY: "/p/own.key",
  };
  const alone = await plan("proxy --target gpu.example:5 --run-id R --run-dir d -- sh", { env });
  assert.deepEqual(alone.read, ["/dev/null", "/p/ca.pem", "/p/own.key", "/work"]);
  const files = {
    "/s/runs/R/.mosaic/proxy-1.json": JSON.stringify({ daemonJson: "/s/daemon.json" }),
  };
  const daemons = await plan("proxy --target 127.0.0.1:5 --run-id R --run-dir /s/runs/R -- sh", {
    files,
    env,
  });
  assert.deepEqual(daemons.read, ["/dev/null", "/s/daemon.json", "/s/runs/R"]);
});

Deno.test("plan: what cannot be planned is refused", async () => {
  await refused("daemon --listen", /--listen has no value/);
  await refused("daemon --listen nowhere", /--listen "nowhere"/);
  for (const large of ["h:65536", "localhost:65536"]) {
    await refused(`daemon --http ${large}`, /is neither HOST:PORT/);
  }
  await refused("daemon --webhook nowhere", /--webhook "nowhere"/);
  for (
    const flag of ["-A", "--allow-all", "--allow-ffi", "--allow-ffi=/x", "--unstable-net", "read"]
  ) {
    await refused("daemon", /MOSAIC_ALLOW/, { env: { MOSAIC_ALLOW: flag } });
  }
  assert.throws(() => flagsOf(permissions({ read: ["/a\nb"] })), /line break/);
});

Deno.test("permissions: flags and back; one entry covers others; what is left over", () => {
  const granted = permissions({
    read: ["/a,b", "/c d"],
    net: ["h:1"],
    env: ["A", "B_*"],
    sys: "all",
  });
  const flags = flagsOf(granted);
  assert.deepEqual(
    flags,
    [
      "--allow-read=/a,,b,/c d",
      "--allow-net=h:1",
      "--allow-env=A,B_*",
      "--allow-sys",
      "--ignore-env",
    ],
  );
  assert.deepEqual(permissionsOfFlags(flags), granted);
  assert.equal(permissionsOfFlags(["--no-prompt", "-A"]), undefined);

  const sum = together(
    permissions({ read: ["/a", "/a/b", "/ab"], net: ["h", "h:1"] }),
    permissions({ env: "all" }),
  );
  assert.deepEqual([sum.read, sum.net, sum.env], [["/a", "/ab"], ["h"], "all"]);
  const few = permissions({ read: ["/a/b", "/x"], run: "all" });
  const rest = without(few, permissions({ read: ["/a"], run: ["/bin/sh"] }));
  assert.deepEqual([rest.read, rest.run], [["/x"], "all"]);
});
