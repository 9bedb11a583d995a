/** The command lines of the programs behind `deno task`. */
import { parseArgs, type ParseArgsOptionsConfig } from "node:util";

/**
 * `--help` prints the comment at the beginning of the program's file, and a mistake exits with 2.
 * @param module the program's `import.meta.url`
 * @param positionals whether there may be words that are no options
 * @param more is printed after the comment
 */
export function taskArguments<T extends ParseArgsOptionsConfig>(
  module: string,
  options: T,
  { positionals = false, more = "" } = {},
) {
  try {
    const all = { ...options, help: { type: "boolean", short: "h" } } as const;
    const { values, positionals: words } = parseArgs({
      args: Deno.args,
      options: all,
      allowPositionals: positionals,
    });
    if (!("help" in values)) return { values, words };
  } catch (error) {
    console.error(`${(error as Error).message}\n--help lists the options`);
    Deno.exit(2);
  }
  const comment = /^\/\*\*\n([^]*?)\n \*\//m.exec(Deno.readTextFileSync(new URL(module)))![1]!;
  console.log(comment.replace(/^ \* ?/gm, "") + more);
  Deno.exit(0);
}
