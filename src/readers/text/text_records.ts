/**
 * The lines of a chunk that are no record of a worker's own dialects, read as the text for people
 * that holds numbers.
 */
import type { EpisodeRecord, WorkerEventRecord } from "../../gen/records/record_types.ts";
import type { Lines } from "../lines/lines.ts";
import { numberOnWire } from "../../gen/records/step_columns.ts";
import type { LineContext } from "../lines/parse_line.ts";
import { nanosecondsOf } from "../lines/timestamps.ts";
import type { RunProgress } from "./run_progress.ts";
import type { TextDialect } from "./text_dialects.ts";
import { type LineFields, TextLines, type Unread } from "./text_lines.ts";
import { MAX_POINTS_PER_RECORD } from "../../records/points.ts";

/** The kind of the event with printed numbers; a worker may print one itself. */
export const METRICS_KIND = "metrics";
/** The kind of the event that tells of a trial's end. */
export const TRIAL_KIND = "trial";
/** The store has its own series of these names, which count steps or episodes. */
const TAKEN_NAMES = new Set(["reward", "episode_reward", "episode_length"]);

const EQUALS = 0x3d;
const COLON = 0x3a;
/**
 * First characters of objects, tables, bars, colours and brackets, digits, blanks, and of the words
 * before a step (`Step`, `iter`, `Epoch`, `update`, `train`, `global_step`, `val`, `loss`).
 */
const MARKS = new Set(
  [..."{-| \t\r\x1b[(0123456789SsIiEeUuTtGgVvLl"].map((mark) => mark.charCodeAt(0)),
);

export class TextRecords {
  readonly #lines: Lines;
  readonly #text: TextLines;
  #unread: Unread | undefined;
  /** The first `=` and the first `:` at or after the end of the scanned bytes. */
  readonly #links = [EQUALS, COLON].map((byte) => ({ byte, at: -1 }));

  constructor(lines: Lines, off: Iterable<TextDialect>, progress?: RunProgress) {
    this.#lines = lines;
    this.#text = new TextLines(off, progress);
  }

  /** Line `i`, which is no record. */
  read(i: number): LineFields | undefined {
    this.#unread = undefined;
    const { bytes, ends } = this.#lines;
    const from = this.#lines.begin(i);
    const end = ends[i]!;
    if (!MARKS.has(bytes[from]!) && !this.#hasLink(from, end)) {
      this.pass();
      return undefined;
    }
    const fields = this.#text.read(this.#lines.slice(from, end));
    this.#unread = this.#text.unread;
    return fields;
  }

  /** Much output has no pairs: then each byte is scanned once, and no line becomes a string. */
  #hasLink(from: number, end: number): boolean {
    for (const link of this.#links) {
      if (link.at < from) {
        const found = this.#lines.bytes.indexOf(link.byte, from);
        link.at = found < 0 ? Infinity : found;
      }
      if (link.at < end) return true;
    }
    return false;
  }

  /** Why the last line gave nothing, if it seems to have numbers of a training. */
  get unread(): Unread | undefined {
    return this.#unread;
  }

  /** The line is something else, which ends a table. */
  pass(): void {
    if (this.#text.openLines > 0) this.#text.pass();
  }

  /** How many of the last lines belong to an unfinished table. */
  get openLines(): number {
    return this.#text.openLines;
  }
}

/**
 * Values that JSON has no number for are written by name: a metric may be NaN, a parameter
 * infinite.
 */
export function jsonText(data: unknown): string {
  return JSON.stringify(
    data,
    (_, value) => typeof value === "number" && !Number.isFinite(value) ? String(value) : value,
  );
}

/** A `reward` beside the number of an episode is that episode's. */
function nameOf(tag: string, { stepIsEpisode, scalars }: LineFields): string {
  const ofEpisode = tag === "reward" && stepIsEpisode &&
    scalars.every(([other]) => other !== "episode_reward");
  return ofEpisode ? "printed/episode_reward" : TAKEN_NAMES.has(tag) ? `printed/${tag}` : tag;
}

/** The records of a line's fields: an episode with its scalars, or events of scalars. */
export function recordsOf(
  fields: LineFields,
  context: LineContext,
): { episodes: EpisodeRecord[]; events: WorkerEventRecord[] } {
  const { step, wallTime, scalars, episode } = fields;
  const tsNs = wallTime === undefined
    ? ""
    : nanosecondsOf(String(Math.round(wallTime * 1e6) * 1000));
  const named = scalars.map(([tag, value]): [string, number] => [nameOf(tag, fields), value]);
  const texts: string[] = [];
  for (let i = 0; i < named.length; i += MAX_POINTS_PER_RECORD) {
    const points = Object.fromEntries(named.slice(i, i + MAX_POINTS_PER_RECORD));
    texts.push(jsonText(step === undefined ? points : { global_step: step, ...points }));
  }
  const episodes = episode === undefined ? [] : [{
    episode: 0,
    totalReward: numberOnWire(episode.return ?? NaN),
    steps: episode.length ?? 0,
    terminated: false,
    truncated: false,
    metadataJson: texts.shift() ??
      (step === undefined ? "{}" : JSON.stringify({ global_step: step })),
    tsNs,
    agentId: context.agentId,
    workerId: context.workerId,
  }];
  const events = texts.map((dataJson) => ({ kind: METRICS_KIND, dataJson, tsNs }));
  if (fields.trial !== undefined) {
    events.push({ kind: TRIAL_KIND, dataJson: jsonText(fields.trial), tsNs });
  }
  return { episodes, events };
}
