/**
 * `mosaic token`: the credentials of a state directory. They are read and written as files, so no
 * daemon is needed.
 */
import { Argument, type Command, Option } from "commander";
import {
  createToken,
  ensureTokens,
  type NamedToken,
  readTokens,
  revokeToken,
  type Role,
  ROLES,
  rotateTokens,
  STANDARD_TOKENS,
  type StandardToken,
} from "../../../wire/tokens.ts";
import { auditLine } from "../../../wire/audit.ts";
import { Layout, resolveStateDir } from "../../../base/layout.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { durationValue, outputOption } from "../../verb/flags.ts";
import { type Column, table } from "../../text/table.ts";

const ACTIONS = ["show", "rotate", "create", "list", "revoke"] as const;
type Action = typeof ACTIONS[number];

interface Flags {
  stateDir?: string;
  role?: Role;
  name?: string;
  own?: boolean;
  ownOnly?: boolean;
  ttl?: number;
  output: string;
}

export function define(command: Command, context: Context): void {
  command
    .description("Shows, replaces, creates, lists and revokes the tokens of a daemon.")
    .addArgument(oneOf(new Argument("<what>", "action"), ACTIONS))
    .allowExcessArguments()
    .option(
      "--state-dir <dir>",
      "state directory (default: $MOSAIC_STATE_DIR, else ~/.local/state/mosaic)",
    )
    .addOption(
      oneOf(
        new Option(
          "--role <role>",
          "role of the token (default: show admin, rotate admin and read)",
        ),
        ROLES,
      ),
    )
    .option("--own", "the token to create changes only its own runs and sweeps (role operate)")
    .option("--own-only", "it sees only its own, too (roles submit and operate)")
    .option("--name <name>", "name of the token to create or revoke")
    .option(
      "--ttl <age>",
      "time until a created token expires, such as 30d (default: never)",
      durationValue,
    );
  outputOption(command, ["table", "json"])
    .addHelpText(
      "after",
      manual({
        details:
          "Each role includes those before it: read sees runs without their secrets, submit submits runs, operate " +
          "pauses, cancels and retries any run, admin may do everything. With submit, a person can run any program as " +
          "the daemon's user. Who operates only their own runs (--own) may also delete those.\n\nThere are two standard tokens, admin and read; show prints one, rotate replaces them. create " +
          "prints the secret of a named token; only its hash is kept. All changes take effect immediately, also for a " +
          "running daemon.",
        examples: [
          ["mosaic token show", "print the admin token"],
          [
            "export MOSAIC_TOKEN=$(ssh HOST mosaic token show --role read)",
            "read another host's runs",
          ],
          ["mosaic token rotate", "replace both standard tokens"],
          [
            "mosaic token create --name ci --role submit --ttl 30d",
            "print a new token that may submit runs for 30 days",
          ],
          [
            "mosaic token create --name ada --role operate --own",
            "print a token for a person who operates only their runs",
          ],
          ["mosaic token list", "the named tokens"],
          ["mosaic token revoke --name ci", "the token is refused from now on"],
        ],
        environment: [["MOSAIC_STATE_DIR", "the state directory, unless --state-dir is given"]],
        exits: {
          0: "done",
          1: "the token file cannot be read or written",
          4: "there is no such token",
        },
      }),
    )
    .action((what: Action, flags: Flags) => {
      const more = command.args[1];
      if (more !== undefined) {
        const role = ROLES.find((r) => r === more);
        const option = role === undefined ? `--name ${more}` : `--role ${role}`;
        return command.error(
          `unexpected argument "${more}". Give it as an option: mosaic token ${what} ${option}`,
        );
      }
      const layout = new Layout(resolveStateDir(flags.stateDir, context.env));
      const path = layout.tokensFile;
      const named = (): string => flags.name ?? command.error(`"token ${what}" needs --name`);
      const standard = (): StandardToken | undefined =>
        STANDARD_TOKENS.find((name) => name === flags.role) ??
          (flags.role === undefined ? undefined : command.error(
            `"token ${what}" is for the tokens admin and read; named ones are shown once, by create`,
          ));
      // The daemon may not have been started yet; it accepts only directories that others cannot
      // write to.
      const made = (): string => {
        Deno.mkdirSync(layout.trainer, { recursive: true, mode: 0o700 });
        return path;
      };
      switch (what) {
        case "show":
          context.out.write(`${ensureTokens(made())[standard() ?? "admin"]}\n`);
          return;
        case "rotate": {
          const which = standard();
          const tokens = rotateTokens(made(), which === undefined ? STANDARD_TOKENS : [which]);
          entered(layout, `token rotate${which === undefined ? "" : ` ${which}`}`);
          context.out.write(`${tokens[which ?? "admin"]}\n`);
          return;
        }
        case "create": {
          const role = flags.role ?? command.error('"token create" needs --role');
          const name = named();
          const secret = createToken(made(), {
            name,
            role,
            own: flags.own === true,
            alone: flags.ownOnly === true,
            ttlMs: flags.ttl,
          });
          const only = flags.ownOnly ? ", only own runs" : flags.own ? ", own runs" : "";
          entered(layout, `token create ${name} (${role}${only})`);
          context.out.write(
            flags.output === "json"
              ? `${JSON.stringify(createdJson(path, name, secret), null, 2)}\n`
              : `${secret}\n`,
          );
          context.err.write("mosaic: the secret is not kept and cannot be shown again\n");
          return;
        }
        case "revoke":
          revokeToken(path, named());
          entered(layout, `token revoke ${flags.name}`);
          return;
        case "list": {
          const tokens = readTokens(path)?.named ?? [];
          context.out.write(
            flags.output === "json"
              ? `${JSON.stringify(tokens.map(tokenJson), null, 2)}\n`
              : table(columnsAt(context.now()), tokens, {
                width: undefined,
                color: context.terminal.color,
              }),
          );
        }
      }
    });
}

/** Writes the change to the audit log, in the same form as the daemon. */
function entered(layout: Layout, action: string): void {
  const entry = auditLine({ who: "owner", address: "local", action, outcome: "ok" });
  Deno.writeTextFileSync(layout.auditFile, entry, { append: true, mode: 0o600 });
}

function createdJson(path: string, name: string, secret: string) {
  const created = readTokens(path)!.named.find((token) => token.name === name)!;
  return { ...tokenJson(created), secret };
}

const isoOf = (ms: number) => new Date(ms).toISOString();

function tokenJson({ name, role, own = false, alone = false, ...times }: NamedToken) {
  const { createdAt, expiresAt } = times;
  return {
    name,
    role,
    own,
    own_only: alone,
    created_at: isoOf(createdAt),
    expires_at: expiresAt === null ? null : isoOf(expiresAt),
  };
}

function columnsAt(now: number): Column<NamedToken>[] {
  return [
    { name: "name", text: ({ name }) => name },
    {
      name: "role",
      text: ({ role, own, alone }) =>
        alone ? `${role} (only own runs)` : own ? `${role} (own runs)` : role,
    },
    { name: "created", text: ({ createdAt }) => isoOf(createdAt).slice(0, 16).replace("T", " ") },
    {
      name: "expires",
      text: ({ expiresAt }) => {
        if (expiresAt === null) return "never";
        return `${isoOf(expiresAt).slice(0, 16).replace("T", " ")}${
          expiresAt <= now ? " (expired)" : ""
        }`;
      },
    },
  ];
}
