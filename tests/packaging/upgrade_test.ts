/**
 * `mosaic daemon --replace` with executables of two versions, at two places and unpacked side by
 * side: the newer takes over from the older with live runs, and back. MOSAIC_BIN, where set, is the
 * older one.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { VERSION } from "../../src/base/version.ts";
import { buildMosaic, start } from "../harness/built.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { killProcessesOf, processesOf } from "../harness/processes.ts";
import { getRun, steps, submit, untilState } from "../harness/runs.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { until } from "../harness/wait.ts";

const ROOT = new URL("../..", import.meta.url).pathname;
const NEWER = `${VERSION}-next`;
/** Long enough to live through all of it on a loaded machine. */
const STEPS = 400;
const STEPS_OF_WAITING = 40;

const directory = Deno.makeTempDirSync();
const [older, newer] = [`${directory}/older/mosaic`, `${directory}/newer/elsewhere/mosaic`];
const environment = {
  MOSAIC_CACHE_DIR: `${directory}/cache`,
  MOSAIC_PERMISSIONS: "",
  HOME: directory,
};

/** The sources of another version, apart from these. */
function sourcesOf(version: string): string {
  const root = `${directory}/sources`;
  Deno.mkdirSync(root);
  const copied = [
    "src",
    "docs",
    "scripts",
    "proto",
    "schema",
    "deno.json",
    "deno.lock",
    "dev.lock",
  ];
  const done = new Deno.Command("cp", { args: ["-r", ...copied, root], cwd: ROOT }).outputSync();
  assert.ok(done.success);
  Deno.symlinkSync(`${ROOT}node_modules`, `${root}/node_modules`);
  const config = JSON.parse(Deno.readTextFileSync(`${root}/deno.json`));
  Deno.writeTextFileSync(`${root}/deno.json`, JSON.stringify({ ...config, version }));
  return root;
}

async function build(): Promise<void> {
  for (const file of [older, newer]) {
    Deno.mkdirSync(file.slice(0, file.lastIndexOf("/")), { recursive: true });
  }
  const given = Deno.env.get("MOSAIC_BIN");
  if (given === undefined) await buildMosaic(older);
  else Deno.copyFileSync(given, older);
  await buildMosaic(newer, sourcesOf(NEWER));
}

const versionOf = async (daemon: TestDaemon) =>
  (await daemon.client.unary(Mosaic.method.getHost, {})).version;
const proxyOf = (daemon: TestDaemon, run: string) =>
  processesOf(daemon.stateDir).find(({ command }) =>
    command.includes(" proxy ") && command.includes(run)
  );

/** A daemon of `program` on the other's directory and addresses, which it takes over. */
async function replace(daemon: TestDaemon, program: string): Promise<TestDaemon> {
  const next = await TestDaemon.start({
    stateDir: daemon.stateDir,
    program: [program],
    env: environment,
    args: ["--replace", "--max-runs", "3", "--listen", daemon.address, "--http", daemon.http],
  });
  const left = await until(() => daemon.died, { what: "the daemon that was replaced to leave" });
  assert.equal(left.code, 0, daemon.output());
  return next;
}

Deno.test("upgrade: executables of two versions take over from each other, and runs lose nothing", async (t) => {
  try {
    await build();
    for (const [file, version] of [[older, VERSION], [newer, NEWER]] as const) {
      const { stdout, stderr } = await start(file, ["--version"], environment);
      assert.ok(stdout.startsWith(`mosaic ${version} `), stdout + stderr);
    }
    const stateDir = `${directory}/state`;
    Deno.mkdirSync(stateDir);
    await using first = await TestDaemon.start({
      stateDir,
      program: [older],
      env: environment,
      args: ["--max-runs", "3"],
    });
    const counting = (steps = STEPS) =>
      configOf({ command: countingWorker({ steps, everySeconds: 0.05 }) });
    const [steady, paused, orphaned] = [
      await submit(first, counting()),
      await submit(first, counting()),
      await submit(first, counting()),
    ];
    const waiting = await submit(first, counting(STEPS_OF_WAITING));
    const workers = new Map<string, bigint>();
    for (const run of [steady, paused, orphaned]) {
      workers.set(run, (await untilState(first, run, "EXECUTING")).workerPid);
    }
    await first.client.unary(Mosaic.method.pauseRun, { run: paused });
    await untilState(first, paused, "PAUSED");
    assert.equal((await getRun(first, waiting)).state, "INIT");
    const goesOn = async (daemon: TestDaemon, run: string) => {
      const before = Number((await getRun(daemon, run)).telemetry?.steps);
      await until(async () => Number((await getRun(daemon, run)).telemetry?.steps) > before, {
        what: `steps of ${run}`,
        state: () => daemon.output().slice(-3000),
      });
      assert.equal((await getRun(daemon, run)).workerPid, workers.get(run));
    };

    await using second = await replace(first, newer);
    await t.step("the newer one has the runs as they were", async () => {
      assert.equal(await versionOf(second), NEWER);
      await goesOn(second, steady);
      assert.equal((await getRun(second, paused)).state, "PAUSED");
      assert.equal((await getRun(second, waiting)).state, "INIT");
    });

    await t.step(
      "each version's verbs speak with it, and a second daemon is refused with who is there",
      async () => {
        for (const file of [older, newer]) {
          const { code, stdout, stderr } = await start(file, [
            "list",
            "-q",
            "--state-dir",
            stateDir,
          ], environment);
          assert.equal(code, 0, stderr);
          assert.equal(stdout.trim().split("\n").length, 4);
        }
        const refused = await start(older, ["daemon", "--state-dir", stateDir], environment);
        assert.equal(refused.code, 2);
        assert.match(
          refused.stderr,
          new RegExp(`a daemon \\(pid ${second.pid}\\) already uses .*\n.*--replace`),
        );
      },
    );

    await t.step(
      "the older file may go: a proxy that dies then is replaced by the newer one's",
      async () => {
        Deno.renameSync(older, `${older}.aside`);
        const proxy = proxyOf(second, orphaned)!;
        signalProcess(proxy, "SIGKILL");
        await until(() => ![undefined, proxy.pid].includes(proxyOf(second, orphaned)?.pid), {
          what: "another proxy",
        });
        await goesOn(second, orphaned);
        Deno.renameSync(`${older}.aside`, older);
      },
    );

    await using third = await replace(second, older);
    await t.step(
      "and back: all runs end with all of their steps, those that waited too",
      async () => {
        assert.equal(await versionOf(third), VERSION);
        await third.client.unary(Mosaic.method.resumeRun, { run: paused });
        for (const run of [steady, paused, orphaned, waiting]) {
          assert.equal((await untilState(third, run, "TERMINATED")).attempt, 1);
          const stored = (await steps(third, run)).map(({ step_index }) => step_index);
          assert.deepEqual(
            stored,
            Array.from({ length: run === waiting ? STEPS_OF_WAITING : STEPS }, (_, i) => i),
            run,
          );
        }
      },
    );
  } finally {
    await killProcessesOf(directory);
    Deno.removeSync(directory, { recursive: true });
  }
});
