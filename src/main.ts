/** One executable: picks the subcommand and loads only what it needs, because start-up time is mostly imports. */
import { runCli } from "./cli/cli.ts";
import { giveUpImports } from "./permissions/give_up.ts";

if (import.meta.main) {
  giveUpImports();
  Deno.exit(await runCli(Deno.args));
}
