/**
 * Entry point: dispatches to the subcommand and loads only its modules, because start-up time is
 * mostly imports.
 */
import { type Parts, runCli } from "./cli/cli.ts";
import { giveUpImports } from "./permissions/give_up.ts";

const PARTS: Parts = {
  up: async (args) => await (await import("./daemon/start/command_line.ts")).runDaemon(args, "up"),
  daemon: async (args) => await (await import("./daemon/start/command_line.ts")).runDaemon(args),
  proxy: async (args) => await (await import("./proxy.ts")).runProxy(args),
};

if (import.meta.main) {
  giveUpImports();
  Deno.exit(await runCli(Deno.args, undefined, PARTS));
}
