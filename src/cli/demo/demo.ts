/**
 * `mosaic demo`: starts a daemon, trains two runs and prints their progress, in about 20 seconds.
 */
import type { Context } from "../link/context.ts";
import { EXIT } from "../link/exit.ts";
import { hasEnded, untilEnded } from "../link/following.ts";
import { runJsonOf } from "../../runs/fields/run_json.ts";
import { pause } from "../../wire/http/waiting.ts";
import { Link } from "../link/daemon_link.ts";
import { escapeControl } from "../text/text.ts";
import { messageOf } from "../../base/errors.ts";
import { TrainerService } from "../../gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { DEMO_RUNS, demoConfig } from "./demo_runs.ts";
import { type DemoView, liveLines, plainLine, summary } from "./demo_text.ts";
import { type LocalDaemon, startLocalDaemon } from "./local_daemon.ts";

export interface DemoOptions {
  /** Keep the daemon running. */
  keep: boolean;
  /** Per run. */
  steps: number;
  stepDelayMs: number;
  /** The state directory; undefined: a temporary one. */
  stateDir: string | undefined;
}

const RETRY_MS = 60_000;
const TERMINAL_POLL_MS = 250;
const PLAIN_POLL_MS = 2000;
const CANCEL_MS = 20_000;
const CURVE_POINTS = 32;

/** @returns 0 when both runs succeeded, 1 when one did not, 130 when the signal aborted */
export async function runDemo(
  context: Context,
  options: DemoOptions,
  signal: AbortSignal,
): Promise<number> {
  const stateDir = options.stateDir ?? Deno.makeTempDirSync({ prefix: "mosaic-demo-" });
  Deno.mkdirSync(stateDir, { recursive: true });
  context.out.write(`State directory  ${stateDir}\n`);
  const daemon = await startLocalDaemon(stateDir, signal);
  const ids: string[] = [];
  let left = false;
  try {
    using link = await Link.open(context, { target: daemon.target }, { retryMs: RETRY_MS });
    context.out.write(`Status page      http://${daemon.http}/\n\n`);
    for (const spec of DEMO_RUNS) {
      const configJson = JSON.stringify(demoConfig(spec, options));
      ids.push((await link.unary(TrainerService.method.submitRun, { configJson }, signal)).runId);
    }
    const views = await show(link, context, ids, signal);
    if (views === undefined) return EXIT.interrupted;
    context.out.write(`\n${summary(views, context.now(), context.terminal.color)}\n`);
    for (const { run } of views) {
      context.out.write(`${escapeControl(`${run.name}  ${run.directory}`)}\n`);
    }
    const failed = views.filter(({ run }) => run.outcome !== "succeeded");
    for (const { run } of failed) {
      const what = escapeControl(`${run.name} ${run.state}: ${run.reason ?? ""}`);
      context.err.write(`mosaic: ${what}\n${run.hint ? `  ${escapeControl(run.hint)}\n` : ""}`);
    }
    left = options.keep;
    context.out.write(left ? keptText(daemon) : endText(daemon));
    return failed.length === 0 ? EXIT.ok : EXIT.failed;
  } finally {
    if (!left) await stopDemo(context, daemon, ids);
  }
}

/** Prints progress until all runs have ended; undefined when the signal aborts first. */
async function show(
  link: Link,
  context: Context,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<DemoView[] | undefined> {
  const { isTty, width, color } = context.terminal;
  let drawn = 0;
  while (!signal.aborted) {
    const views: DemoView[] = [];
    let ended = true;
    for (const run of ids) {
      const now = await link.unary(Mosaic.method.getRun, { run }, signal);
      const { buckets } = await link.unary(
        Mosaic.method.getSeries,
        { run, name: "episode_reward", buckets: CURVE_POINTS },
        signal,
      );
      views.push({ run: runJsonOf(now), rewards: buckets.map((b) => b.mean) });
      ended &&= hasEnded(now, Infinity);
    }
    if (isTty) {
      const lines = liveLines(views, { width, color });
      // Move to the first line of the previous output; each line is cleared before it is written.
      if (drawn > 0) context.out.move({ up: drawn });
      for (const line of lines) {
        context.out.move("line");
        context.out.write(`${line}\n`);
      }
      drawn = lines.length;
    } else {
      context.out.write(views.map(plainLine).join(""));
    }
    if (ended) return views;
    await pause(isTty ? TERMINAL_POLL_MS : PLAIN_POLL_MS, signal);
  }
  return undefined;
}

function keptText(daemon: LocalDaemon): string {
  return `
The daemon is still up:
  look around   mosaic list --state-dir ${daemon.stateDir}
  status page   http://${daemon.http}/
  stop it       kill ${daemon.pid}
`;
}

function endText(daemon: LocalDaemon): string {
  return `
The daemon is stopped. Everything lies in ${daemon.stateDir}; look at it again with
  mosaic up --state-dir ${daemon.stateDir}
`;
}

/** Cancels live runs, which would outlive the daemon, then stops the daemon. */
async function stopDemo(
  context: Context,
  daemon: LocalDaemon,
  ids: readonly string[],
): Promise<void> {
  try {
    using link = await Link.open(context, { target: daemon.target });
    const late = AbortSignal.timeout(CANCEL_MS);
    for (const run of ids) await link.unary(Mosaic.method.cancelRun, { run, graceSeconds: 2 });
    for (const run of ids) await untilEnded(link, run, late);
  } catch (error) {
    context.err.write(`mosaic: cannot cancel the runs: ${messageOf(error)}\n`);
  }
  await daemon.stop();
}
