/**
 * A sweep of 16 points with 3 seeds, with early stopping, under faults of its daemon, proxies,
 * workers, optimizer and disk: each trial is made once, with its own parameters; the decisions are
 * those of the stored values; the winner is the best.
 */
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { messageOf, MosaicError } from "../../../src/base/errors.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { signalGroup, signalProcess } from "../../../src/os/processes/signals.ts";
import { Registry } from "../../../src/registry/registry.ts";
import type { SweepReport } from "../../../src/registry/sweeps/sweep_rows.ts";
import type { SweepJson } from "../../../src/sweeps/results/sweep_json.ts";
import { checked } from "../../../src/sweeps/spec.ts";
import { decide, rungsOf } from "../../../src/sweeps/stopping.ts";
import { partFrom, stopOf, wholeAxis } from "../../../src/sweeps/words.ts";
import { configOf } from "../../harness/configs.ts";
import { PROGRAM, TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { until } from "../../harness/wait.ts";
import { type SmallDisk, Stage } from "../../system/machine/small_disk.ts";
import { Random } from "../random.ts";

const NAME = "learner";
const QUALITIES = [7, 3, 12, 1, 9, 15, 5, 2, 16, 11, 4, 14, 8, 6, 13, 10];
const SEEDS = 3;
const STUCK_MS = 180_000;
const LIVE = ["HANDSHAKE", "READY", "EXECUTING"];
const RULE = stopOf("asha:min=1,max=9,reduction=3", {});

/**
 * Prints its score nine times, and then that it has ended. A killed one is repeated, and prints the
 * same.
 */
const LEARNER =
  'for step in 1 2 3 4 5 6 7 8 9; do echo "{\\"score\\": $1.$step$2, \\"step\\": $step}"; sleep 0.1; done; ' +
  'echo "$MOSAIC_TRIAL $1 $2" >> "$3"';
const scoreOf = (quality: unknown, seed: unknown, step: number) =>
  Number(`${quality}.${step}${seed}`);

interface Found {
  seed: number;
  findings: string[];
  evidence: string;
}

type Fault =
  | "kill-daemon"
  | "restart-daemon"
  | "stop-daemon"
  | "kill-proxy"
  | "kill-worker"
  | "kill-optimizer"
  | "fill-disk";

/** An even seed's points are chosen by an optimizer. */
export async function runSweepSchedule(seed: number): Promise<Found> {
  const random = new Random(seed);
  const optimized = seed % 2 === 0;
  using stage = new Stage();
  const disk = stage.diskIfAllowed(`${stage.stateDir}/telemetry`, "64m");
  const daemon = await TestDaemon.start({
    args: ["--grace", "1", "--max-runs", "8"],
    stateDir: stage.stateDir,
  });
  const findings: string[] = [];
  let evidence = "";
  const ended = `${daemon.stateDir}/ended`;
  const optimizer = optimized ? new Optimizer(daemon, ended) : undefined;
  try {
    if (optimizer === undefined) {
      await daemon.client.unary(Mosaic.method.createSweep, { specJson: gridSpec(ended) });
    } else optimizer.start();
    for (let faults = random.int(6, 12); faults > 0; faults--) {
      await new Promise((resolve) => setTimeout(resolve, random.int(100, 1500)));
      const kinds: Fault[] = [
        "kill-daemon",
        "restart-daemon",
        "stop-daemon",
        "kill-proxy",
        "kill-worker",
        "fill-disk",
      ];
      await inflict(
        random.pick(optimized ? [...kinds, "kill-optimizer"] : kinds),
        random,
        daemon,
        disk,
        optimizer,
      );
    }
    const sweep = await untilEnded(daemon);
    await optimizer?.finished();
    await until(() => processesOf(daemon.stateDir).every((p) => p.pid === daemon.pid), {
      what: "processes to be gone",
    })
      .catch((error) => findings.push(messageOf(error)));
    await daemon.stop();
    using registry = closing(Registry.open(daemon.layout.registryDb));
    findings.push(...checkTrials(sweep, Deno.readTextFileSync(ended), optimized));
    if (!optimized) findings.push(...checkDecisions(sweep, registry.reports(sweep.sweep_id)));
  } catch (error) {
    findings.push(error instanceof Error ? error.stack ?? error.message : String(error));
  } finally {
    optimizer?.close();
    if (findings.length > 0) {
      evidence = Deno.readTextFileSync(daemon.layout.daemonLog).split("\n").slice(-60).join("\n");
    }
    await daemon[Symbol.asyncDispose]();
  }
  return { seed, findings, evidence };
}

function closing(registry: Registry) {
  return {
    reports: (sweepId: string) => registry.sweeps.reports(sweepId),
    [Symbol.dispose]: () => registry.close(),
  };
}

function gridSpec(ended: string): string {
  const rows = QUALITIES.map((k) => ({ k }));
  return JSON.stringify(checked({
    name: NAME,
    config: JSON.parse(configOf({
      command: ["/bin/sh", "-c", LEARNER, "learner", "{k}", "{seed}", ended],
      metadata: { restart: { max_attempts: 30, backoff_s: 0.1 } },
    })),
    pass: "templates",
    parts: [partFrom({ axes: [], space: [], rows, seeds: wholeAxis("seed", `1..${SEEDS}`) })],
    budget: {},
    max_parallel: 4,
    metric: { name: "score", goal: "max" },
    stop: RULE,
  }));
}

/**
 * `mosaic sweep --optimizer` with an optimizer that chooses by the number of the trial, started
 * again whenever it ends.
 */
class Optimizer {
  readonly #daemon: TestDaemon;
  readonly #ended: string;
  #child: Deno.ChildProcess | undefined;
  #closed = false;
  #runs: Promise<void> | undefined;

  constructor(daemon: TestDaemon, ended: string) {
    this.#daemon = daemon;
    this.#ended = ended;
  }

  start(): void {
    this.#runs = this.#run();
  }

  kill(): void {
    try {
      this.#child?.kill("SIGKILL");
    } catch {
      // It has just ended.
    }
  }

  close(): void {
    this.#closed = true;
    this.kill();
  }

  async finished(): Promise<void> {
    await this.#runs;
  }

  async #run(): Promise<void> {
    const [program, ...first] = PROGRAM;
    const sweep = [
      "--name",
      NAME,
      "--metric",
      "score:max",
      "--budget",
      `${QUALITIES.length * SEEDS}runs`,
    ];
    const more = ["--max-parallel", "6", "--attempts", "30", "--backoff", "0.1"];
    const command = ["--", "/bin/sh", "-c", LEARNER, "learner", "{k}", "{seed}", this.#ended];
    while (!this.#closed) {
      const child = new Deno.Command(program!, {
        args: [...first, "sweep", "--optimizer", ...sweep, ...more, ...command],
        env: { MOSAIC_STATE_DIR: this.#daemon.stateDir, NO_COLOR: "1" },
        stdin: "piped",
        stdout: "piped",
        stderr: "null",
      }).spawn();
      this.#child = child;
      const writer = child.stdin.getWriter();
      let left = "";
      for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
        const lines = (left + text).split("\n");
        left = lines.pop()!;
        for (const message of lines.map((line) => JSON.parse(line))) {
          if (message.type !== "ask") continue;
          const parameters = {
            k: QUALITIES[message.trial % QUALITIES.length],
            seed: seedOf(message.trial),
          };
          await writer.write(new TextEncoder().encode(`${JSON.stringify({ parameters })}\n`)).catch(
            () => {},
          );
        }
      }
      const { code } = await child.status;
      await writer.close().catch(() => {});
      if (code === 0) return;
    }
  }
}

const seedOf = (trial: number) => 1 + Math.floor(trial / QUALITIES.length);

async function inflict(
  fault: Fault,
  random: Random,
  daemon: TestDaemon,
  disk: SmallDisk | undefined,
  optimizer: Optimizer | undefined,
): Promise<void> {
  const pause = (low: number, high: number) =>
    new Promise((resolve) => setTimeout(resolve, random.int(low, high)));
  switch (fault) {
    case "kill-daemon":
      await daemon.kill9();
      await pause(0, 800);
      return await daemon.restart();
    case "restart-daemon":
      await daemon.stop();
      await pause(0, 400);
      return await daemon.restart();
    case "stop-daemon": {
      const process = processRef(daemon.pid)!;
      signalProcess(process, "SIGSTOP");
      await pause(50, 900);
      return void signalProcess(process, "SIGCONT");
    }
    case "fill-disk":
      disk?.fill();
      await pause(100, 1500);
      return disk?.free();
    case "kill-optimizer":
      return optimizer!.kill();
    case "kill-proxy":
    case "kill-worker": {
      const { runs } = await daemon.client.unary(Mosaic.method.listRuns, { limit: 100 });
      const live = runs.filter(({ state }) => LIVE.includes(state));
      if (live.length === 0) return;
      const { proxyPid, workerPid } = random.pick(live);
      const process = processRef(Number(fault === "kill-proxy" ? proxyPid : workerPid));
      if (process === undefined) return;
      return void (fault === "kill-proxy" ? signalProcess : signalGroup)(process, "SIGKILL");
    }
  }
}

async function untilEnded(daemon: TestDaemon): Promise<SweepJson> {
  let last: SweepJson | undefined;
  return await until(async () => {
    try {
      const { json } = await daemon.client.unary(Mosaic.method.getSweep, {
        sweep: NAME,
        trials: 1000,
      });
      last = JSON.parse(json) as SweepJson;
      const { state, made } = last;
      return state === "finished" && made === QUALITIES.length * SEEDS ? last : undefined;
    } catch (error) {
      if (
        error instanceof MosaicError &&
        ["unavailable", "not_found", "deadline_exceeded"].includes(error.code)
      ) {
        return undefined;
      }
      throw error;
    }
  }, {
    what: "the sweep to end",
    timeoutMs: STUCK_MS,
    state: () => JSON.stringify({ ...last, detail: undefined }),
  });
}

/** @param ended a line of each trial that has come to its end: trial, k, seed */
function checkTrials(sweep: SweepJson, ended: string, optimized: boolean): string[] {
  const findings: string[] = [];
  const trials = sweep.detail!.trials.toReversed();
  const runs = new Set(trials.map(({ run_id }) => run_id));
  if (runs.size !== trials.length || trials.length !== QUALITIES.length * SEEDS) {
    findings.push(`${trials.length} trials with ${runs.size} runs`);
  }
  for (const { trial, parameters: { k, seed } } of trials) {
    if (Number(k) === QUALITIES[trial % QUALITIES.length] && Number(seed) === seedOf(trial)) {
      continue;
    }
    findings.push(`trial ${trial} has k=${k} seed=${seed}`);
  }
  const lines = ended.trim().split("\n");
  for (const { trial, state, parameters: { k, seed } } of trials) {
    const found = lines.filter((line) => line === `${trial} ${k} ${seed}`).length;
    if (state === "terminated" && found < 1) {
      findings.push(`trial ${trial} is ${state}, and its program has not ended`);
    }
    if (state !== "terminated" && (optimized || state !== "pruned")) {
      findings.push(`trial ${trial} is ${state}`);
    }
  }
  const known = new Set(
    trials.map(({ trial, parameters: { k, seed } }) => `${trial} ${k} ${seed}`),
  );
  for (const line of lines) {
    if (!known.has(line)) findings.push(`a program that is no trial has ended: ${line}`);
  }
  const best = Math.max(...QUALITIES);
  const { winner } = sweep.detail!;
  if (Number(winner?.parameters.k) !== best) {
    findings.push(`the winner is ${JSON.stringify(winner)}`);
  }
  return findings;
}

/** They follow from the values alone, in their order; who was not stopped has come to its end. */
function checkDecisions(sweep: SweepJson, reports: readonly SweepReport[]): string[] {
  const findings: string[] = [];
  const trials = new Map(sweep.detail!.trials.map((one) => [one.trial, one]));
  const pointOf = (trial: number) => String(trial % QUALITIES.length);
  for (const [i, { stops, holds, reason, ...report }] of reports.entries()) {
    const { trial, rung } = report;
    const { k, seed } = trials.get(trial)!.parameters;
    const value = scoreOf(k, seed, rungsOf(RULE, trial)[rung - 1]!);
    if (report.value !== value) {
      findings.push(`trial ${trial} has ${report.value} at rung ${rung}, not ${value}`);
    }
    const again = decide(RULE, "max", reports.slice(0, i), report, pointOf);
    if (again.stops !== stops || again.reason !== reason || holds) {
      findings.push(`decision ${i} is "${reason}", and again "${again.reason}"`);
    }
    if (reports.findIndex((one) => one.trial === trial && one.rung === rung) !== i) {
      findings.push(`trial ${trial} is judged twice at rung ${rung}`);
    }
  }
  for (const { trial, state } of trials.values()) {
    const own = reports.filter((one) => one.trial === trial);
    const stopped = own.at(-1)?.stops === true;
    if (!stopped && state !== "terminated") {
      findings.push(`trial ${trial} is ${state}, and nothing has stopped it`);
    }
    if (!stopped && own.length !== rungsOf(RULE, trial).length) {
      findings.push(`trial ${trial} has come to its end with ${own.length} decisions`);
    }
  }
  return findings;
}
