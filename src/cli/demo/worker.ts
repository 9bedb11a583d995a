/**
 * `mosaic demo-worker`: trains on CartPole and prints telemetry in the documented dialect
 * (docs/reference/telemetry.md). It uses only these environment variables: RUN_ID,
 * MOSAIC_CHECKPOINT_DIR or MOSAIC_RUN_DIR, MOSAIC_RESUME_FROM.
 */
import { messageOf } from "../../base/errors.ts";
import { writeFileAtomic } from "../../os/files/files.ts";
import type { DemoWorkerOptions } from "./worker_options.ts";
import { type Checkpoint, parseCheckpoint, Training, type TrainingRecord } from "./training.ts";
import { sleep } from "../../base/time/sleep.ts";

export interface WorkerEnvironment {
  runId: string;
  /** Directory for checkpoints; undefined: none are saved. */
  checkpointDir: string | undefined;
  /** Checkpoint to continue from. */
  resumeFrom: string | undefined;
  /** Writes whole lines. @throws when the reader has gone */
  write(text: string): void;
  /** Lines of standard input; read only with --control. */
  controlLines(): AsyncIterable<string>;
  /** Aborted when the worker must stop. */
  stop: AbortSignal;
  /** Milliseconds, monotonic. */
  now(): number;
  unixSeconds(): number;
}

/** Output is buffered for this long (ms): a write per step would cost more than the step. */
const FLUSH_MS = 10;
const HEARTBEAT_MS = 30_000;
export const STOPPED = 143;

export function checkpointDir(env: (name: string) => string | undefined): string | undefined {
  const runDir = env("MOSAIC_RUN_DIR");
  return env("MOSAIC_CHECKPOINT_DIR") || (runDir && `${runDir}/checkpoints`) || undefined;
}

/** Trains to the end. @returns the exit code: 0, 1 after a failure, 143 when stopped */
export async function runWorker(
  options: DemoWorkerOptions,
  env: WorkerEnvironment,
): Promise<number> {
  let pending = "";
  const say = (record: Record<string, unknown>) => {
    pending += `${JSON.stringify(record)}\n`;
  };
  const flush = () => {
    if (pending !== "") env.write(pending);
    pending = "";
  };
  const event = (kind: string, payload: Record<string, unknown>) =>
    say({ event_type: kind, run_id: env.runId, timestamp: env.unixSeconds(), payload });
  const control = new Control(event, flush);
  if (options.control) control.listen(env.controlLines());

  try {
    const training = new Training(
      options,
      env.resumeFrom ? readCheckpoint(env.resumeFrom) : undefined,
    );
    event("run_started", {
      config: {
        environment: "CartPole-v1",
        algorithm: "cross-entropy method",
        ...snakeCase(options),
      },
      supports_pause: options.control,
    });
    if (env.resumeFrom) {
      event("checkpoint_loaded", { checkpoint_path: env.resumeFrom, step: training.totalSteps });
    }
    let savedAt = training.episodes;
    const save = () => {
      if (env.checkpointDir === undefined || savedAt === training.episodes) return;
      savedAt = training.episodes;
      Deno.mkdirSync(env.checkpointDir, { recursive: true });
      const path = `${env.checkpointDir}/episode-${
        String(training.episodes).padStart(6, "0")
      }.json`;
      writeFileAtomic(path, JSON.stringify(training.checkpoint()), { mode: 0o644 });
      event("checkpoint_saved", {
        checkpoint_path: path,
        step: training.totalSteps,
        episode: training.episodes,
      });
    };

    const pace = new Pace(env, options.stepDelayMs);
    let beatAt = env.now() + HEARTBEAT_MS;
    for (const record of training.records()) {
      report(record, training, options, env.runId, say, event);
      if (record.type === "episode" && options.checkpointEvery > 0) {
        if (training.episodes % options.checkpointEvery === 0) save();
      }
      if (record.type === "step") pace.step();
      if (!pace.due()) continue;
      flush();
      if (env.now() >= beatAt) {
        event("heartbeat", { status: "running" });
        beatAt = env.now() + HEARTBEAT_MS;
      }
      await pace.breathe();
      if (control.paused) {
        await control.resumed(env.stop);
        pace.restart();
      }
      if (env.stop.aborted) {
        event("run_cancelled", { episodes: training.episodes, steps: training.totalSteps });
        flush();
        return STOPPED;
      }
    }
    save();
    event("run_completed", {
      status: "completed",
      episodes: training.episodes,
      steps: training.totalSteps,
      mean_reward_100: training.meanReward100,
    });
    flush();
    return 0;
  } catch (error) {
    event("run_failed", {
      error: messageOf(error),
      error_type: error instanceof Error ? error.name : "Error",
    });
    flush();
    return 1;
  }
}

