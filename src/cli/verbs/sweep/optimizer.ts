/**
 * `mosaic-optimizer/1`: a program on the other side of standard input and output chooses each
 * point. It needs no memory: the sweep in the registry is the truth, and every start tells it all
 * trials. So whatever dies, the same command goes on.
 *
 * To the optimizer, one JSON object a line: `begin`, a `tell` for each trial that has ended, `ask`,
 * at last `end`; with `--stop optimizer` a `report` of each value at a rung. From it, one line for
 * each `ask`: `{"parameters": {…}}`, or `{"end": true}` if it has no further point; and one for
 * each report with `asks: true`: `{"prune": true}` or false.
 */
import { MosaicError } from "../../../base/errors.ts";
import { parsedJson } from "../../../base/text/json_text.ts";
import { sleep } from "../../../base/time/sleep.ts";
import type { Distribution, SweepSpec, Value } from "../../../sweeps/spec.ts";
import type { SweepJson, TrialJson } from "../../../sweeps/results/sweep_json.ts";
import type { Context } from "../../link/context.ts";
import type { Link } from "../../link/daemon_link.ts";

const PROTOCOL = "mosaic-optimizer/1";
const POLL_MS = 500;
const ALL_TRIALS = 10_000;
const LIVE = ["init", "handshake", "ready", "executing", "paused"];

type Space = readonly { name: string; distribution: Distribution }[];

export interface Optimized {
  name: string;
  runs: number;
  parallel: number;
  metric: NonNullable<SweepSpec["metric"]>;
  /** Where points lie; empty: the optimizer knows it. */
  space: Space;
  /** It may think this long about an answer. */
  answerMs: number;
  /** Parameters with the same value in each trial. */
  fixed: Record<string, Value>;
  /**
   * The sweep whose first point is this. @throws MosaicError for a point that does not fit the
   * command
   */
  specWith: (parameters: Record<string, unknown>) => Promise<SweepSpec>;
}

/**
 * @returns the exit code @throws MosaicError for an optimizer that ends, is silent or says what is
 * no answer
 */
