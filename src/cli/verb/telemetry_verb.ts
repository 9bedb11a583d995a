/**
 * Shared by `steps`, `episodes`, `metrics` and `events --worker`: reads a run's records and prints
 * them.
 */
import type { Command } from "commander";
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import { formerly, type Manual, manual } from "./verb_parser.ts";
import type { Context } from "../link/context.ts";
import { EXIT } from "../link/exit.ts";
import {
  connectionFlags,
  connectionOptions,
  type Format,
  outputOption,
  RUN_ARGUMENT,
  wholeNumber,
} from "./flags.ts";
import { warnOfGap } from "../link/gaps.ts";
import { interruptible } from "../link/interrupt.ts";
import { Link } from "../link/daemon_link.ts";
import {
  csvCells,
  fieldNames,
  type Kind,
  parseLines,
  recordColumns,
  type TelemetryRecord,
} from "../text/records.ts";
import { csv, csvLine } from "../../base/text/csv_text.ts";
import { table } from "../text/table.ts";
import type { VerbModule } from "./verb.ts";

/** A table without --since, --limit or --tail shows this many of the newest records. */
const TABLE_TAIL = 20;
const FOLLOW_RETRY_MS = 120_000;

export function telemetryOptions(command: Command, context: Context): Command {
  command
    .option("-f, --follow", "continue with new records until the run has ended")
    .option("--since <seq>", "only records after this seq", wholeNumber())
    .option("-l, --limit <n>", "maximum number of records", wholeNumber(1))
    .option("--tail <n>", "only the newest n records (with --follow: and new ones)", wholeNumber());
  formerly(command, context, "-n <n>", "--limit");
  return connectionOptions(outputOption(command, ["table", "jsonl", "json", "csv"]));
}

/** A verb that prints the records of one kind, as its file declares it. */
export interface RecordsVerb extends Manual {
  kind: Kind;
  description: string;
}

export function recordsVerb({ kind, description, ...sections }: RecordsVerb): VerbModule["define"] {
  return (command, context, result) => {
    command.description(description).argument("<run>", RUN_ARGUMENT);
    telemetryOptions(command, context)
      .addHelpText(
        "after",
        manual({ exits: { 130: "interrupted by Ctrl-C; the run continues" }, ...sections }),
      )
      .action(async (run: string, flags: Record<string, unknown>) => {
        result.code = await printTelemetry(context, { run, kind }, flags);
      });
  };
}

export interface TelemetryQuery {
  run: string;
  kind: Kind;
  /** Keeps only matching records. Needs every record parsed. */
  where?: (record: TelemetryRecord) => boolean;
}

