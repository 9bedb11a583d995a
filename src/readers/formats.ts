/**
 * The files that mosaic reads: one row a kind, and the first row whose pattern fits a name is the
 * name's. Discovery, labels, import, hints and the tests of docs/reference/formats.md read this
 * table. A new format is a reader (src/readers/format has what all of them share) and a row.
 */
import type { FormatName, FormatReader, FormatState } from "./format/format_reader.ts";
import type { SourceRecord } from "./format/tracker_records.ts";
import { areScalarRows, formatOfContent } from "./content.ts";
import { CsvReader } from "./tables/csv_file.ts";
import { JsonLinesReader } from "./tables/json_lines.ts";
import { ParametersReader } from "./tables/parameters_file.ts";
import { ScalarRowsReader } from "./tables/scalar_rows.ts";
import { EventFileReader } from "./tensorboard/event_file.ts";
import { TrainerStateReader } from "./transformers/trainer_state.ts";
import { TrainingArgumentsReader } from "./transformers/training_arguments.ts";
import { TextFileReader } from "./text/text_file.ts";
import { WandbReader } from "./wandb/wandb_file.ts";

export interface FileKind {
  /** For people, and in docs/reference/formats.md. */
  title: string;
  /** Of the file's name without its directory. */
  name: RegExp;
  /** Only in a directory of this name. */
  directory?: string;
  format: FormatName;
  /** Only trackers use the name. Any other table or JSON Lines file may be a data set. */
  tracker: boolean;
  /**
   * What distinguishes its series from those of the same name in another file: the file's name, its
   * directory (as in TensorBoard), or this text.
   */
  label: "name" | "directory" | { text: string };
  /** Files with the same value have the same series; default: each file has its own. */
  writer?: (directory: string, name: string) => string;
  /** Names of which one beside it has the same rows: then it is not read. */
  copyOf?: (name: string) => string[];
  /** On import, each such file is a run, and below its directory are only its own files. */
  alone?: true;
  /** The name is not certain: only a file that has this format is read. */
  byContent?: true;
  /** It makes no run on import; it adds to the run of the files beside it. */
  accompanies?: true;
}

/** Hydra's directory beside a job's output: the only hidden one that is searched. */
export const HYDRA = ".hydra";
const MONITOR = "monitor.csv";
/** Transformers' checkpoints repeat what is in their parent. */
const IN_CHECKPOINT = /\/checkpoint-\d+$/;

/** The directory of the Trainer whose file it is. */
export function trainerDirectoryOf(directory: string): string {
  return directory.replace(IN_CHECKPOINT, "");
}
/**
 * events.out.tfevents.TIME.HOST.PID.COUNT, as torch and TensorFlow name them; tensorboardX names no
 * process.
 */
const EVENTS_PROCESS = /\.tfevents\.\d+\.(.+\.\d+)\.\d+(?:\.v2)?$/;

/** The host and process that wrote an event file, by its name; undefined if it says none. */
export function processOfEvents(name: string): string | undefined {
  return EVENTS_PROCESS.exec(name)?.[1];
}

