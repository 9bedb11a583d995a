/**
 * Kills a daemon at a chosen system call while a run goes its whole way, starts another, and looks
 * at what is left: what was acknowledged is there, every record once and in order, one worker, its
 * GPU given back, nobody left running.
 */
import assert from "node:assert/strict";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { isEnded, type RunState } from "../../../src/registry/lifecycle/lifecycle.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, steps, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { underStrace } from "./tracing.ts";

/**
 * The `when`-th call of this kind that the daemon's main thread makes, before it has any effect.
 */
export interface CrashPoint {
  call: "pwrite64" | "sendto" | "clone" | "rename" | "unlink";
  /** Only calls on this file, below the state directory. */
  path?: string;
  when: number;
}

function nameOf({ call, path, when }: CrashPoint): string {
  return `${call}${path === undefined ? "" : ` on ${path}`}, ${when}`;
}

const STEPS = 60;
/** Sixty steps in six bursts. */
const BURSTS = `i=0; while [ $i -lt ${STEPS} ]; do
  printf '{"event_type":"step","step_index":%d}\\n' $i; i=$((i + 1)); [ $((i % 10)) = 0 ] && sleep 0.02; done; exit 0`;

/** Of a run that needs the only GPU. */
export function burstsConfig(): string {
  return configOf({ command: ["/bin/sh", "-c", BURSTS], gpus: { requested: 1, mandatory: true } });
}

/**
 * A state directory that a daemon has used and left, so that points are not spent on making the
 * databases.
 */
async function withTemplate(work: (template: string) => Promise<void>): Promise<void> {
  const template = Deno.makeTempDirSync({ prefix: "mosaic-crash-" });
  try {
    const daemon = await TestDaemon.start({ stateDir: template });
    await daemon.stop();
    await work(template);
  } finally {
    await Deno.remove(template, { recursive: true });
  }
}

interface CrashResult {
  /** The daemon got to the point. */
  crashed: boolean;
  /** Everything that is wrong. */
  findings: string[];
}

async function crashAt(template: string, point: CrashPoint): Promise<CrashResult> {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-crash-" });
  new Deno.Command("cp", { args: ["-a", `${template}/.`, stateDir] }).outputSync();
  const config = burstsConfig();
  const where = point.path === undefined ? [] : ["-P", `${stateDir}/${point.path}`];
  const program = underStrace(
    ...["-o", "/dev/null", ...where, "-e", `trace=${point.call}`],
    ...["-e", `inject=${point.call}:signal=KILL:when=${point.when}`],
  );
  try {
    await using first = await TestDaemon.start({ stateDir, gpus: "1", program }).catch(() =>
      undefined
    );
    const acknowledged = await first?.client.unary(TrainerService.method.submitRun, {
      configJson: config,
    })
      .then(({ runId }) => runId, () => undefined);
    const crashed = first === undefined || await until(async () => {
          if (first.died !== undefined) return "crashed";
          if (acknowledged === undefined) return undefined;
          const run = await getRun(first, acknowledged).catch(() => undefined);
          return run !== undefined && isEnded(run.state as RunState) ? "ended" : undefined;
        }, { what: "the crash, or the run's end", state: () => first.output().slice(-2000) }) ===
        "crashed";
    if (first?.died === undefined) await first?.kill9();

    await using next = await TestDaemon.start({ stateDir, gpus: "1" });
    const found = await check(next, config, acknowledged);
    return { crashed, findings: found.length === 0 ? [] : [...found, next.output().slice(-3000)] };
  } finally {
    await Deno.remove(stateDir, { recursive: true });
  }
}

/**
 * Crashes at each of the points, of which at least one must be on the run's way, and none may leave
 * anything wrong.
 */
export async function crashesLeaveNothingWrong(...points: CrashPoint[]): Promise<void> {
  await withTemplate(async (template) => {
    let crashes = 0;
    for (const point of points) {
      const { crashed, findings } = await crashAt(template, point);
      assert.deepEqual(findings, [], `after the crash at ${nameOf(point)}`);
      if (crashed) crashes++;
    }
    assert(crashes > 0, "the daemon got to none of the points");
  });
}

/**
 * What is wrong after a crash; the run has its full time to end. @param acknowledged the run id
 * that a submitter was told
 */
export async function check(
  daemon: TestDaemon,
  config: string,
  acknowledged: string | undefined,
): Promise<string[]> {
  const findings: string[] = [];
  const { runs } = await daemon.client.unary(Mosaic.method.listRuns, { limit: 10 });
  if (acknowledged !== undefined && runs[0]?.runId !== acknowledged) {
    findings.push("an acknowledged run is gone");
  }
  if (runs.length > 1) findings.push(`${runs.length} runs of one submission`);
  // What was not acknowledged may be there or not; submitted again it is not there twice.
  const run = runs[0]?.runId ??
    (await daemon.client.unary(TrainerService.method.submitRun, { configJson: config })).runId;
  const ended = await untilState(daemon, run, "TERMINATED");
  if (ended.attempt !== 1) {
    findings.push(`attempt ${ended.attempt}: a crash of the daemon is no failure of the run`);
  }
  const stored = await steps(daemon, run);
  const wrong = stored.findIndex((step, i) => step.seq !== i + 1 || step.step_index !== i);
  if (wrong >= 0) {
    findings.push(`step ${JSON.stringify(stored[wrong])} stands where ${wrong} belongs`);
  }
  if (stored.length !== STEPS) findings.push(`${stored.length} of ${STEPS} steps`);
  const kinds: string[] = [];
  for await (const event of daemon.client.stream(Mosaic.method.streamEvents, { run })) {
    if (event.kind !== "state") kinds.push(event.kind);
  }
  // An attempt that was not started after all is started again, and says so.
  const story = kinds.filter((kind, i) => kind !== kinds[i - 1]).join(" ");
  if (story !== "queued started completed") {
    findings.push(`the event log tells: ${kinds.join(" ")}`);
  }
  const { gpus } = await daemon.client.unary(Mosaic.method.getHost, {});
  if (gpus[0]!.runId !== "") findings.push("the GPU is still held");
  await until(() => processesOf(daemon.stateDir).every(({ pid }) => pid === daemon.pid), {
    what: "processes to end",
  })
    .catch(() =>
      findings.push(
        `left: ${processesOf(daemon.stateDir).map((p) => p.command.slice(0, 150)).join("; ")}`,
      )
    );
  return findings;
}
