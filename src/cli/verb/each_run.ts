/**
 * Shared by the verbs that act on one or more runs: cancel, pause, resume, throttle, retry, reset,
 * delete, restore.
 */
import type { Command } from "commander";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { type Manual, manual } from "./verb_parser.ts";
import type { Context } from "../link/context.ts";
import { exitOfError } from "../link/exit.ts";
import {
  connectionFlags,
  connectionOptions,
  outputOption,
  repeated,
  RUN_ARGUMENT,
} from "./flags.ts";
import { runJsonOf } from "../../runs/fields/run_json.ts";
import { fetchRuns } from "../link/fetch_runs.ts";
import { type RunState, stateWord } from "../../runs/fields/lifecycle_states.ts";
import type { RunJson } from "../../runs/fields/run_types.ts";
import { parseStates } from "../text/states.ts";
import { Link } from "../link/daemon_link.ts";
import { pathInRun } from "../../base/text/format.ts";
import { escapeControl } from "../text/text.ts";
import type { VerbModule } from "./verb.ts";

type Flags = Record<string, unknown>;

/** A verb over several runs, as its file declares it; `A` is the daemon's answer for one run. */
export interface RunsVerb<A> extends Manual {
  description: string;
  /** Adds the verb's own options, which its help shows first. */
  options?: (command: Command, context: Context) => Command;
  request: (link: Link, ref: string, flags: Flags) => Promise<A>;
  /** The output line of a run, and its JSON. */
  line: (answer: A) => string;
  json: (answer: A) => unknown;
  /** States that a selection is limited to: in others the daemon would refuse. */
  states: readonly RunState[] | ((flags: Flags) => readonly RunState[]);
  /** Its runs may be in the trash, or are all there. */
  trash?: (flags: Flags) => "also" | "only" | "never";
  /**
   * Nothing is done unless it can be done to all runs; and on a terminal, only if the person says
   * yes to this.
   * @throws MosaicError if one of the runs is in the wrong state
   */
  confirm?: (runs: readonly RunJson[], context: Context, flags: Flags) => string;
  /** Waits, if the flags ask for it. @returns the exit code, and the answers as they are then */
  afterwards?: (
    context: Context,
    answers: readonly A[],
    flags: Flags,
  ) => Promise<{ code: number; answers: readonly A[] }>;
}

export function runsVerb<A>(verb: RunsVerb<A>): VerbModule["define"] {
  return (command, context, result) => {
    command.description(verb.description);
    selectionOptions(verb.options?.(command, context) ?? command).argument(
      "[run...]",
      RUN_ARGUMENT,
    );
    if (verb.confirm !== undefined) command.option("-y, --yes", "do not ask, also on a terminal");
    connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
      .addHelpText("after", manual(verb))
      .action(async (refs: string[], flags: Flags) => {
        result.code = await eachRun(context, refs, flags, verb);
      });
  };
}

/** A verb that controls runs: the daemon answers with the run. */
export function controlVerb(
  verb: Omit<RunsVerb<Run>, "line" | "json"> & { done: (run: Run) => string },
) {
  return runsVerb({
    ...verb,
    line: (run: Run) => `${run.runId}  ${escapeControl(verb.done(run))}`,
    json: runJsonOf,
  });
}

/** The next attempt after a retry or reset: "INIT, attempt 2, from checkpoints/1.pt". */
export function nextAttempt({ state, attempt, resumeFrom, directory }: Run): string {
  return `${stateWord(state)}, attempt ${attempt}, from ${
    pathInRun(directory, resumeFrom) || "the beginning"
  }`;
}

/** For every verb that acts on runs. */
function selectionOptions(command: Command): Command {
  return command
    .option(
      "-s, --state <states>",
      "instead of naming runs: those in these states, as for mosaic list",
    )
    .option("-t, --tag <tag>", "instead of naming runs: those with this tag (repeatable)", repeated)
    .option("--where <filter>", "instead of naming runs: those that match, as for mosaic list");
}

const isSelection = (flags: Flags) =>
  ["state", "tag", "where"].some((name) => flags[name] !== undefined);

/** The ids of the selected runs in one of these states; says how many others there are. */
async function selected(
  link: Link,
  flags: Flags,
  { states, trash }: Pick<RunsVerb<never>, "states" | "trash">,
  context: Context,
): Promise<RunJson[]> {
  const found = await fetchRuns(link, {
    deleted: trash?.(flags) === "only",
    states: typeof flags["state"] === "string" ? parseStates(flags["state"]) : [],
    tags: (flags["tag"] as string[] | undefined) ?? [],
    where: String(flags["where"] ?? ""),
  });
  const fitting = typeof states === "function" ? states(flags) : states;
  const runs = found.filter(({ state }) => fitting.includes(state));
  const others = found.length - runs.length;
  if (others > 0) {
    const left = `${others} of ${found.length} selected runs ${
      others === 1 ? "is" : "are"
    } left out`;
    context.err.write(`mosaic: ${left}: this is for ${fitting.map(stateWord).join(", ")}\n`);
  } else if (found.length === 0) context.err.write("mosaic: no run matches\n");
  return runs;
}

