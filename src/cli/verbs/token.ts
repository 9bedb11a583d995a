/** `mosaic token`: the credentials of a state directory. They are read and written as files, so no daemon is needed. */
import { Argument, type Command, Option } from "commander";
import { ensureTokens, type Role, ROLES, rotateTokens, type Tokens } from "../../wire/tokens.ts";
import { Layout, resolveStateDir } from "../../base/layout.ts";
import { manual, oneOf } from "../command.ts";
import type { Context } from "../context.ts";

export function define(command: Command, context: Context): void {
  command
    .description("Shows or replaces the tokens of a daemon with --auth token.")
    .addArgument(oneOf(new Argument("<what>", "action"), ["show", "rotate"]))
    .allowExcessArguments()
    .option("--state-dir <dir>", "state directory (default: $MOSAIC_STATE_DIR, else ~/.local/state/mosaic)")
    .addOption(oneOf(new Option("--role <role>", "role of the token (default: show admin, rotate all)"), ROLES))
    .addHelpText(
      "after",
      manual({
        details:
          "The admin token allows everything, the read token only reading. Rotation invalidates the old tokens " +
          "immediately, also for a running daemon.",
        examples: [
          ["mosaic token show", "print the admin token"],
          ["export MOSAIC_TOKEN=$(ssh HOST mosaic token show --role read)", "read another host's runs"],
          ["mosaic token rotate", "replace both tokens"],
        ],
        environment: [["MOSAIC_STATE_DIR", "the state directory, unless --state-dir is given"]],
        exits: { 0: "done", 1: "the token file cannot be read or written" },
      }),
    )
    .action((what: "show" | "rotate", flags: { stateDir?: string; role?: Role }) => {
      const more = command.args[1];
      if (more !== undefined) {
        const role = ROLES.find((r) => r === more) ?? "read";
        return command.error(
          `unexpected argument "${more}". Give the role as an option: mosaic token ${what} --role ${role}`,
        );
      }
      const path = new Layout(resolveStateDir(flags.stateDir, context.env)).tokensFile;
      if (what === "show") {
        context.out.write(`${ensureTokens(path)[flags.role ?? "admin"]}\n`);
        return;
      }
      const tokens: Tokens = rotateTokens(path, flags.role === undefined ? ROLES : [flags.role]);
      context.out.write(`${tokens[flags.role ?? "admin"]}\n`);
    });
}
