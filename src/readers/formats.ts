/** Selects the reader of a file. */
import { CsvReader } from "./tables/csv_file.ts";
import { EventFileReader } from "./tensorboard/event_file.ts";
import { JsonLinesReader } from "./tables/json_lines.ts";
import type { FormatName, FormatReader, FormatState } from "./format/format_reader.ts";
import { WandbReader } from "./wandb/wandb_file.ts";

const NAMES: readonly [pattern: RegExp, format: FormatName][] = [
  [/\.tfevents\./, "tfevents"],
  [/\.wandb$/, "wandb"],
  [/\.csv$/, "csv"],
  [/\.(?:jsonl|ndjson)$/, "jsonl"],
  // Stable-Baselines3 with a suffix of its own; RLlib.
  [/^(?:progress.*|result)\.json$/, "jsonl"],
];

/** The format of a file by its name; undefined if there is no reader. */
export function formatOfName(path: string): FormatName | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1);
  return NAMES.find(([pattern]) => pattern.test(name))?.[1];
}

const READERS: { readonly [format in FormatName]: new (state?: FormatState) => FormatReader } = {
  tfevents: EventFileReader,
  csv: CsvReader,
  jsonl: JsonLinesReader,
  wandb: WandbReader,
};

/** A reader at the file's beginning, or at a stored state of the same format. */
export function openFormat(format: FormatName, state?: FormatState): FormatReader {
  return new READERS[format](state);
}