/** Prints the records that the flags select. @returns the exit code */
export async function printTelemetry(
  context: Context,
  { run: ref, kind, where }: TelemetryQuery,
  flags: Record<string, unknown>,
): Promise<number> {
  const follow = flags["follow"] === true;
  const format = flags["output"] as Format;
  return await interruptible(context, follow ? "the run continues" : "", async (signal) => {
    using link = await Link.open(context, connectionFlags(flags), {
      retryMs: follow ? FOLLOW_RETRY_MS : 0,
    });
    const run = await link.unary(link.methods.getRun, { run: ref }, signal);
    const printer = new Printer(context, kind, format, follow);
    let left = Number(flags["limit"] ?? Infinity);
    /**
     * `all`: request without a limit, because records are filtered or counted only after reading.
     */
    const batchesAfter = (seq: number, { following, all }: { following: boolean; all: boolean }) =>
      link.resumed(
        link.methods.streamTelemetry,
        (sinceSeq) => ({
          ...{ run: run.runId, kind, sinceSeq, follow: following },
          limit: all || left === Infinity ? 0n : BigInt(left),
        }),
        (batch) => batch.lastSeq,
        BigInt(seq),
        signal,
        async (at) =>
          countOf(await link.unary(link.methods.getRun, { run: run.runId }, signal), kind) >
            Number(at),
      );
    const wanted = (jsonl: Uint8Array) => parseLines(jsonl).filter(where ?? (() => true));
    const print = (records: TelemetryRecord[]) => {
      printer.print(records.slice(0, left));
      left -= records.length;
    };
    const newest = newestOf(flags, format);
    let since = Number(flags["since"] ?? 0);
    if (newest !== undefined && where === undefined && kind !== "metrics") {
      since = Math.max(0, countOf(run, kind) - newest);
    } else if (newest !== undefined) {
      // The run does not count these records: read all, keep the newest.
      const kept: TelemetryRecord[] = [];
      for await (const { jsonl, lastSeq } of batchesAfter(0, { following: false, all: true })) {
        kept.push(...wanted(jsonl));
        kept.splice(0, Math.max(0, kept.length - newest));
        since = Number(lastSeq);
      }
      print(kept);
      if (!follow) left = 0;
    }
    if (left > 0) {
      let last = since;
      for await (
        const batch of batchesAfter(since, { following: follow, all: where !== undefined })
      ) {
        warnOfGap(context, kind, last, Number(batch.firstSeq));
        last = Number(batch.lastSeq);
        if (format === "jsonl" && where === undefined) {
          context.out.writeBytes(batch.jsonl);
          left -= Number(batch.lastSeq - batch.firstSeq) + 1;
        } else print(wanted(batch.jsonl));
        if (left <= 0) break;
      }
      if (left > 0 && !signal.aborted) {
        const ended = follow
          ? await link.unary(link.methods.getRun, { run: run.runId }, signal)
          : run;
        warnOfGap(context, kind, last, countOf(ended, kind) + 1);
      }
    }
    printer.end();
    return EXIT.ok;
  });
}

/** How many of the newest records to print; undefined: print from the beginning or from --since. */
function newestOf(flags: Record<string, unknown>, format: Format): number | undefined {
  if (flags["since"] !== undefined) return undefined;
  if (flags["tail"] !== undefined) return Number(flags["tail"]);
  return format === "table" && flags["limit"] === undefined ? TABLE_TAIL : undefined;
}

/** The run's count of records of this kind; 0 for metrics, which it does not count. */
function countOf(run: Run, kind: Kind): number {
  return kind === "metrics" ? 0 : Number(run.telemetry?.[kind] ?? 0);
}

class Printer {
  readonly #context: Context;
  readonly #kind: Kind;
  readonly #format: Format;
  readonly #follow: boolean;
  #held: TelemetryRecord[] = [];
  #begun = false;

  constructor(context: Context, kind: Kind, format: Format, follow: boolean) {
    this.#context = context;
    this.#kind = kind;
    this.#format = format;
    this.#follow = follow;
  }

  print(records: TelemetryRecord[]): void {
    const { out } = this.#context;
    switch (this.#format) {
      case "jsonl":
        return out.write(records.map((r) => `${JSON.stringify(r)}\n`).join(""));
      case "csv": {
        if (!this.#begun) out.write(csv(fieldNames(this.#kind), []));
        this.#begun = true;
        return out.write(records.map((r) => csvLine(csvCells(this.#kind, r))).join(""));
      }
      case "json":
        if (records.length === 0) return;
        out.write(
          `${this.#begun ? ",\n" : "[\n"}${records.map((r) => JSON.stringify(r)).join(",\n")}`,
        );
        this.#begun = true;
        return;
      default:
        // Align the whole table at once; with --follow, write each batch as it arrives.
        this.#held.push(...records);
        if (this.#follow || this.#held.length >= 1000) this.#flushTable();
    }
  }

  end(): void {
    if (this.#format === "json") this.#context.out.write(this.#begun ? "\n]\n" : "[]\n");
    if (this.#format === "csv" && !this.#begun) this.print([]);
    if (this.#format !== "table") return;
    this.#flushTable();
    if (!this.#begun) this.#context.out.write(`No ${this.#kind}.\n`);
  }

  #flushTable(): void {
    if (this.#held.length === 0) return;
    const { isTty, width, color } = this.#context.terminal;
    const options = { width: isTty ? width : undefined, color, heading: !this.#begun };
    this.#context.out.write(table(recordColumns(this.#kind), this.#held, options));
    this.#held = [];
    this.#begun = true;
  }
}
