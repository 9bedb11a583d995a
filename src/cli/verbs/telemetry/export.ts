/** `mosaic export` */
import { type Command, Option } from "commander";
import { MosaicError } from "../../../base/errors.ts";
import { manual, oneOf } from "../../verb/verb_parser.ts";
import type { Context } from "../../link/context.ts";
import { EXIT } from "../../link/exit.ts";
import {
  commaSeparated,
  connectionFlags,
  connectionOptions,
  RUN_ARGUMENT,
} from "../../verb/flags.ts";
import { bytes as sizeText, count } from "../../../base/text/format.ts";
import { warnOfGap } from "../../link/gaps.ts";
import { interruptible } from "../../link/interrupt.ts";
import { runDetailJsonOf } from "../../../runs/fields/run_json.ts";
import { codeJson, fetchCode } from "../../code/fetch_code.ts";
import { Progress } from "../../link/progress.ts";
import { Link } from "../../link/daemon_link.ts";
import { didYouMean } from "../../../base/text/nearest.ts";
import { fileOutput, type Output } from "../../link/output.ts";
import { isStandardOutput } from "../../link/standard_streams.ts";
import {
  csvCells,
  fieldNames,
  type Kind,
  parseLines,
  type TelemetryRecord,
} from "../../text/records.ts";
import { csv, csvLine } from "../../../base/text/csv_text.ts";
import { escapeControl } from "../../text/text.ts";
import { TELEMETRY_KINDS } from "../../../records/record_fields.ts";

const FORMATS = ["jsonl", "csv", "parquet", "tensorboard", "minari", "mosaic"] as const;
type ExportFormat = typeof FORMATS[number];
const RETRY_MS = 120_000;

