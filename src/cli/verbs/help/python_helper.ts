/** `mosaic python-helper` */
import type { Command } from "commander";
import { PYTHON_HELPER } from "../../../os/python_helper.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints the module that records what a Python program does (docs/how-to/python.md). Workers of this host import it as " +
        "it is: `import mosaic`. Where it must be a file, as in a container's image, write it there.",
    )
    .addHelpText(
      "after",
      manual({
        examples: [["mosaic python-helper > mosaic.py", "beside the program that imports it"]],
      }),
    )
    .action(() => context.out.write(PYTHON_HELPER));
}
