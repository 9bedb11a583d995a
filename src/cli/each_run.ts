/** What the verbs share that ask one thing of one or more runs: cancel, pause, resume, throttle, retry, reset, delete. */
import type { Command } from "commander";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Run } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Context } from "./context.ts";
import { exitOfError } from "./exit.ts";
import { connectionFlags, connectionOptions, outputOption, RUN_ARGUMENT } from "./flags.ts";
import { runJson } from "./json.ts";
import { Link } from "./daemon_link.ts";
import { harmless } from "./text.ts";

/** Arguments and options of a verb over several runs. */
export function controlArguments(command: Command): Command {
  command.argument("<run...>", RUN_ARGUMENT);
  return connectionOptions(outputOption(command, ["table", "json", "jsonl"]));
}

/**
 * Asks it of each run; one that is refused does not keep the others from being asked. Prints one line (or JSON object)
 * per run. Gives 0, or the exit code of the first that failed.
 */
export async function forEachRun(
  context: Context,
  refs: readonly string[],
  flags: Record<string, unknown>,
  ask: (link: Link, ref: string) => Promise<Run>,
  done: (run: Run) => string,
): Promise<number> {
  using link = await Link.open(context, connectionFlags(flags));
  let code = 0;
  const answers: unknown[] = [];
  for (const ref of refs) {
    try {
      const run = await ask(link, ref);
      if (flags["output"] === "table") context.out.write(`${run.runId}  ${harmless(done(run))}\n`);
      else answers.push(runJson(run));
    } catch (error) {
      if (!(error instanceof MosaicError) || refs.length === 1) throw error;
      context.err.write(`mosaic: ${harmless(`${ref}: ${messageOf(error)}`)}\n`);
      code ||= exitOfError(error);
    }
  }
  if (flags["output"] === "json") context.out.write(`${JSON.stringify(answers, null, 2)}\n`);
  if (flags["output"] === "jsonl") context.out.write(answers.map((a) => `${JSON.stringify(a)}\n`).join(""));
  return code;
}