export async function driveSweep(link: Link, context: Context, sweep: Optimized): Promise<number> {
  const { name, runs, parallel, metric, space, fixed } = sweep;
  const lines = context.inputLines()[Symbol.asyncIterator]();
  const say = (message: Record<string, unknown>) =>
    context.out.write(`${JSON.stringify(message)}\n`);
  say({
    type: "begin",
    protocol: PROTOCOL,
    sweep: name,
    metric: metric.name,
    goal: metric.goal,
    runs,
    ...inSpace(space),
  });
  const told = new Set<number>();
  let reported = 0;
  let ended = false;
  for (;;) {
    const known = await find(link, name);
    const trials = known?.detail?.trials.toReversed() ?? [];
    // Values of trials that have ended, too: an optimizer that was started again knows nothing.
    for (const { waits, ...report } of known?.detail?.reports?.slice(reported) ?? []) {
      reported++;
      say({
        type: "report",
        ...report,
        parameters: chosenOf(trials[report.trial]?.parameters ?? {}, fixed),
        asks: waits,
      });
      if (!waits || !prunes(await answer(lines, sweep.answerMs))) continue;
      const extensionJson = JSON.stringify({ trial: report.trial, rung: report.rung });
      await link.unary(link.methods.changeSweep, { sweep: name, action: "prune", extensionJson });
    }
    for (const trial of trials) {
      if (LIVE.includes(trial.state) || told.has(trial.trial)) continue;
      told.add(trial.trial);
      say(tellOf(trial, fixed));
    }
    const total = known?.total ?? 0;
    const live = total - told.size;
    if (known?.state === "cancelled") {
      throw new MosaicError("aborted", `sweep ${name} was cancelled`);
    }
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
    const chosen = pointOf(await answer(lines, sweep.answerMs));
    if (chosen !== undefined) requireWithin(space, chosen);
    const parameters = chosen && { ...fixed, ...chosen };
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

async function begin(
  link: Link,
  sweep: Optimized,
  parameters: Record<string, unknown>,
): Promise<void> {
  const specJson = JSON.stringify(await sweep.specWith(parameters));
  await link.unary(link.methods.createSweep, { specJson, sweepId: "", anyName: false });
}

/** A trial without a value failed, or its metric never came. */
function tellOf(
  { trial, state, parameters, value, steps }: TrialJson,
  fixed: Record<string, Value>,
) {
  return { type: "tell", trial, state, parameters: chosenOf(parameters, fixed), value, steps };
}

const chosenOf = (parameters: Record<string, unknown>, fixed: Record<string, Value>) =>
  Object.fromEntries(Object.entries(parameters).filter(([name]) => !Object.hasOwn(fixed, name)));

/** `begin` names the space, so that one driver serves all sweeps. */
function inSpace(space: Space): { space?: Record<string, unknown>[] } {
  if (space.length === 0) return {};
  return { space: space.map(({ name, distribution }) => ({ name, ...distribution })) };
}

/** @throws MosaicError `invalid_argument` for a point outside of the space */
function requireWithin(space: Space, point: Record<string, unknown>): void {
  if (space.length === 0) return;
  const refuse = (what: string) => {
    throw new MosaicError(
      "invalid_argument",
      `the optimizer's point is outside of the space: ${what}`,
      {
        hint: "Its trials go on; the same command continues the sweep.",
      },
    );
  };
  const unknown = Object.keys(point).find((name) => !space.some((one) => one.name === name));
  if (unknown !== undefined) refuse(`there is no parameter ${JSON.stringify(unknown)}`);
  for (const { name, distribution: of } of space) {
    const value = point[name];
    if (value === undefined) refuse(`${name} is missing`);
    if (of.type === "choice") {
      if (!of.values.some((one) => JSON.stringify(one) === JSON.stringify(value))) {
        refuse(`${name} is ${JSON.stringify(value)}, none of ${JSON.stringify(of.values)}`);
      }
    } else if (
      typeof value !== "number" || value < of.low || value > of.high ||
      (of.type === "int" && value % 1 !== 0)
    ) {
      refuse(
        `${name} is ${JSON.stringify(value)}; it must be a${
          of.type === "int" ? " whole" : ""
        } number from ${of.low} to ${of.high}`,
      );
    }
  }
}

async function answer(lines: AsyncIterator<string>, answerMs: number): Promise<string> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<"late">((resolve) =>
    timer = setTimeout(() => resolve("late"), answerMs)
  );
  try {
    const line = await Promise.race([lines.next(), late]);
    const goesOn = { hint: "Its trials go on; the same command continues the sweep." };
    if (line === "late") {
      throw new MosaicError(
        "deadline_exceeded",
        `the optimizer has not answered for ${answerMs / 1000} s`,
        goesOn,
      );
    }
    if (line.done) {
      throw new MosaicError("unavailable", "the optimizer has ended without an answer", goesOn);
    }
    return line.value;
  } finally {
    clearTimeout(timer);
  }
}

function noAnswer(line: string, form: string): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `the optimizer's answer is ${JSON.stringify(line.slice(0, 200))}`,
    {
      hint: `It must be one line such as ${form}.`,
    },
  );
}

/** @throws MosaicError `invalid_argument` */
function saidIn(line: string, form: string): Record<string, unknown> {
  try {
    const said = parsedJson(line);
    if (typeof said === "object" && said !== null) return said as Record<string, unknown>;
  } catch {
    // Told below, as what is no object.
  }
  throw noAnswer(line, form);
}

/** @returns undefined if the optimizer has no further point */
function pointOf(line: string): Record<string, unknown> | undefined {
  const form = '{"parameters": {"lr": 0.001}}, or {"end": true}';
  const { parameters, end } = saidIn(line, form);
  if (end === true) return undefined;
  if (typeof parameters !== "object" || parameters === null || Array.isArray(parameters)) {
    throw noAnswer(line, form);
  }
  return parameters as Record<string, unknown>;
}

function prunes(line: string): boolean {
  const form = '{"prune": true}, or {"prune": false}';
  const { prune } = saidIn(line, form);
  if (typeof prune !== "boolean") throw noAnswer(line, form);
  return prune;
}
