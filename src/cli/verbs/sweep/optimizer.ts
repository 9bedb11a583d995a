/**
 * `mosaic-optimizer/1`: a program on the other side of standard input and output chooses each point. It needs no memory: the
 * sweep in the registry is the truth, and every start tells it all trials. So whatever dies, the same command goes on.
 *
 * To the optimizer, one JSON object a line: `begin`, a `tell` for each trial that has ended, `ask`, at last `end`. From it,
 * one line for each `ask`: `{"parameters": {…}}`, or `{"end": true}` if it has no further point.
 */
import { MosaicError } from "../../../base/errors.ts";
import { parsedJson } from "../../../base/text/json_text.ts";
import { sleep } from "../../../base/time/sleep.ts";
import type { SweepSpec } from "../../../sweeps/spec.ts";
import type { SweepJson, TrialJson } from "../../../sweeps/results/sweep_json.ts";
import type { Context } from "../../link/context.ts";
import type { Link } from "../../link/daemon_link.ts";

const PROTOCOL = "mosaic-optimizer/1";
const POLL_MS = 500;
/** An optimizer may think this long about a point. */
const ANSWER_MS = 300_000;
const ALL_TRIALS = 10_000;
const LIVE = ["init", "handshake", "ready", "executing", "paused"];

export interface Optimized {
  name: string;
  runs: number;
  parallel: number;
  metric: NonNullable<SweepSpec["metric"]>;
  /** The sweep whose first point is this. @throws MosaicError for a point that does not fit the command */
  specWith: (parameters: Record<string, unknown>) => Promise<SweepSpec>;
}

/** @returns the exit code @throws MosaicError for an optimizer that ends, is silent or says what is no answer */
export async function driveSweep(link: Link, context: Context, sweep: Optimized): Promise<number> {
  const { name, runs, parallel, metric } = sweep;
  const lines = context.inputLines()[Symbol.asyncIterator]();
  const say = (message: Record<string, unknown>) => context.out.write(`${JSON.stringify(message)}\n`);
  say({ type: "begin", protocol: PROTOCOL, sweep: name, metric: metric.name, goal: metric.goal, runs });
  const told = new Set<number>();
  let ended = false;
  for (;;) {
    const known = await find(link, name);
    const trials = known?.detail?.trials.toReversed() ?? [];
    for (const trial of trials) {
      if (LIVE.includes(trial.state) || told.has(trial.trial)) continue;
      told.add(trial.trial);
      say(tellOf(trial));
    }
    const total = known?.total ?? 0;
    const live = total - told.size;
    if (known?.state === "cancelled") throw new MosaicError("aborted", `sweep ${name} was cancelled`);
    if (live === 0 && (ended || total >= runs)) {
      const best = known?.detail?.best ?? null;
      say({ type: "end", best: best === null ? null : { ...best, command: undefined } });
      return Object.keys(known?.states ?? {}).includes("faulted") ? 1 : 0;
    }
    if (ended || live >= parallel || total >= runs) {
      await sleep(POLL_MS);
      continue;
    }
    say({ type: "ask", trial: total });
    const parameters = pointOf(await answer(lines));
    if (parameters === undefined) ended = true;
    else if (known === undefined) await begin(link, sweep, parameters);
    else {
      const extensionJson = JSON.stringify({ axes: [], space: [], rows: [parameters] });
      await link.unary(link.methods.changeSweep, { sweep: name, action: "extend", extensionJson });
    }
  }
}

async function find(link: Link, name: string): Promise<SweepJson | undefined> {
  try {
    const { json } = await link.unary(link.methods.getSweep, { sweep: name, trials: ALL_TRIALS });
    return JSON.parse(json);
  } catch (error) {
    if (error instanceof MosaicError && error.code === "not_found") return undefined;
    throw error;
  }
}

async function begin(link: Link, sweep: Optimized, parameters: Record<string, unknown>): Promise<void> {
  const specJson = JSON.stringify(await sweep.specWith(parameters));
  await link.unary(link.methods.createSweep, { specJson, sweepId: "", anyName: false });
}

/** A trial without a value failed, or its metric never came. */
function tellOf({ trial, state, parameters, value, steps }: TrialJson): Record<string, unknown> {
  return { type: "tell", trial, state, parameters, value, steps };
}

async function answer(lines: AsyncIterator<string>): Promise<string> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) => timer = setTimeout(() => resolve("late"), ANSWER_MS));
  try {
    const line = await Promise.race([lines.next(), late]);
    const goesOn = { hint: "Its trials go on; the same command continues the sweep." };
    if (line === "late") {
      throw new MosaicError("deadline_exceeded", `the optimizer has not answered for ${ANSWER_MS / 1000} s`, goesOn);
    }
    if (line.done) throw new MosaicError("unavailable", "the optimizer has ended without an answer", goesOn);
    return line.value;
  } finally {
    clearTimeout(timer);
  }
}

/** @returns undefined if the optimizer has no further point */
function pointOf(line: string): Record<string, unknown> | undefined {
  const refuse = () => {
    throw new MosaicError("invalid_argument", `the optimizer's answer is ${JSON.stringify(line.slice(0, 200))}`, {
      hint: 'It must be one line such as {"parameters": {"lr": 0.001}}, or {"end": true}.',
    });
  };
  let said: unknown;
  try {
    said = parsedJson(line);
  } catch {
    return refuse();
  }
  const { parameters, end } = (said ?? {}) as { parameters?: unknown; end?: unknown };
  if (end === true) return undefined;
  if (typeof parameters !== "object" || parameters === null || Array.isArray(parameters)) return refuse();
  return parameters as Record<string, unknown>;
}
