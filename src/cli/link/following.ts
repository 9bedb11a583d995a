/** Following one run to its end. */
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { ENDED_STATES, type RunState } from "../../registry/lifecycle/lifecycle.ts";
import type { Context } from "./context.ts";
import { eventLine } from "../text/events_text.ts";
import { EXIT, exitOfOutcome } from "./exit.ts";
import { compact, count, duration, number, rate } from "../../base/text/format.ts";
import { eventJsonOf } from "../../runs/fields/host_json.ts";
import { runJsonOf } from "../../runs/fields/run_json.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { anyOf, pause } from "../../wire/http/waiting.ts";
import type { Link } from "./daemon_link.ts";
import type { Output } from "./output.ts";
import { notReadNote } from "../../runs/fields/not_read_text.ts";
import { progressText } from "../../runs/fields/progress.ts";
import { elapsedMs, progressOf, rewardOf } from "../../runs/fields/run_texts.ts";
import { cut, escapeControl } from "../text/text.ts";
import { stateWord } from "../../runs/fields/lifecycle_states.ts";

/** Poll interval of a followed run; its events trigger an earlier poll. */
const POLL_MS = 1000;
/** A failed run with attempts left counts as ended if no next attempt begins within this time. */
const RETRY_GRACE_MS = 3000;

/** Whether the run has ended for good. @param faultedForMs how long it has been seen FAULTED */
export function hasEnded(
  run: { state: string; attempt: number; maxAttempts: number },
  faultedForMs: number,
): boolean {
  if (!ENDED_STATES.includes(run.state as RunState)) return false;
  return run.state !== "FAULTED" || run.attempt >= run.maxAttempts ||
    faultedForMs >= RETRY_GRACE_MS;
}

/** Waits until the run has ended for good; undefined when the signal aborts first. */
export async function untilEnded(
  link: Link,
  run: string,
  signal: AbortSignal,
  onPoll: (run: Run) => void = () => {},
  wake: () => Promise<void> = () => new Promise(() => {}),
): Promise<Run | undefined> {
  let faultedAt: number | undefined;
  while (!signal.aborted) {
    const now = await link.unary(link.methods.getRun, { run }, signal);
    onPoll(now);
    if (now.state === "FAULTED") faultedAt ??= performance.now();
    else faultedAt = undefined;
    if (hasEnded(now, faultedAt === undefined ? 0 : performance.now() - faultedAt)) return now;
    const stop = new AbortController();
    using either = anyOf(signal, stop.signal);
    await Promise.race([pause(POLL_MS, either.signal), wake()]);
    stop.abort();
  }
  return undefined;
}

/** What the run's program prints, and between its lines whatever else is printed. */
class ProgramOutput {
  readonly #link: Link;
  readonly #context: Context;
  readonly #before: () => void;
  readonly #streams: Promise<void>[] = [];
  #attempt = 0;
  /** Where a line is not whole. */
  #begun: Output | undefined;

  /** @param before what is to be cleared away before something is printed */
  constructor(link: Link, context: Context, before: () => void) {
    this.#link = link;
    this.#context = context;
    this.#before = before;
  }

  get isLineBegun(): boolean {
    return this.#begun !== undefined;
  }

