/** `mosaic completions` */
import { Argument, type Command } from "commander";
import { manual, newCommand, oneOf } from "../command.ts";
import { type CompletedVerb, completionScript, runCandidates, type Shell, SHELLS } from "../completion_scripts.ts";
import type { Context } from "../context.ts";
import { connectionFlags, connectionOptions } from "../flags.ts";
import { Link } from "../daemon_link.ts";
import { VERBS } from "../verbs.ts";

/** The newest runs offered as candidates. */
const RUNS_OFFERED = 50;

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints a completion script for commands, options, option values and runs. The script asks the daemon for the runs.",
    )
    .addArgument(
      oneOf(new Argument("<shell>", "shell; runs: print the candidates for a run argument (used by the scripts)"), [
        ...SHELLS,
        "runs",
      ]),
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

/** Names, summaries and options of all verbs. */
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