export function define(command: Command, caller: Context, result: { code: number }): void {
  command
    .description(
      "Writes a run's telemetry to files, one per kind of record, and run.json (everything known about the run). " +
        "Exporting a live run writes what is stored so far.",
    )
    .argument("<run...>", `${RUN_ARGUMENT}; several: --format minari`)
    .addOption(oneOf(new Option("--format <format>", "file format"), FORMATS).makeOptionMandatory())
    .option(
      "-k, --kind <kinds>",
      "only these kinds (comma-separated): steps, episodes, events, metrics",
    )
    .option(
      "--no-overwritten",
      "leave out records that a later attempt, resumed from a checkpoint, recorded again",
    )
    .option(
      "--out <dir>",
      "output directory (default: the run's id); -: print one kind as jsonl or csv",
    )
    .option("--dataset <id>", "with --format minari: the data set's id (default: mosaic/NAME-v0)")
    .option("--episodes <range>", "with --format minari: only these, such as 100-199 or 100-")
    .option(
      "--observation-space <json>",
      "with --format minari: where the run did not record it, or another",
    )
    .option("--action-space <json>", "with --format minari: the same for actions")
    .option(
      "--drop-first-step",
      "with --format minari: episodes without a first observation begin with their second step",
    )
    .option(
      "--no-artifacts",
      "with --format mosaic: leave out checkpoints, videos and other recorded files",
    );
  connectionOptions(command)
    .addHelpText(
      "after",
      manual({
        details:
          "tensorboard writes one event file: episode/reward and episode/length by episode number, and every metric " +
          "by its own step. parquet columns are typed; fields that the worker sent as JSON (action, observation, …) are " +
          "JSON columns; actions and observations that are lists of numbers are columns of doubles. mosaic writes one file (default: RUN.mosaic) with everything of an ended run, for mosaic import on " +
          "another host: config with its secrets, lifecycle, records, logs, artifacts. It is read from the state " +
          "directory, so the daemon has to run on this host. minari writes an offline-RL data set below --out, of one run or " +
          "of several: minari.load_dataset opens it where MINARI_DATASETS_PATH is that directory.",
        examples: [
          [
            "mosaic export @last --format parquet --out runs/7",
            "steps.parquet, episodes.parquet, …",
          ],
          [
            "mosaic export @last --format csv --kind episodes --out - | column -ts,",
            "print the episodes as a table",
          ],
          ["mosaic export @last --format tensorboard --out tb/last", "for tensorboard --logdir tb"],
          ["mosaic export @last --format minari --out datasets", "a data set for offline RL"],
          [
            "mosaic export @last --format mosaic --out 7.mosaic",
            "for mosaic import on another host",
          ],
        ],
        exits: { 130: "interrupted; the files contain what was received until then" },
      }),
    )
    .action(async (refs: string[], flags: Record<string, unknown>) => {
      using progress = new Progress(caller);
      const { context } = progress;
      const format = flags["format"] as ExportFormat;
      checkMinariFlags(flags, refs.length, format);
      const kinds = kindsOf(flags["kind"], format);
      result.code = await interruptible(context, "", async (signal) => {
        using link = await Link.open(context, connectionFlags(flags), { retryMs: RETRY_MS });
        if (format === "minari") return await exportMinari(progress, link, refs, flags, signal);
        const run = await link.unary(link.methods.getRun, { run: refs[0]! }, signal);
        const whole = flags["overwritten"] !== false || run.attempt < 2;
        if (format === "mosaic") {
          const { writeRunFile } = await import("../../../state/archive/run_file.ts");
          const { stateDir } = await link.unary(link.methods.getHost, {}, signal);
          const file = String(flags["out"] ?? `${run.runId}.mosaic`);
          const { files, bytes, damaged } = writeRunFile(
            stateDir,
            run.runId,
            file,
            flags["artifacts"] !== false,
            progress.report,
          );
          for (const { first, last } of damaged) warnOfGap(context, "steps", first - 1, last + 1);
          context.out.write(`${escapeControl(file)}  ${count(files)} files, ${sizeText(bytes)}\n`);
          return EXIT.ok;
        }
        // Its reader may show it on the same terminal.
        const shown = isStandardOutput(String(flags["out"]))
          ? { context, report: () => {} }
          : progress;
        const batches = (kind: Kind) => chosenOf(shown, link, run.runId, kind, whole, signal);
        const records = (kind: Kind) => recordsOf(batches(kind));
        if (isStandardOutput(String(flags["out"]))) {
          if (kinds.length !== 1 || (format !== "jsonl" && format !== "csv")) {
            throw new MosaicError(
              "invalid_argument",
              `--out ${flags["out"]} takes one kind, as jsonl or csv`,
              {
                hint: "Say which with --kind, such as --kind episodes.",
              },
            );
          }
          await writeText(context.out, format, kinds[0]!, batches(kinds[0]!));
          return EXIT.ok;
        }
        const dir = String(flags["out"] ?? run.runId);
        Deno.mkdirSync(dir, { recursive: true });
        Deno.writeTextFileSync(
          `${dir}/run.json`,
          `${JSON.stringify(runDetailJsonOf(run), null, 2)}\n`,
        );
        await writeCode(link, run.runId, dir);
        const printFile = (path: string, rows: number) =>
          context.out.write(`${path}  ${count(rows)} records\n`);
        if (format === "tensorboard") {
          const started = run.startedAt === undefined
            ? context.now() / 1000
            : Number(run.startedAt.seconds);
          const { path, rows } = await writeEvents(dir, started, kinds, records);
          printFile(path, rows);
          return EXIT.ok;
        }
        for (const kind of kinds) {
          const path = `${dir}/${kind}.${format}`;
          printFile(
            path,
            format === "parquet"
              ? await (await import("../../export/parquet_file.ts")).writeParquet(
                path,
                kind,
                () => records(kind),
              )
              : await toFile(path, (out) => writeText(out, format, kind, batches(kind))),
          );
        }
        return EXIT.ok;
      });
    });
}

function kindsOf(given: unknown, format: ExportFormat): Kind[] {
  const possible: readonly Kind[] = format === "tensorboard"
    ? ["episodes", "metrics"]
    : TELEMETRY_KINDS;
  if (typeof given !== "string") return [...possible];
  if (format === "mosaic" || format === "minari") {
    throw new MosaicError("invalid_argument", `--kind is not for --format ${format}`);
  }
  return commaSeparated(given).map((word) => {
    const kind = possible.find((k) => k === word);
    if (kind !== undefined) return kind;
    throw new MosaicError(
      "invalid_argument",
      `--kind has "${word}".${didYouMean(word, possible)}`,
      {
        hint: `${format} can hold: ${possible.join(", ")}.`,
      },
    );
  });
}

const ONLY_MINARI = ["dataset", "episodes", "observation-space", "action-space", "drop-first-step"];

function checkMinariFlags(
  flags: Record<string, unknown>,
  runs: number,
  format: ExportFormat,
): void {
  if ((format === "minari" || format === "mosaic") && isStandardOutput(String(flags["out"]))) {
    throw new MosaicError(
      "invalid_argument",
      `--out ${flags["out"]} is not for --format ${format}`,
      {
        hint: format === "minari" ? "Name a directory." : "Name a file.",
      },
    );
  }
  if (format === "minari") return;
  if (runs > 1) {
    throw new MosaicError("invalid_argument", `--format ${format} takes one run`, {
      hint: "Only --format minari puts several runs into one data set.",
    });
  }
  const wrong = ONLY_MINARI.find((name) =>
    flags[name.replace(/-(.)/g, (_, c) => c.toUpperCase())] !== undefined
  );
  if (wrong !== undefined) {
    throw new MosaicError("invalid_argument", `--${wrong} is for --format minari only`);
  }
}