  /** Ends a line of the program that is not whole, such as a progress bar. */
  endLine(): void {
    const { out, errIsTty } = this.#context;
    // On a terminal, what follows would stand on the same line; a file of standard error is the
    // program's own.
    if (this.#begun === out || (this.#begun !== undefined && errIsTty)) this.#begun.write("\n");
    this.#begun = undefined;
  }

  /** Begins to print the output of an attempt, once. */
  show({ runId, attempt }: Pick<Run, "runId" | "attempt">, signal: AbortSignal): void {
    if (attempt <= this.#attempt) return;
    this.#attempt = attempt;
    for (const stream of ["stdout", "stderr"] as const) {
      this.#streams.push(this.#print(runId, attempt, stream, signal));
    }
    // Whoever awaits `all` gets the error.
    this.#streams.slice(-2).forEach((printing) => printing.catch(() => {}));
  }

  /** All attempts are over, and their output is printed. */
  async all(): Promise<void> {
    await Promise.all(this.#streams);
  }

  async #print(
    run: string,
    attempt: number,
    stream: "stdout" | "stderr",
    signal: AbortSignal,
  ): Promise<void> {
    const chunks = this.#link.resumed(
      this.#link.methods.streamLogs,
      (sinceOffset) => ({ run, attempt, stream, sinceOffset, follow: true }),
      (chunk) => chunk.nextOffset,
      0n,
      signal,
    );
    const { out, err } = this.#context;
    for await (const { text, suppressedLines } of chunks) {
      this.#before();
      const to = stream === "stderr" ? err : out;
      to.writeBytes(text);
      if (text.length > 0) this.#begun = text.at(-1) === 0x0a ? undefined : to;
      if (suppressedLines > 0n) {
        this.endLine();
        err.write(
          `mosaic: suppressed ${count(Number(suppressedLines))} lines; mosaic logs has them\n`,
        );
      }
    }
  }
}

/**
 * Prints what the run's program prints, and its events as they happen (or, as JSON Lines, these
 * alone) until it has ended. On a terminal, a status line below shows its progress. @returns the
 * exit code for the outcome
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
  const output = new ProgramOutput(link, context, () => status.clear());
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
      const json = eventJsonOf(event);
      status.clear();
      output.endLine();
      const { color, isTty } = context.terminal;
      context.out.write(
        jsonl
          ? `${JSON.stringify(json)}\n`
          : eventLine(json, { color, withRun: false, brief: isTty }),
      );
      last = event.seq;
      wake();
    }
  };
  // An error while printing (stdout closed, for example) ends the following with that error.
  let failure: unknown;
  using either = anyOf(signal, stop.signal);
  const events = print(true, either.signal).catch((error) => {
    failure = error;
    stop.abort();
  });
  try {
    const ended = await untilEnded(
      link,
      runId,
      either.signal,
      (run) => {
        // Before that, no process of this attempt has begun.
        if (!jsonl && run.state !== "INIT" && run.state !== "HANDSHAKE") {
          output.show(run, either.signal);
        }
        if (output.isLineBegun) return;
        status.draw(statusText(runJsonOf(run), context.now(), context.terminal.width));
      },
      () => new Promise((resolve) => wake = resolve),
    );
    if (ended !== undefined) await output.all();
    stop.abort();
    await events;
    if (failure !== undefined) throw failure;
    if (ended === undefined) return EXIT.ok;
    // Events between the last one printed and the end.
    await print(false, signal);
    status.clear();
    if (!jsonl) await sayNotRead(link, context, runJsonOf(ended), signal);
    return exitOfOutcome(ended.outcome);
  } finally {
    status.clear();
  }
}

/** The last line, if nothing at all was read of a program that did produce something. */
async function sayNotRead(
  link: Link,
  context: Context,
  run: RunJson,
  signal: AbortSignal,
): Promise<void> {
  const { steps, episodes } = run.telemetry;
  const note = notReadNote({ ...run.telemetry, metrics: 0 });
  if (note === "" || steps + episodes > 0) return;
  const { series } = await link.unary(link.methods.listSeries, { run: run.run_id }, signal);
  if (series.some(({ name }) => !name.startsWith("system/"))) return;
  context.err.write(
    `mosaic: no curve of this run was read; ${
      escapeControl(note)
    }; mosaic show ${run.run_id} says more\n`,
  );
}

function statusText(run: RunJson, now: number, width: number): string {
  const { telemetry: t } = run;
  const elapsed = elapsedMs(run, now);
  const parts = [
    stateWord(run.state),
    elapsed === null ? "" : duration(elapsed),
    progressText(progressOf(run, now), 20),
    `${compact(t.episodes)} episodes`,
    t.steps_per_second > 0 ? rate(t.steps_per_second) : "",
    rewardOf(run) === null ? "" : `reward ${number(rewardOf(run)!)}`,
  ];
  return cut(escapeControl(parts.filter((p) => p !== "").join("  ")), width - 1);
}

/** A line on stderr that is redrawn in place; nothing if stderr is not a terminal. */
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
