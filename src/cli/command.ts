/** A verb's argument parser with the habits all of them share. */
import { Command } from "commander";
import type { Context } from "./context.ts";
import type { Verb } from "./verbs.ts";

export function newCommand(verb: Verb, context: Context): Command {
  const command = new Command(`mosaic ${verb.name}`);
  command
    .summary(verb.summary)
    .exitOverride()
    .helpOption("-h, --help", "show this help")
    .showHelpAfterError(`  "mosaic ${verb.name} --help" shows the arguments.`)
    .configureOutput({
      writeOut: (text) => context.out.write(text),
      writeErr: (text) => context.err.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, "mosaic: ")),
      getOutHelpWidth: () => Math.min(context.terminal.width, 120),
      getErrHelpWidth: () => Math.min(context.terminal.width, 120),
      getOutHasColors: () => context.terminal.color,
      getErrHasColors: () => false,
    });
  return command;
}

/** The sections of a manual page that come after the options. */
export function manual(
  sections: { details?: string; examples: [command: string, what: string][]; exits?: string },
): string {
  const parts: string[] = [];
  if (sections.details) parts.push(`\n${sections.details.trim()}`);
  parts.push(`\nExamples:\n${sections.examples.map(([c, what]) => `  $ ${c}\n      ${what}`).join("\n")}`);
  if (sections.exits) {
    parts.push(`\nExit codes:\n${sections.exits.trim().split("\n").map((l) => `  ${l.trim()}`).join("\n")}`);
  }
  return parts.join("\n");
}
