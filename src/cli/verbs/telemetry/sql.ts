/** `mosaic sql` */
import type { Command } from "commander";
import { Layout, resolveStateDir } from "../../../base/layout.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { outputOption } from "../../verb/flags.ts";
import { csv } from "../../../base/text/csv_text.ts";
import { table } from "../../text/table.ts";
import { escapeControl } from "../../text/text.ts";

export function define(command: Command, context: Context): void {
  command
    .description(
      "Runs one SQL statement on the telemetry of all runs, read-only, beside a daemon or without one. The views " +
        "run_steps, run_episodes, run_events and run_metrics have the columns of the records' JSON. Unlike in sqlite3, " +
        "action, observation and the other texts of run_steps are there for every step. The result is held in memory: " +
        "use LIMIT, or mosaic export for whole runs.",
    )
    .argument("<query>", "one statement of SQLite's SQL")
    .option("--state-dir <dir>", "state directory (default: as for the daemon)");
  outputOption(command, ["table", "jsonl", "json", "csv"])
    .addHelpText(
      "after",
      manual({
        examples: [
          [
            'mosaic sql "SELECT run_id, sum(reward) FROM run_steps GROUP BY run_id"',
            "rewards from steps",
          ],
          [
            'mosaic sql -o csv "SELECT seq, action, observation FROM run_steps LIMIT 5"',
            "with the worker's texts",
          ],
        ],
        exits: { 2: "the statement is faulty", 6: "the database is of another version" },
      }),
    )
    .action(async (sql: string, options: { stateDir?: string; output: string }) => {
      const { query } = await import("../../../telemetry/sql.ts");
      const { telemetryDb, registryDb } = new Layout(
        resolveStateDir(options.stateDir, context.env),
      );
      const damaged = (message: string) => context.err.write(`mosaic: ${escapeControl(message)}\n`);
      const rows = query(telemetryDb, sql, damaged, registryDb);
      const names = Object.keys(rows[0] ?? {});
      switch (options.output) {
        case "json":
          return context.out.write(`${JSON.stringify(rows, null, 2)}\n`);
        case "jsonl":
          return context.out.write(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
        case "csv":
          return context.out.write(
            rows.length === 0 ? "" : csv(names, rows.map((row) => Object.values(row))),
          );
        default: {
          if (rows.length === 0) return context.out.write("No rows.\n");
          const { isTty, width, color } = context.terminal;
          const columns = names.map((name) => ({
            ...{ name, shrinkTo: 8, text: (row: typeof rows[number]) => String(row[name] ?? "") },
            ...(typeof rows[0]![name] === "number" ? { align: "right" as const } : {}),
          }));
          context.out.write(table(columns, rows, { width: isTty ? width : undefined, color }));
        }
      }
    });
}
