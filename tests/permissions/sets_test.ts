/**
 * The permission sets of deno.json: what they grant, and daemon, proxy and client at work under
 * them.
 */
import assert from "node:assert/strict";
import { bundle } from "../../scripts/compile/build.ts";
import {
  KINDS,
  type Permissions,
  permissions,
  permissionsOfFlags,
  together,
  without,
} from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/part_plan.ts";
import type { World } from "../../src/permissions/world.ts";
import { BASE_DIRS } from "../../src/base/layout.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { killProcessesOf } from "../harness/processes.ts";
import { getRun, untilState } from "../harness/runs.ts";
import { assertRefused, FOLLOWED, makePlaces } from "./attempts.ts";
import { clientFlags } from "./client_flags.ts";
import config from "../../deno.json" with { type: "json" };

const STATE = "/var/lib/mosaic";
const SOCKET = `${STATE}/trainer/daemon.sock`;
const RUN_ROOTS = BASE_DIRS.map((name) => `${STATE}/trainer/${name}`);

const world: World = {
  cwd: "/",
  env: () => undefined,
  envNames:
    () => ["MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"],
  readText: (path) => path.endsWith("daemon.json") ? JSON.stringify({ socket: SOCKET }) : undefined,
  resolve: () => Promise.resolve([]),
};

/** What one kind of a set grants: `true`, a list, or `{ allow: …, … }`. */
function allowed(entry: unknown): readonly string[] | "all" {
  if (entry === true) return "all";
  if (Array.isArray(entry)) return entry.map(String);
  return typeof entry === "object" && entry !== null && "allow" in entry
    ? allowed(entry.allow)
    : [];
}

function permissionsOfSet(set: Record<string, unknown>): Permissions {
  return permissions(Object.fromEntries(KINDS.map((kind) => [kind, allowed(set[kind])])));
}

