/** `mosaic token`: the credentials of a state directory. They are read and written as files, so no daemon is needed. */
import { Argument, type Command, Option } from "commander";
import { ensureTokens, type Role, ROLES, rotateTokens, type Tokens } from "../../wire/tokens.ts";
import { Layout, resolveStateDir } from "../../base/layout.ts";
import { manual, oneOf } from "../command.ts";
import type { Context } from "../context.ts";

export function define(command: Command, context: Context): void {
  command
    .description("Shows or replaces the tokens that a daemon with --auth token asks for.")
    .addArgument(oneOf(new Argument("<what>", "to be done"), ["show", "rotate"]))
    .allowExcessArguments()
    .option("--state-dir <dir>", "state directory (default: $MOSAIC_STATE_DIR, else ~/.local/state/mosaic)")
    .addOption(oneOf(new Option("--role <role>", "whose token (default: show admin, rotate all)"), ROLES))
    .addHelpText(
      "after",
      manual({
        details: "The admin token may do everything; the read token may look, and change nothing. " +
          "After a rotation the old ones are worth nothing at once, on a running daemon too.",
        examples: [
          ["mosaic token show", "print the admin token"],
          ["export MOSAIC_TOKEN=$(ssh HOST mosaic token show --role read)", "look at another host's runs"],
          ["mosaic token rotate", "replace both"],
        ],
        environment: [["MOSAIC_STATE_DIR", "the state directory, where --state-dir is not given"]],
        exits: { 0: "done", 1: "the file cannot be used or written" },
      }),
    )
    .action((what: "show" | "rotate", flags: { stateDir?: string; role?: Role }) => {
      const more = command.args[1];
      if (more !== undefined) {
        const role = ROLES.find((r) => r === more) ?? "read";
        return command.error(
          `"${more}" is one word too many. A role is an option: mosaic token ${what} --role ${role}`,
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