/** All runs; if one cannot be found, tells each such name. @returns the runs, or the exit code */
async function allOf(
  link: Link,
  refs: readonly string[],
  context: Context,
  inTrash: boolean,
): Promise<RunJson[] | number> {
  const runs: RunJson[] = [];
  let code = 0;
  let trash: RunJson[] | undefined;
  const find = async (ref: string): Promise<RunJson> => {
    try {
      return runJsonOf(await link.unary(link.methods.getRun, { run: ref }));
    } catch (error) {
      if (!inTrash || !(error instanceof MosaicError) || error.code !== "not_found") throw error;
      trash ??= await fetchRuns(link, { deleted: true });
      const named = trash.filter(({ run_id, name }) =>
        name === ref || run_id.startsWith(ref.toUpperCase())
      );
      if (named.length !== 1) throw error;
      return named[0]!;
    }
  };
  for (const ref of refs) {
    try {
      const run = await find(ref);
      if (!runs.some(({ run_id }) => run_id === run.run_id)) runs.push(run);
    } catch (error) {
      if (!(error instanceof MosaicError) || refs.length === 1) throw error;
      context.err.write(`mosaic: ${escapeControl(`${ref}: ${messageOf(error)}`)}\n`);
      code ||= exitOfError(error);
    }
  }
  if (code === 0) return runs;
  context.err.write("mosaic: nothing was done, because not all of these runs can be found\n");
  return code;
}

const isYes = (answer: string | undefined) => /^y(es)?$/i.test(answer?.trim() ?? "");

/**
 * Calls the daemon for each run, even if it refuses one. Prints a line per run at once, and another
 * if its answer is a different one afterwards; as JSON only the last answers. @returns the exit
 * code: 0, or that of the first failure
 */
async function eachRun<A>(
  context: Context,
  named: readonly string[],
  flags: Flags,
  { request, line, json, states, trash, confirm, afterwards }: RunsVerb<A>,
): Promise<number> {
  const selects = isSelection(flags);
  if (selects && named.length > 0) {
    throw new MosaicError("invalid_argument", "runs are both named and selected", {
      hint: "Name runs, or select them by --state, --tag and --where.",
    });
  }
  if (!selects && named.length === 0) {
    throw new MosaicError("invalid_argument", "no run given", {
      hint:
        "Name runs (an id, its beginning, a name, @last), or select them: -s STATE, -t TAG, --where FILTER.",
    });
  }
  using link = await Link.open(context, connectionFlags(flags));
  const found = selects ? await selected(link, flags, { states, trash }, context) : undefined;
  let refs = found?.map(({ run_id }) => run_id) ?? named;
  if (confirm !== undefined && refs.length > 0) {
    const runs = found ?? await allOf(link, refs, context, trash?.(flags) === "also");
    if (typeof runs === "number") return runs;
    const question = confirm(runs, context, flags);
    if (context.canAsk && flags["yes"] !== true && !isYes(await context.ask(question))) {
      context.err.write("mosaic: nothing was done\n");
      return 0;
    }
    // By their full ids, because a prefix may match another run after a deletion.
    refs = runs.map(({ run_id }) => run_id);
  }
  let code = 0;
  const first: A[] = [];
  const table = flags["output"] === "table";
  for (const ref of refs) {
    try {
      const answer = await request(link, ref, flags);
      first.push(answer);
      if (table) context.out.write(`${line(answer)}\n`);
    } catch (error) {
      if (!(error instanceof MosaicError) || named.length === 1) throw error;
      context.err.write(`mosaic: ${escapeControl(`${ref}: ${messageOf(error)}`)}\n`);
      code ||= exitOfError(error);
    }
  }
  const last = await afterwards?.(context, first, flags) ?? { code: 0, answers: first };
  const answers = last.answers;
  if (table) {
    const changed = answers.map(line).filter((text, i) => text !== line(first[i]!));
    context.out.write(changed.map((text) => `${text}\n`).join(""));
  }
  if (flags["output"] === "json") {
    context.out.write(`${JSON.stringify(answers.map(json), null, 2)}\n`);
  }
  if (flags["output"] === "jsonl") {
    context.out.write(answers.map((a) => `${JSON.stringify(json(a))}\n`).join(""));
  }
  return code || last.code;
}
