/** `mosaic completions` */
import { Argument, type Command } from "commander";
import { manual, newCommand, oneOf } from "../command.ts";
import { type CompletedVerb, completionScript, runCandidates, type Shell, SHELLS } from "../completion_scripts.ts";
import type { Context } from "../context.ts";
import { connectionFlags, connectionOptions } from "../flags.ts";
import { Link } from "../daemon_link.ts";
import { VERBS } from "../verbs.ts";

/** The newest. */
const RUNS_OFFERED = 50;

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints a script that completes commands, options and their values, and runs, which it asks of the daemon.",
    )
    .addArgument(
      oneOf(new Argument("<shell>", "whose script; runs: what the scripts offer for a run"), [...SHELLS, "runs"]),
    );
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        examples: [
          ["source <(mosaic completions bash)", "in ~/.bashrc"],
          ['mosaic completions zsh > "${fpath[1]}/_mosaic"', "once, for zsh"],
          ["mosaic completions fish > ~/.config/fish/completions/mosaic.fish", "once, for fish"],
        ],
      }),
    )
    .action(async (shell: Shell | "runs", flags: Record<string, unknown>) => {
      if (shell === "runs") {
        using link = await Link.open(context, connectionFlags(flags));
        const { runs } = await link.unary(link.methods.listRuns, { limit: RUNS_OFFERED });
        context.out.write(runCandidates(runs).map((candidate) => `${candidate}\n`).join(""));
        return;
      }
      context.out.write(completionScript(shell, await describeVerbs(context)));
    });
}

/** What each verb says of itself. */
export async function describeVerbs(context: Context): Promise<CompletedVerb[]> {
  const described: CompletedVerb[] = [];
  for (const verb of VERBS) {
    const command = newCommand(verb, context);
    (await verb.load?.())?.define(command, context, { code: 0 });
    described.push({
      name: verb.name,
      summary: verb.summary,
      options: command.options.map((o) => ({
        long: o.long ?? undefined,
        short: o.short ?? undefined,
        description: o.description,
        choices: o.argChoices ?? [],
      })),
      takesRuns: command.registeredArguments[0]?.name() === "run",
    });
  }
  return described;
}
