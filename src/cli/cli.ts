/**
 * The command line: finds the verb, loads its module, runs it, and turns errors into a message and
 * an exit code.
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import { explainPath } from "../permissions/missing.ts";
import { escapeControl } from "../base/text/terminal_text.ts";
import { VERSION_TEXT } from "../base/version.ts";
import type { Context } from "./link/context.ts";
import { realContext } from "./real_context.ts";
import { EXIT, exitOfError } from "./link/exit.ts";
import { didYouMean } from "../base/text/nearest.ts";
import { overview } from "./overview.ts";
import { ReaderGone } from "./link/output.ts";
import { findVerb, VERBS } from "./verbs.ts";
import type { Verb, VerbModule } from "./verb/verb.ts";
import { troubleOf } from "../os/processes/shortage.ts";

/**
 * Entry points of the long-running parts (daemon, proxy), by verb. Each resolves to its exit code.
 */
export type Parts = Readonly<Record<string, (args: string[]) => Promise<number>>>;

/** Runs one command; never throws. @returns the exit code (src/cli/link/exit.ts) */
export async function runCli(
  args: string[],
  context: Context = realContext(),
  parts: Parts = {},
): Promise<number> {
  try {
    return await dispatch(args, context, parts);
  } catch (error) {
    if (error instanceof ReaderGone) return EXIT.ok;
    return report(explainPath(error), context);
  }
}

async function dispatch(args: string[], context: Context, parts: Parts): Promise<number> {
  const [first, ...rest] = args;
  if (first === undefined) {
    context.err.write(overview());
    return EXIT.usage;
  }
  if (first === "--version" || first === "-V" || first === "version") {
    context.out.write(`${VERSION_TEXT}\n`);
    return EXIT.ok;
  }
  if (first === "--help" || first === "-h" || (first === "help" && rest.length === 0)) {
    context.out.write(overview());
    return EXIT.ok;
  }
  if (first === "help" && rest[0] === "all") {
    context.out.write(overview(true));
    return EXIT.ok;
  }
  if (first === "help") return await dispatch([rest[0]!, "--help"], context, parts);
  const verb = findVerb(first);
  if (verb === undefined) {
    const what = first.startsWith("-") ? `unknown option ${first}` : `unknown command "${first}"`;
    const names = VERBS.flatMap((v) => [v.name, ...v.aliases ?? []]);
    throw new MosaicError("invalid_argument", `${what}.${didYouMean(first, names)}`, {
      hint: `See "mosaic --help" for all commands.`,
    });
  }
  return verb.load === undefined
    ? await parts[verb.name]!(rest)
    : await runVerb(verb, verb.load, rest, context);
}

/** Instead of the verb's action: the command was run on another host. */
const DONE_ELSEWHERE = new Error("done on another host");

async function runVerb(
  verb: Verb,
  load: () => Promise<VerbModule>,
  args: string[],
  context: Context,
): Promise<number> {
  const [{ CommanderError }, { newCommand }, module] = await Promise.all([
    import("commander"),
    import("./verb/verb_parser.ts"),
    load(),
  ]);
  if (verb.now !== undefined && !args.includes("--help") && !args.includes("-h")) {
    context.err.write(`mosaic: "mosaic ${verb.name}" is now "mosaic ${verb.now}"\n`);
  }
  const result = { code: EXIT.ok as number };
  const command = newCommand(verb, context);
  module.define(command, context, result, VERBS);
  command.hook("preAction", async (_, acting) => {
    const { host, allHosts } = acting.optsWithGlobals();
    if (typeof host !== "string" && allHosts !== true) return;
    result.code = allHosts === true
      ? await (await import("./hosts/all_hosts.ts")).listAllHosts(context, args, acting.opts())
      : await (await import("./hosts/on_host.ts")).onHost(
        context,
        host,
        verb.name,
        args,
        acting === command,
      );
    throw DONE_ELSEWHERE;
  });
  try {
    await command.parseAsync(args, { from: "user" });
  } catch (error) {
    if (error === DONE_ELSEWHERE) return result.code;
    // Commander has already written its message or the help.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    throw error;
  }
  return result.code;
}

/** A full disk or a file system whose server has ended is no bug. */
function ofTheMachine(error: unknown): unknown {
  const trouble = error instanceof Deno.errors.PermissionDenied ? undefined : troubleOf(error);
  if (trouble === undefined) return error;
  return new MosaicError("unavailable", `${trouble[0]} (${messageOf(error)})`, {
    hint: trouble[1],
    cause: error,
  });
}

/** Prints the error on one line and its hint on the next. */
function report(thrown: unknown, context: Context): number {
  const error = ofTheMachine(thrown);
  // Escape: messages contain names of runs and files.
  const lines = [`mosaic: ${escapeControl(messageOf(error))}`];
  if (error instanceof MosaicError && error.hint) lines.push(`  ${escapeControl(error.hint)}`);
  if (!(error instanceof MosaicError)) {
    lines.push("  This is a bug in mosaic; set MOSAIC_TRACE=1 for a stack trace.");
  }
  const traced = error instanceof MosaicError ? error.cause : error;
  if (context.env("MOSAIC_TRACE") && traced instanceof Error) lines.push(traced.stack ?? "");
  try {
    context.err.write(`${lines.join("\n")}\n`);
  } catch (writing) {
    if (!(writing instanceof ReaderGone)) throw writing;
  }
  return exitOfError(error);
}