/** Of a client of a daemon that listens where it does by default. */
function clientPermissions(): Permissions {
  const directory = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${directory}/trainer`);
    const socket = `${directory}/trainer/daemon.sock`;
    const said = { pid: 1, listen: "127.0.0.1:50055", http: "127.0.0.1:8055", socket };
    Deno.writeTextFileSync(`${directory}/trainer/daemon.json`, `${JSON.stringify(said)}\n`);
    const flags = clientFlags(["list"], { MOSAIC_STATE_DIR: directory });
    return permissionsOfFlags(flags.map((flag) => flag.replaceAll(directory, STATE)))!;
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

Deno.test("sets: they grant what a host's service needs, and next to nothing beyond", async (t) => {
  const parts = [
    ["daemon", await planFor("daemon", ["--state-dir", STATE], world), permissions()],
    // Of all runs, not of one: their ids are not known when the set is written.
    [
      "proxy",
      // A working directory elsewhere is not observed.
      (await Promise.all(
        RUN_ROOTS.map((root) =>
          planFor("proxy", ["--run-id", "R", "--run-dir", `${root}/R`], {
            ...world,
            cwd: `${root}/R`,
          })
        ),
      )).reduce(together),
      permissions({
        read: [`${STATE}/trainer/daemon.json`, SOCKET, ...RUN_ROOTS].sort(),
        write: [SOCKET, ...RUN_ROOTS].sort(),
        net: [`unix:${SOCKET}`],
      }),
    ],
    ["client", clientPermissions(), permissions()],
  ] as const;
  for (const [name, needed, beyond] of parts) {
    await t.step(name, () => {
      const granted = permissionsOfSet(config.permissions[name]);
      assert.deepEqual(without(needed, granted), permissions(), "missing");
      assert.deepEqual(without(granted, needed), beyond, "more than needed");
      assert.deepEqual(
        together(granted, granted),
        granted,
        "sorted, and no entry that another one covers",
      );
    });
  }
});

/** A port that is free, and stays so for the moment it takes to use it. */
function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  listener.close();
  return listener.addr.port;
}

Deno.test("sets: daemon, proxy and client at work under them, and everything else refused", async (t) => {
  const directory = Deno.makeTempDirSync();
  const [grpc, page] = [freePort(), freePort()];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  // The sets as they are, at a place and ports of the test's own.
  const moved = JSON.stringify(config.permissions).replaceAll(STATE, `${directory}/state`)
    .replaceAll(":50055", `:${grpc}`).replaceAll(":8055", `:${page}`);
  const configFile = `${directory}/deno.json`;
  Deno.writeTextFileSync(configFile, `{"unstable": ["net"], "permissions": ${moved}}`);
  Deno.mkdirSync(`${directory}/app`);
  for (const [name, text] of bundle("src/main.ts")) {
    Deno.writeTextFileSync(`${directory}/app/${name}`, text);
  }
  const under = (set: string) => ["--config", configFile, "--no-lock", `-P=${set}`];
  const program = (
    set: string,
  ) => [
    Deno.execPath(),
    "run",
    "--quiet",
    "--no-prompt",
    ...under(set),
    `${directory}/app/main.js`,
  ];

  const places = makePlaces(directory, listener.addr.port);
  const runs = `${places.inside}/trainer/runs`;
  Deno.mkdirSync(runs, { recursive: true });
  const mosaic = async (
    set: string,
    words: string[],
    input = "",
    env: Record<string, string> = {},
  ) => {
    const child = new Deno.Command(program(set)[0]!, {
      args: [...program(set).slice(1), ...words],
      ...{ stdin: "piped", stdout: "piped", stderr: "piped" },
      env,
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input)).then(() => writer.close());
    const { code, stdout, stderr } = await child.output();
    const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.equal(code, 0, `${words.join(" ")}\n${out}${err}`);
    return out!.trim();
  };
  try {
    await using daemon = await TestDaemon.start({
      stateDir: places.inside,
      program: program("daemon"),
      args: ["--listen", `127.0.0.1:${grpc}`, "--http", `127.0.0.1:${page}`],
    });
    const at = ["--state-dir", places.inside];
    await t.step("a run is submitted, carried out and read", async () => {
      const id = await mosaic(
        "client",
        ["submit", "-", ...at],
        configOf({ command: countingWorker({ steps: 20 }) }),
      );
      await mosaic("client", ["wait", id, ...at]);
      const steps = await mosaic("client", ["steps", id, "-o", "jsonl", ...at]);
      assert.equal(steps.split("\n").length, 20);
    });
    const kinds: Record<typeof BASE_DIRS[number], unknown> = {
      runs: { module: "unused" },
      evals: { module: "unused", config: { test_mode: true } },
      custom_scripts: { script: "unused" },
    };
    for (const [base, worker] of Object.entries(kinds)) {
      await t.step(`a proxy that somebody else starts carries out its run of ${base}`, async () => {
        const external = configOf({
          command: ["unused"],
          metadata: { worker: { ...worker as object, external: true } },
        });
        const id = await mosaic("client", ["submit", "-", ...at], external);
        const { directory } = await untilState(daemon, id, "HANDSHAKE");
        assert.ok(directory.endsWith(`/trainer/${base}/${id}`), directory);
        const target = ["--target", `127.0.0.1:${page}`];
        await mosaic("proxy", [
          "proxy",
          ...target,
          "--run-id",
          id,
          "--run-dir",
          directory,
          "--",
          "true",
        ]);
        await untilState(daemon, id, "TERMINATED");
        assert.equal((await getRun(daemon, id)).outcome, "succeeded");
      });
    }
    // The proxy's set has the worker's whole environment: without a daemon's start file the proxy
    // hands it on.
    Deno.symlinkSync(places.outside, `${runs}/link`);
    const inRuns = { ...places, inside: runs };
    await t.step(
      "daemon: what it may not do",
      () => assertRefused(under("daemon"), places, { ...FOLLOWED, "ask for the user": "done" }),
    );
    await t.step(
      "proxy: what it may not do",
      () => assertRefused(under("proxy"), inRuns, { ...FOLLOWED, "look at a variable": "done" }),
    );
    await t.step("client: what it may not do", () => assertRefused(under("client"), places, {}));
  } finally {
    listener.close();
    await killProcessesOf(directory);
    Deno.removeSync(directory, { recursive: true });
  }
});
