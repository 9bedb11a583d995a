/**
 * `mosaic audit`: the audit log of a state directory. Read as a file, so only the daemon's user can
 * use it.
 */
import type { Command } from "commander";
import { Layout, resolveStateDir } from "../../../base/layout.ts";
import { readTextIfThere } from "../../../os/files/files.ts";
import { type AuditLine, parseAuditLine } from "../../../wire/audit.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { outputOption, wholeNumber } from "../../verb/flags.ts";
import { type Column, table } from "../../text/table.ts";

/** The current file and the full ones before it (src/daemon/start/log_file.ts). */
const FILES = [".3", ".2", ".1", ""];
const SHOWN = 50;

interface Flags {
  stateDir?: string;
  limit: number;
  run?: string;
  who?: string;
  refused?: boolean;
  output: string;
}

export function define(command: Command, context: Context): void {
  command
    .description(
      "Shows who changed what, when and with which outcome, and who was refused; the newest last.",
    )
    .option(
      "--state-dir <dir>",
      "state directory (default: $MOSAIC_STATE_DIR, else ~/.local/state/mosaic)",
    )
    .option("-l, --limit <n>", "maximum number of entries", wholeNumber(1), SHOWN)
    .option("--run <id>", "only entries that name this run")
    .option("--who <name>", "only entries of this token (owner: the daemon's user)")
    .option("--refused", "only what somebody was not allowed to do");
  outputOption(command, ["table", "json", "jsonl"])
    .addHelpText(
      "after",
      manual({
        details:
          "WHO is the name of a token, owner for the daemon's user without one, anybody under --auth none, nobody for a " +
          "missing or wrong credential. Workers' own calls are entered only when they are refused. The log keeps up to " +
          "16 MiB; of refusals, at most one a second beyond the first 60.",
        examples: [
          ["mosaic audit", `the newest ${SHOWN} entries`],
          ["mosaic audit --refused", "calls that were refused"],
          ["mosaic audit --who ci -o jsonl", "all that a token did, for a program"],
        ],
        environment: [["MOSAIC_STATE_DIR", "the state directory, unless --state-dir is given"]],
        exits: { 0: "done", 1: "the log cannot be read" },
      }),
    )
    .action((flags: Flags) => {
      const { auditFile } = new Layout(resolveStateDir(flags.stateDir, context.env));
      const lines = FILES.flatMap((suffix) =>
        (readTextIfThere(`${auditFile}${suffix}`) ?? "").split("\n")
      );
      const entries = lines.map(parseAuditLine).filter((entry) => entry !== undefined).filter((
        entry,
      ) =>
        (flags.run === undefined || entry.run === flags.run) &&
        (flags.who === undefined || entry.who === flags.who) &&
        (flags.refused !== true || ["unauthenticated", "permission_denied"].includes(entry.outcome))
      ).slice(-flags.limit);
      switch (flags.output) {
        case "json":
          context.out.write(`${JSON.stringify(entries, null, 2)}\n`);
          return;
        case "jsonl":
          for (const entry of entries) context.out.write(`${JSON.stringify(entry)}\n`);
          return;
        default: {
          const { isTty, width, color } = context.terminal;
          context.out.write(table(COLUMNS, entries, { width: isTty ? width : undefined, color }));
        }
      }
    });
}

const COLUMNS: readonly Column<AuditLine>[] = [
  { name: "time", text: ({ at }) => at.slice(0, 19).replace("T", " ") },
  { name: "who", text: ({ who }) => who },
  {
    name: "from",
    text: ({ address, uid }) => uid === undefined ? address : `${address} (user ${uid})`,
  },
  { name: "action", text: ({ action }) => action },
  { name: "run", text: ({ run }) => run ?? "" },
  {
    name: "outcome",
    text: ({ outcome, skipped }) => skipped ? `${outcome} (${skipped} more before)` : outcome,
  },
  { name: "message", shrinkTo: 10, text: ({ message }) => message ?? "" },
];
