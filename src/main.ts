/** One executable: picks the subcommand and loads only what it needs, because start-up time is mostly imports. */
import { runCli } from "./cli/cli.ts";

if (import.meta.main) Deno.exit(await runCli(Deno.args));
