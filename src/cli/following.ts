/** Following one run to its end. */
import type { Run } from "../gen/mosaic/v1/mosaic_pb.ts";
import { ENDED_STATES, type RunState } from "../registry/lifecycle/lifecycle.ts";
import type { Context } from "./context.ts";
import { eventLine } from "./events_text.ts";
import { EXIT, exitOfOutcome } from "./exit.ts";
import { compact, duration, number, rate } from "./format.ts";
import { eventJson, type RunJson, runJson } from "./message_json.ts";
import { pause } from "../wire/waiting.ts";
import type { Link } from "./daemon_link.ts";
import { progressText } from "./progress.ts";
import { elapsedMs, progressOf } from "./runs_table.ts";
import { cut, harmless } from "./text.ts";

/** How often a followed run is looked at; its events wake the follower earlier. */
const LOOK_MS = 1000;
/** A failed run with attempts left is given this long to begin the next one before it counts as ended. */
const RETRY_GRACE_MS = 3000;

/** Whether a look at a run shows its end, given since when (ms) it has been seen FAULTED with attempts left. */
export function hasEnded(run: { state: string; attempt: number; maxAttempts: number }, faultedForMs: number): boolean {
  if (!ENDED_STATES.includes(run.state as RunState)) return false;
  return run.state !== "FAULTED" || run.attempt >= run.maxAttempts || faultedForMs >= RETRY_GRACE_MS;
}

/** Waits until the run has ended for good; undefined when the signal aborted before. */
export async function untilEnded(
  link: Link,
  run: string,
  signal: AbortSignal,
  onLook: (run: Run) => void = () => {},
  wake: () => Promise<void> = () => new Promise(() => {}),
): Promise<Run | undefined> {
  let faultedAt: number | undefined;
  while (!signal.aborted) {
    const now = await link.unary(link.methods.getRun, { run }, signal);
    onLook(now);
    if (now.state === "FAULTED") faultedAt ??= performance.now();
    else faultedAt = undefined;
    if (hasEnded(now, faultedAt === undefined ? 0 : performance.now() - faultedAt)) return now;
    const stop = new AbortController();
    await Promise.race([pause(LOOK_MS, AbortSignal.any([signal, stop.signal])), wake()]);
    stop.abort();
  }
  return undefined;
}

/**
 * Prints the run's events as they happen (as lines, or as JSON Lines) until it has ended. On a terminal a live line
 * below tells its progress. Gives the exit code of its outcome.
 */
export async function followRun(
  link: Link,
  context: Context,
  runId: string,
  signal: AbortSignal,
  jsonl = false,
): Promise<number> {
  const stop = new AbortController();
  const status = new StatusLine(context);
  let wake: () => void = () => {};
  let last = 0n;
  const print = async (follow: boolean, until: AbortSignal) => {
    const stream = link.resumed(
      link.methods.streamEvents,
      (sinceSeq) => ({ run: runId, sinceSeq, follow }),
      (event) => event.seq,
      last,
      until,
    );
    for await (const event of stream) {
      const json = eventJson(event);
      status.clear();
      const { color, isTty } = context.terminal;
      context.out.write(
        jsonl ? `${JSON.stringify(json)}\n` : eventLine(json, { color, withRun: false, brief: isTty }),
      );
      last = event.seq;
      wake();
    }
  };
  // Its failure (the reader of stdout is gone, say) is the follower's.
  let failure: unknown;
  const events = print(true, AbortSignal.any([signal, stop.signal])).catch((error) => {
    failure = error;
    stop.abort();
  });
  try {
    const ended = await untilEnded(
      link,
      runId,
      AbortSignal.any([signal, stop.signal]),
      (run) => status.draw(statusText(runJson(run), context.now(), context.terminal.width)),
      () => new Promise((resolve) => wake = resolve),
    );
    stop.abort();
    await events;
    if (failure !== undefined) throw failure;
    if (ended === undefined) return EXIT.ok;
    // What was said between the last event shown and the end.
    await print(false, signal);
    return exitOfOutcome(ended.outcome);
  } finally {
    status.clear();
  }
}

export function statusText(run: RunJson, now: number, width: number): string {
  const { telemetry: t } = run;
  const elapsed = elapsedMs(run, now);
  const parts = [
    run.state,
    elapsed === null ? "" : duration(elapsed),
    progressText(progressOf(run), 20),
    `${compact(t.episodes)} episodes`,
    t.steps_per_second > 0 ? rate(t.steps_per_second) : "",
    t.mean_reward_100 === null ? "" : `reward ${number(t.mean_reward_100)}`,
  ];
  return cut(harmless(parts.filter((p) => p !== "").join("  ")), width - 1);
}

/** One line on stderr that is drawn over itself; nothing where stderr is no terminal. */
class StatusLine {
  readonly #context: Context;
  #drawn = false;

  constructor(context: Context) {
    this.#context = context;
  }

  draw(text: string): void {
    if (!this.#context.errIsTty) return;
    this.#context.err.move("line");
    this.#context.err.write(text);
    this.#drawn = true;
  }

  clear(): void {
    if (this.#drawn) this.#context.err.move("line");
    this.#drawn = false;
  }
}