export const FILE_KINDS: readonly FileKind[] = [
  {
    title: "TensorBoard event files",
    name: /\.tfevents\./,
    format: "tfevents",
    tracker: true,
    label: "directory",
    writer: (directory, name) => `${directory} ${processOfEvents(name) ?? ""}`,
  },
  {
    title: ".wandb",
    name: /\.wandb$/,
    format: "wandb",
    tracker: true,
    label: { text: "wandb" },
    // A resumed run goes on in a second file.
    writer: () => "wandb",
    alone: true,
  },
  {
    title: MONITOR,
    name: /(?:^|\.)monitor\.csv$/,
    format: "csv",
    tracker: true,
    label: { text: MONITOR },
    writer: () => MONITOR,
  },
  {
    title: "progress.csv",
    name: /^progress[^/]*\.csv$/,
    format: "csv",
    tracker: true,
    label: "name",
    // Stable-Baselines3 and Tune write both.
    copyOf: (
      name,
    ) => [name.replace(/csv$/, "json"), ...name === "progress.csv" ? ["result.json"] : []],
  },
  {
    title: "progress.json",
    name: /^progress[^/]*\.json$/,
    format: "jsonl",
    tracker: true,
    label: "name",
  },
  { title: "metrics.csv", name: /^metrics\.csv$/, format: "csv", tracker: true, label: "name" },
  { title: "result.json", name: /^result\.json$/, format: "jsonl", tracker: true, label: "name" },
  {
    title: "metrics.jsonl",
    name: /^metrics\.jsonl$/,
    format: "jsonl",
    tracker: true,
    label: "name",
  },
  // Detectron2, mmengine, DETR.
  {
    title: "metrics.json, scalars.json, stats.json, log.txt",
    name: /^(?:(?:metrics|scalars|stats)\.json|log\.txt)$/,
    format: "jsonl",
    tracker: true,
    label: "name",
    byContent: true,
  },
  {
    title: "args.json, training_args.json, params.json",
    name: /^(?:args|training_args|params)\.json$/,
    format: "parameters",
    tracker: true,
    label: "name",
    // Tune repeats params.json as the `config` of each line.
    copyOf: () => ["result.json"],
    accompanies: true,
  },
  {
    title: "trainer_state.json",
    name: /^trainer_state\.json$/,
    format: "trainer_state",
    tracker: true,
    label: "name",
    writer: (directory) => `${trainerDirectoryOf(directory)} trainer_state.json`,
  },
  {
    title: "training_args.bin",
    name: /^training_args\.bin$/,
    format: "training_args",
    tracker: true,
    label: "name",
    writer: (directory) => `${trainerDirectoryOf(directory)} training_args.bin`,
    accompanies: true,
  },
  {
    title: "hparams.yaml",
    name: /^hparams\.yaml$/,
    format: "parameters",
    tracker: true,
    label: "name",
    accompanies: true,
  },
  {
    title: ".hydra/config.yaml",
    name: /^config\.yaml$/,
    directory: HYDRA,
    format: "parameters",
    tracker: true,
    label: "name",
    accompanies: true,
  },
  {
    title: "scalars/*.csv",
    name: /\.csv$/,
    directory: "scalars",
    format: "scalar_rows",
    tracker: true,
    label: "directory",
    byContent: true,
  },
  { title: "*.csv", name: /\.csv$/, format: "csv", tracker: false, label: "name" },
  {
    title: "*.jsonl, *.ndjson",
    name: /\.(?:jsonl|ndjson)$/,
    format: "jsonl",
    tracker: false,
    label: "name",
  },
];

const READERS: { readonly [format: FormatName]: new (state?: FormatState) => FormatReader } = {
  tfevents: EventFileReader,
  csv: CsvReader,
  jsonl: JsonLinesReader,
  wandb: WandbReader,
  parameters: ParametersReader,
  trainer_state: TrainerStateReader,
  training_args: TrainingArgumentsReader,
  scalar_rows: ScalarRowsReader,
  text: TextFileReader,
};

const baseName = (path: string) => path.slice(path.lastIndexOf("/") + 1);

/** The kind of a file by its name; undefined if there is no reader. */
export function fileKindOf(path: string): FileKind | undefined {
  const name = baseName(path);
  const directory = baseName(path.slice(0, Math.max(0, path.length - name.length - 1)));
  return FILE_KINDS.find((kind) =>
    kind.name.test(name) && (kind.directory ?? directory) === directory
  );
}

export function formatOfName(path: string): FormatName | undefined {
  return fileKindOf(path)?.format;
}

/**
 * @param head the file's first bytes @returns undefined: no reader takes it, or there is too little
 * to tell
 */
export function formatOfFile(path: string, head: Uint8Array): FormatName | undefined {
  const kind = fileKindOf(path);
  if (kind !== undefined && kind.byContent !== true) return kind.format;
  if (kind?.format === "scalar_rows" && areScalarRows(head)) return kind.format;
  return formatOfContent(head);
}

/** Scalars of a file that has one, without its name in the rows, have the file's. */
export function withTag(records: SourceRecord[], path: string): SourceRecord[] {
  for (const record of records) {
    if (record.kind === "scalar" && record.tag === "") {
      record.tag = baseName(path).replace(/\.[^.]*$/, "");
    }
  }
  return records;
}

/** A reader at the file's beginning, or at a stored state of the same format. */
export function openFormat(format: FormatName, state?: FormatState): FormatReader {
  const Reader = READERS[format];
  if (Reader === undefined) throw new Error(`this mosaic has no reader of "${format}"`);
  return new Reader(state);
}

export function isOfTracker(name: string): boolean {
  return fileKindOf(name)?.tracker === true;
}

/** Without the second file of the same rows. */
export function withoutCopies(names: readonly string[]): string[] {
  return names.filter((name) =>
    !fileKindOf(name)?.copyOf?.(name).some((other) => names.includes(other))
  );
}

/** What is searched for, for hints. */
export function trackerTitles(): string {
  const titles = FILE_KINDS.filter(({ tracker }) => tracker).map(({ title }) => title);
  return `${titles.slice(0, -1).join(", ")} and ${titles.at(-1)}`;
}