async function exportMinari(
  progress: Shown,
  link: Link,
  refs: readonly string[],
  flags: Record<string, unknown>,
  signal: AbortSignal,
): Promise<number> {
  const { context } = progress;
  const { checkDatasetId, datasetIdOf, writeMinari } = await import("../../export/minari.ts");
  const runs = [];
  for (const ref of refs) {
    const { runId, name, attempt, telemetry } = await link.unary(
      link.methods.getRun,
      { run: ref },
      signal,
    );
    const whole = flags["overwritten"] !== false || attempt < 2;
    const gaps: [number, number][] = [];
    runs.push({
      runId,
      name,
      gaps,
      environment: await environmentOf(
        recordsOf(batchesOf(progress, link, runId, "events", signal)),
      ),
      steps: () =>
        upTo(
          Number(telemetry?.steps ?? 0),
          recordsOf(chosenOf(progress, link, runId, "steps", whole, signal, gaps)),
        ),
    });
  }
  const text = (name: string) => flags[name] as string | undefined;
  const id = text("dataset") === undefined
    ? datasetIdOf(runs[0]!.name)
    : checkDatasetId(text("dataset")!);
  const dir = text("out") ?? runs[0]!.runId;
  const { path, episodes, steps, notes } = await writeMinari(dir, id, runs, {
    dropFirstStep: flags["dropFirstStep"] === true,
    episodes: episodesOf(text("episodes")),
    ...(text("observationSpace") === undefined
      ? {}
      : { observationSpace: text("observationSpace")! }),
    ...(text("actionSpace") === undefined ? {} : { actionSpace: text("actionSpace")! }),
  });
  for (const note of notes) context.err.write(`mosaic: ${escapeControl(note)}\n`);
  context.out.write(
    `${escapeControl(path)}  ${count(episodes)} episode${episodes === 1 ? "" : "s"}, ${
      count(steps)
    } steps\n`,
  );
  return EXIT.ok;
}

function episodesOf(range: string | undefined): [number, number] {
  if (range === undefined) return [0, Infinity];
  const match = /^(\d+)-(\d*)$/.exec(range);
  if (match === null) {
    throw new MosaicError("invalid_argument", `--episodes "${range}" is no range`, {
      hint:
        "Give the first and the last episode's number, such as 100-199, or 100- for all from there.",
    });
  }
  return [Number(match[1]), match[2] === "" ? Infinity : Number(match[2])];
}

/** The environment that the worker recorded first. */
async function environmentOf(
  events: AsyncIterable<TelemetryRecord>,
): Promise<Record<string, string>> {
  for await (const { event, payload } of events) {
    if (event === "environment" && typeof payload === "object" && payload !== null) {
      return Object.fromEntries(
        Object.entries(payload).filter(([, value]) => typeof value === "string"),
      );
    }
  }
  return {};
}

/** Bounded, so that a live run gives the same records each time it is read. */
async function* upTo(
  seq: number,
  records: AsyncIterable<TelemetryRecord>,
): AsyncGenerator<TelemetryRecord> {
  for await (const record of records) {
    if (record.seq > seq) return;
    yield record;
  }
}

type Shown = Pick<Progress, "context" | "report">;

/** Lines of a kind, as the daemon writes them. */
interface Lines {
  jsonl: Uint8Array;
  rows: number;
}

/**
 * Warns once how many records cannot be read. @param gaps their first and last seqs, as far as
 * known
 */
async function* batchesOf(
  { context, report }: Shown,
  link: Link,
  run: string,
  kind: Kind,
  signal: AbortSignal,
  gaps: [number, number][] = [],
): AsyncGenerator<Lines> {
  const { telemetry } = await link.unary(link.methods.getRun, { run }, signal);
  const batches = link.resumed(
    link.methods.streamTelemetry,
    (sinceSeq) => ({ run, kind, sinceSeq }),
    (batch) => batch.lastSeq,
    0n,
    signal,
  );
  let last = 0;
  const upTo = (next: number) => {
    if (gaps.some(([first]) => first === last + 1)) return;
    const gap = warnOfGap(context, kind, last, next);
    if (gap !== undefined) gaps.push(gap);
  };
  for await (const { jsonl, firstSeq, lastSeq } of batches) {
    upTo(Number(firstSeq));
    last = Number(lastSeq);
    report({
      name: kind,
      unit: "records",
      done: last,
      total: kind === "metrics" ? 0 : Number(telemetry?.[kind] ?? 0),
    });
    yield { jsonl, rows: Number(lastSeq - firstSeq) + 1 };
  }
  // The daemon does not count a run's metrics.
  if (kind !== "metrics") upTo(Number(telemetry?.[kind] ?? 0) + 1);
}

