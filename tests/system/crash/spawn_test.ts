/**
 * The moment between the start of a proxy and its entry into the registry, made long enough to die
 * in.
 */
import assert from "node:assert/strict";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { until } from "../../harness/wait.ts";
import { burstsConfig, check } from "./crash_point.ts";
import { tracedTest, underStrace } from "./tracing.ts";

/** The daemon stands still for 45 s when it has made its first child. */
const FROZEN = [
  "-o",
  "/dev/null",
  "-e",
  "trace=clone",
  "-e",
  "inject=clone:delay_exit=45000000:when=1",
];

function runDirectories(daemon: TestDaemon): string[] {
  const base = daemon.layout.baseDir("custom_scripts");
  return [...Deno.readDirSync(base)].map(({ name }) => `${base}/${name}`);
}

/**
 * A process that its tracer holds takes its SIGKILL when the tracer is gone: at once, and does
 * nothing before.
 */
async function killFrozen(daemon: TestDaemon): Promise<void> {
  const tracer = Number(
    /^TracerPid:\s+(\d+)/m.exec(Deno.readTextFileSync(`/proc/${daemon.pid}/status`))?.[1],
  );
  const held = processRef(tracer);
  assert(held !== undefined, "the daemon is held by strace");
  const killed = daemon.kill9();
  signalProcess(held, "SIGKILL");
  await killed;
}

async function crashAfterSpawn(
  what: string,
  reached: (daemon: TestDaemon) => boolean,
): Promise<void> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-crash-" });
  try {
    await using first = await TestDaemon.start({
      stateDir,
      gpus: "1",
      program: underStrace(...FROZEN),
    });
    const config = burstsConfig();
    const submitted = first.client.unary(TrainerService.method.submitRun, { configJson: config }, {
      deadlineMs: 60_000,
    })
      .then(({ runId }) => runId, () => undefined);
    await until(() => reached(first), { what });
    await killFrozen(first);
    await using next = await TestDaemon.start({ stateDir, gpus: "1" });
    assert.deepEqual(await check(next, config, await submitted), [], next.output().slice(-3000));
  } finally {
    await Deno.remove(stateDir, { recursive: true });
  }
}

tracedTest(
  "crash between a proxy's start and its entry: just started, the next daemon waits for it or starts anew",
  () =>
    crashAfterSpawn(
      "the proxy's process",
      (daemon) => processesOf(daemon.stateDir).some(({ command }) => / proxy /.test(command)),
    ),
);

tracedTest(
  "crash between a proxy's start and its entry: with a worker, there is no second one",
  () =>
    crashAfterSpawn(
      "the worker",
      (daemon) =>
        runDirectories(daemon).some((directory) =>
          readTextIfThere(`${directory}/.mosaic/worker-1.json`)
        ),
    ),
);

tracedTest(
  "crash between a proxy's start and its entry: a worker that has ended has its true end, and all it said",
  () =>
    crashAfterSpawn(
      "the exit record",
      (daemon) =>
        runDirectories(daemon).some((directory) =>
          readTextIfThere(`${directory}/.mosaic/exit-1.json`)
        ),
    ),
);