function report(
  record: TrainingRecord,
  training: Training,
  options: DemoWorkerOptions,
  runId: string,
  say: (record: Record<string, unknown>) => void,
  event: (kind: string, payload: Record<string, unknown>) => void,
): void {
  if (record.type === "step") {
    if (!options.steps) return;
    say({
      event_type: "step",
      run_id: runId,
      episode: record.episode,
      step_index: record.step,
      action: record.action,
      observation: record.observation,
      reward: record.reward,
      terminated: record.terminated,
      truncated: record.truncated,
    });
    return;
  }
  say({
    event_type: "episode",
    run_id: runId,
    episode: record.episode,
    total_reward: record.totalReward,
    steps: record.steps,
    terminated: record.terminated,
    truncated: record.truncated,
  });
  const { learned } = record;
  if (
    learned !== undefined && options.metricsEvery > 0 &&
    (learned.generation + 1) % options.metricsEvery === 0
  ) {
    event("metrics", {
      step: training.totalSteps,
      generation: learned.generation,
      best_reward: learned.bestReward,
      elite_reward: learned.eliteReward,
      population_reward: learned.populationReward,
      weight_std: learned.weightStd,
      mean_reward_100: training.meanReward100,
    });
  }
}

/** Decides when to write output, and how long to wait between steps. */
class Pace {
  readonly #env: WorkerEnvironment;
  readonly #stepMs: number;
  #startedAt: number;
  #steps = 0;
  #flushedAt: number;
  #checks = 0;

  constructor(env: WorkerEnvironment, stepMs: number) {
    this.#env = env;
    this.#stepMs = stepMs;
    this.#startedAt = this.#flushedAt = env.now();
  }

  step(): void {
    this.#steps += 1;
  }

  /** How far (ms) training is ahead of the requested pace. */
  #ahead(): number {
    return this.#startedAt + this.#steps * this.#stepMs - this.#env.now();
  }

  due(): boolean {
    // Reading the clock costs more than a step: without a step delay, read it only now and then.
    if (this.#stepMs === 0 && ++this.#checks % 64 !== 0) return false;
    return this.#ahead() >= FLUSH_MS || this.#env.now() - this.#flushedAt >= FLUSH_MS;
  }

  /** Yields to signals and control lines, and waits for the requested pace. */
  async breathe(): Promise<void> {
    await sleep(Math.max(0, this.#ahead()));
    this.#flushedAt = this.#env.now();
  }

  /** After a pause, do not catch up the lost time. */
  restart(): void {
    this.#startedAt = this.#env.now();
    this.#steps = 0;
  }
}

/**
 * The pause state requested by `{"control":"pause"}` and `{"control":"resume"}`; acknowledges with
 * events.
 */
class Control {
  paused = false;
  #wake: () => void = () => {};
  readonly #event: (kind: string, payload: Record<string, unknown>) => void;
  readonly #flush: () => void;

  constructor(event: (kind: string, payload: Record<string, unknown>) => void, flush: () => void) {
    this.#event = event;
    this.#flush = flush;
  }

  async listen(lines: AsyncIterable<string>): Promise<void> {
    for await (const line of lines) {
      const control = controlOf(line);
      if (control !== undefined) this.#set(control === "pause");
    }
    // Standard input has ended: no resume can arrive.
    this.#set(false);
  }

  #set(paused: boolean): void {
    if (paused === this.paused) return;
    this.paused = paused;
    this.#event(paused ? "paused" : "resumed", {});
    this.#flush();
    if (!paused) this.#wake();
  }

  /** Resolves when the worker is resumed or must stop. */
  async resumed(stop: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      if (!this.paused || stop.aborted) return resolve();
      this.#wake = resolve;
      stop.addEventListener("abort", () => resolve(), { once: true });
    });
  }
}

/** The control request of a line of standard input; undefined for any other line. */
export function controlOf(line: string): "pause" | "resume" | undefined {
  try {
    const value = JSON.parse(line) as { control?: unknown } | null;
    return value?.control === "pause" || value?.control === "resume" ? value.control : undefined;
  } catch {
    return undefined;
  }
}

function readCheckpoint(path: string): Checkpoint {
  try {
    return parseCheckpoint(Deno.readTextFileSync(path));
  } catch (error) {
    throw new Error(`cannot resume from ${path}: ${messageOf(error)}`);
  }
}

function snakeCase(options: DemoWorkerOptions): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(options).map(([k, v]) => [k.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), v]),
  );
}
