/** Shared by the verbs that act on one or more runs: cancel, pause, resume, throttle, retry, reset. */
import type { Command } from "commander";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Run } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Context } from "./context.ts";
import { exitOfError } from "./exit.ts";
import { connectionFlags, connectionOptions, outputOption, RUN_ARGUMENT } from "./flags.ts";
import { runJson } from "./json.ts";
import { Link } from "./daemon_link.ts";
import { harmless } from "./text.ts";

/** Arguments and options of a verb that acts on several runs. */
export function controlArguments(command: Command): Command {
  command.argument("<run...>", RUN_ARGUMENT);
  return connectionOptions(outputOption(command, ["table", "json", "jsonl"]));
}

/**
 * Calls `request` for each run and prints one line (or JSON object) per run. An error for one run does not stop the
 * others. @returns 0, or the exit code of the first error
 */
export async function forEachRun(
  context: Context,
  refs: readonly string[],
  flags: Record<string, unknown>,
  request: (link: Link, ref: string) => Promise<Run>,
  done: (run: Run) => string,
): Promise<number> {
  using link = await Link.open(context, connectionFlags(flags));
  let code = 0;
  const answers: unknown[] = [];
  for (const ref of refs) {
    try {
      const run = await request(link, ref);
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
