/** `mosaic ts-client` */
import type { Command } from "commander";
import script from "../../../gen/client/mosaic.js" with { type: "text" };
import text from "../../../os/ts_client/mosaic.ts" with { type: "text" };
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";

export const TS_CLIENT: string = text;
/** Without types, for runtimes that do not strip them. */
export const JS_CLIENT: string = script;

export function define(command: Command, context: Context): void {
  command
    .description(
      "Prints the module with which programs in TypeScript and JavaScript read, submit and wait for runs, on Deno and Node " +
        "(docs/how-to/typescript.md). It is one file without dependencies.",
    )
    .option("--js", "JavaScript without types, for Node before 22.18")
    .addHelpText(
      "after",
      manual({
        examples: [
          ["mosaic ts-client > mosaic.ts", "beside the program that imports it"],
          ["mosaic ts-client --js > mosaic.mjs", "for an older Node"],
        ],
      }),
    )
    .action((flags: { js?: boolean }) =>
      context.out.write(flags.js === true ? JS_CLIENT : TS_CLIENT)
    );
}
