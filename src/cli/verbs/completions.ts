/** `mosaic completions` */
import { Argument, type Command } from "commander";
import { manual, newCommand, oneOf } from "../command.ts";
import { type CompletedVerb, completionScript, type Shell, SHELLS } from "../completion_scripts.ts";
import type { Context } from "../context.ts";
import { VERBS } from "../verbs.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints a script that completes commands, options and their values, and runs, which it asks of the daemon.",
    )
    .addArgument(oneOf(new Argument("<shell>", "whose script"), SHELLS))
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
    .action(async (shell: Shell) => {
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
