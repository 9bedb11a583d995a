/** Shared by the verbs that act on one or more runs: cancel, pause, resume, throttle, retry, reset. */
import type { Command } from "commander";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { type Manual, manual } from "./verb_parser.ts";
import type { Context } from "../link/context.ts";
import { exitOfError } from "../link/exit.ts";
import { connectionFlags, connectionOptions, outputOption, RUN_ARGUMENT } from "./flags.ts";
import { runJsonOf } from "../../runs/fields/run_json.ts";
import { Link } from "../link/daemon_link.ts";
import { pathInRun } from "../../base/text/format.ts";
import { escapeControl } from "../text/text.ts";
import type { VerbModule } from "./verb.ts";

type Flags = Record<string, unknown>;

/** A verb over several runs, as its file declares it; `A` is the daemon's answer for one run. */
export interface RunsVerb<A> extends Manual {
  description: string;
  /** Adds the verb's own options, which its help shows first. */
  options?: (command: Command) => Command;
  request: (link: Link, ref: string, flags: Flags) => Promise<A>;
  /** The output line of a run, and its JSON. */
  line: (answer: A) => string;
  json: (answer: A) => unknown;
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
    (verb.options?.(command) ?? command).argument("<run...>", RUN_ARGUMENT);
    connectionOptions(outputOption(command, ["table", "json", "jsonl"]))
      .addHelpText("after", manual(verb))
      .action(async (refs: string[], flags: Flags) => {
        result.code = await eachRun(context, refs, flags, verb);
      });
  };
}

/** A verb that controls runs: the daemon answers with the run. */
export function controlVerb(verb: Omit<RunsVerb<Run>, "line" | "json"> & { done: (run: Run) => string }) {
  return runsVerb({ ...verb, line: (run: Run) => `${run.runId}  ${escapeControl(verb.done(run))}`, json: runJsonOf });
}

/** The next attempt after a retry or reset: "INIT, attempt 2, from checkpoints/1.pt". */
export function nextAttempt({ state, attempt, resumeFrom, directory }: Run): string {
  return `${state}, attempt ${attempt}, from ${pathInRun(directory, resumeFrom) || "the beginning"}`;
}

/**
 * Calls the daemon for each run, even if it refuses one. Prints a line per run at once, and another if its answer is a
 * different one afterwards; as JSON only the last answers. @returns the exit code: 0, or that of the first failure
 */
async function eachRun<A>(
  context: Context,
  refs: readonly string[],
  flags: Flags,
  { request, line, json, afterwards }: RunsVerb<A>,
): Promise<number> {
  using link = await Link.open(context, connectionFlags(flags));
  let code = 0;
  const first: A[] = [];
  const table = flags["output"] === "table";
  for (const ref of refs) {
    try {
      const answer = await request(link, ref, flags);
      first.push(answer);
      if (table) context.out.write(`${line(answer)}\n`);
    } catch (error) {
      if (!(error instanceof MosaicError) || refs.length === 1) throw error;
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
  if (flags["output"] === "json") context.out.write(`${JSON.stringify(answers.map(json), null, 2)}\n`);
  if (flags["output"] === "jsonl") context.out.write(answers.map((a) => `${JSON.stringify(json(a))}\n`).join(""));
  return code || last.code;
}
