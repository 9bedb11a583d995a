/** `mosaic skill` */
import type { Command } from "commander";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { SKILL } from "../../text/skill_text.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints a skill file in Markdown, which teaches an agent to use this command line.",
    )
    .addHelpText(
      "after",
      manual({
        examples: [[
          "mosaic skill > SKILL.md",
          "where the agent looks for skills, such as skills/mosaic/ of a project",
        ]],
      }),
    )
    .action(() => context.out.write(SKILL));
}