/** All points, or without those that later attempts overwrote. */
function chosenOf(
  progress: Shown,
  link: Link,
  run: string,
  kind: Kind,
  all: boolean,
  signal: AbortSignal,
  gaps?: [number, number][],
): AsyncGenerator<Lines> {
  const batches = batchesOf(progress, link, run, kind, signal, gaps);
  return all
    ? batches
    : withoutOverwritten(batches, kind, (name) => overwrittenOf(link, run, name, signal));
}

/** Whether a point of a series, by its number, was overwritten by a later attempt. */
async function overwrittenOf(link: Link, run: string, name: string, signal: AbortSignal) {
  const { overwritten } = await link.unary(
    link.methods.getSeries,
    { run, name, buckets: 1 },
    signal,
  );
  return (x: number) =>
    overwritten.some(({ firstX, lastX }) => x >= Number(firstX) && x <= Number(lastX));
}

/**
 * Without points that later attempts overwrote. Steps and episodes are points of a series; a
 * metric's points are counted.
 */
async function* withoutOverwritten(
  batches: AsyncIterable<Lines>,
  kind: Kind,
  overwrittenOf: (series: string) => Promise<(x: number) => boolean>,
): AsyncGenerator<Lines> {
  const series = new Map<string, { overwritten: (x: number) => boolean; points: number }>();
  for await (const { jsonl, rows } of batches) {
    if (kind === "events") {
      yield { jsonl, rows };
      continue;
    }
    const kept: string[] = [];
    for (const line of new TextDecoder().decode(jsonl).split("\n")) {
      if (line === "") continue;
      const { seq, name } = JSON.parse(line);
      const of = kind === "metrics" ? name : kind === "steps" ? "reward" : "episode_reward";
      if (!series.has(of)) series.set(of, { overwritten: await overwrittenOf(of), points: 0 });
      const its = series.get(of)!;
      if (!its.overwritten(kind === "metrics" ? ++its.points : seq)) kept.push(`${line}\n`);
    }
    yield { jsonl: new TextEncoder().encode(kept.join("")), rows: kept.length };
  }
}

async function* recordsOf(batches: AsyncIterable<Lines>): AsyncGenerator<TelemetryRecord> {
  for await (const { jsonl } of batches) yield* parseLines(jsonl);
}

/** Returns the number of records. JSON Lines are the daemon's own, byte for byte. */
async function writeText(
  out: Output,
  format: "jsonl" | "csv",
  kind: Kind,
  batches: AsyncIterable<Lines>,
): Promise<number> {
  let written = 0;
  if (format === "csv") out.write(csv(fieldNames(kind), []));
  for await (const { jsonl, rows } of batches) {
    written += rows;
    if (format === "jsonl") out.writeBytes(jsonl);
    else out.write(parseLines(jsonl).map((record) => csvLine(csvCells(kind, record))).join(""));
  }
  return written;
}

async function writeEvents(
  dir: string,
  started: number,
  kinds: readonly Kind[],
  records: (kind: Kind) => AsyncIterable<TelemetryRecord>,
): Promise<{ path: string; rows: number }> {
  const { eventFileName, scalarFrame, scalarsOf, versionFrame } = await import(
    "../../export/event_file.ts"
  );
  const { EXPORT_WRITER } = await import("../../../readers/tensorboard/exported.ts");
  const path = `${dir}/${eventFileName(started, "mosaic")}`;
  const rows = await toFile(path, async (out) => {
    out.writeBytes(versionFrame(started, EXPORT_WRITER));
    let rows = 0;
    for (const kind of kinds as readonly ("episodes" | "metrics")[]) {
      for await (const record of records(kind)) {
        rows++;
        for (const scalar of scalarsOf(kind, record)) out.writeBytes(scalarFrame(scalar));
      }
    }
    return rows;
  });
  return { path, rows };
}

async function toFile(path: string, body: (out: Output) => Promise<number>): Promise<number> {
  using file = Deno.openSync(path, { write: true, create: true, truncate: true });
  return await body(fileOutput(file));
}

/** code.json and code.patch: what ran, if it is recorded. */
async function writeCode(link: Link, runId: string, dir: string): Promise<void> {
  const records = await fetchCode(link, runId, true);
  if (records.length === 0) return;
  Deno.writeTextFileSync(`${dir}/code.json`, `${JSON.stringify(records.map(codeJson), null, 2)}\n`);
  const { diff } = records[0]!;
  if (diff.length > 0) Deno.writeFileSync(`${dir}/code.patch`, diff);
}
