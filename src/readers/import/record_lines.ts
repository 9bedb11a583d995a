/**
 * Converts records of a tracker to lines of mosaic's own dialect (docs/reference/telemetry.md).
 * Pure. Scalars of one step and one millisecond become one record, because the store's times have
 * no finer resolution.
 */
import { hideSecret, withoutSecrets } from "../../base/text/secrets.ts";
import type { Problem } from "../format/format_reader.ts";
import type { EpisodeRecord, ScalarRecord, SourceRecord } from "../format/tracker_records.ts";
import { MAX_POINTS_PER_RECORD, pointsOf } from "../../records/points.ts";

/**
 * Number of omitted series whose names are remembered; of further ones only the points are counted.
 */
const MAX_LEFT_OUT = 10_000;
const NAMED = 3;
/** Prefix of series whose names mean something else in the store (`reward`, `seed` …). */
const OWN = "imported";

interface SeriesName {
  /** The field of the record, inside the object `imported` or at the top level. */
  field: string;
  inner: boolean;
}

export interface Counts {
  series: number;
  points: number;
  episodes: number;
  texts: number;
}

/** Whether the store gives a field of this name another meaning. */
function isTaken(record: Record<string, unknown>): boolean {
  return pointsOf(JSON.stringify(record)).points.length === 1;
}

function seriesNameOf(field: string): SeriesName | undefined {
  if (isTaken({ [field]: 1 })) return { field, inner: false };
  return isTaken({ [OWN]: { [field]: 1 } }) ? { field, inner: true } : undefined;
}

/** Numbers in the form of the dialects, which includes bare NaN and Infinity. */
const numberText = (value: number) =>
  Number.isFinite(value) ? JSON.stringify(value) : String(value);

const field = (name: string, text: string) => `${JSON.stringify(name)}:${text}`;

/** Digits of Unix seconds; a time before 2001 is invalid. */
function timeFields(wallTime: number | undefined): string[] {
  return wallTime !== undefined && wallTime > 1e9 && wallTime < 1e10
    ? [field("ts", String(wallTime))]
    : [];
}

function stepFields(step: number | undefined): string[] {
  return step !== undefined && Number.isSafeInteger(step) && step >= 0
    ? [field("global_step", String(step))]
    : [];
}

function line(kind: "event" | "type", name: string, fields: readonly string[]): string {
  return `{${[field(kind, JSON.stringify(name)), ...fields].join(",")}}\n`;
}

export class Lines {
  readonly #maxSeries: number;
  /** By source and tag; null: omitted. */
  readonly #names = new Map<string, SeriesName | null>();
  readonly #used = new Set<string>();
  readonly #leftOut = new Set<string>();
  #leftOutPoints = 0;
  #unnamed = 0;
  #notFinite = 0;
  readonly #others = new Map<string, number>();
  readonly #problems: string[] = [];
  #moreProblems = 0;
  #group:
    | { key: string; at: ScalarRecord; top: string[]; inner: string[]; names: Set<SeriesName> }
    | undefined;
  readonly #counts = { points: 0, episodes: 0, texts: 0 };

  /** @param maxSeries the store's bound per run */
  constructor(maxSeries: number) {
    this.#maxSeries = maxSeries;
  }

  get counts(): Counts {
    return { series: this.#used.size, ...this.#counts };
  }

  /** @param source its label @returns the lines that are complete now */
  add(record: SourceRecord, source: string): string {
    if (record.kind === "scalar") return this.#scalar(record, source);
    const before = this.flush();
    return before + this.#other(record, source);
  }

  /** The lines that are still held back. Call it at the end. */
  flush(): string {
    const group = this.#group;
    this.#group = undefined;
    if (group === undefined) return "";
    const inner = group.inner.length === 0 ? [] : [field(OWN, `{${group.inner.join(",")}}`)];
    const payload = [...stepFields(group.at.step), ...group.top, ...inner].join(",");
    return line("event", "metrics", [
      ...timeFields(group.at.wallTime),
      field("payload", `{${payload}}`),
    ]);
  }

  problem(file: string, { at, bytes, detail }: Problem): void {
    if (this.#problems.length < NAMED) {
      const where = bytes === 0 ? "" : `${bytes} bytes at ${at}: `;
      this.#problems.push(`${file}: ${where}${detail}`);
    } else this.#moreProblems++;
  }

  /** Sentences about what the lines do not contain. */
  leftOut(): string[] {
    const notes = [...this.#problems];
    if (this.#moreProblems > 0) notes.push(`${this.#moreProblems} more unreadable places`);
    if (this.#leftOutPoints > 0) {
      const names = [...this.#leftOut].slice(0, NAMED).join(", ");
      const more = this.#leftOut.size >= MAX_LEFT_OUT ? "at least " : "";
      notes.push(
        `${this.#leftOutPoints} points of ${more}${this.#leftOut.size} series (${names}${
          this.#leftOut.size > NAMED ? " …" : ""
        }): a run has at most ${this.#maxSeries} series`,
      );
    }
    if (this.#unnamed > 0) {
      notes.push(`${this.#unnamed} points of series whose names are empty or too long`);
    }
    if (this.#notFinite > 0) {
      notes.push(
        `${this.#notFinite} of the points are NaN or infinite: they are gaps in their curves`,
      );
    }
    for (const [what, count] of this.#others) {
      notes.push(`${count} ${what}${count === 1 ? "" : "s"}`);
    }
    return notes;
  }

  #scalar(record: ScalarRecord, source: string): string {
    const name = this.#nameOf(record.tag, source);
    if (name === undefined) return "";
    const { step, wallTime } = record;
    const key = `${source} ${step} ${wallTime === undefined ? "" : Math.floor(wallTime * 1000)}`;
    let text = "";
    if (
      this.#group !== undefined &&
      (this.#group.key !== key || this.#group.names.has(name) ||
        this.#group.names.size >= MAX_POINTS_PER_RECORD)
    ) text = this.flush();
    const group = this.#group ??= { key, at: record, top: [], inner: [], names: new Set() };
    group.names.add(name);
    (name.inner ? group.inner : group.top).push(field(name.field, numberText(record.value)));
    this.#count(record.value);
    return text;
  }

  #count(value: number): void {
    this.#counts.points++;
    if (!Number.isFinite(value)) this.#notFinite++;
  }

  /** The name of a tag's series; undefined if it is omitted. */
  #nameOf(tag: string, source: string): SeriesName | undefined {
    const key = `${source}\0${tag}`;
    let name = this.#names.get(key);
    if (name === undefined) {
      name = this.#newName(tag, source);
      if (name === null && this.#leftOut.size >= MAX_LEFT_OUT) {
        this.#leftOutPoints++;
        return undefined;
      }
      this.#names.set(key, name);
    }
    if (name !== null) return name;
    if (this.#leftOut.has(tag)) this.#leftOutPoints++;
    else this.#unnamed++;
    return undefined;
  }

  #newName(tag: string, source: string): SeriesName | null {
    const shown = (name: SeriesName) => name.inner ? `${OWN}.${name.field}` : name.field;
    const plain = seriesNameOf(tag);
    const name = plain !== undefined && this.#used.has(shown(plain))
      ? seriesNameOf(`${tag}@${source}`)
      : plain;
    if (name === undefined || this.#used.has(shown(name))) return null;
    if (this.#used.size >= this.#maxSeries) {
      if (this.#leftOut.size < MAX_LEFT_OUT) this.#leftOut.add(tag);
      return null;
    }
    this.#used.add(shown(name));
    return name;
  }

  #other(record: SourceRecord, source: string): string {
    switch (record.kind) {
      case "episode":
        return this.#episode(record, source);
      case "text":
        this.#counts.texts++;
        return line("event", "text", [
          ...timeFields(record.wallTime),
          field(
            "payload",
            `{${
              [
                ...stepFields(record.step),
                field("tag", JSON.stringify(record.tag)),
                field("text", JSON.stringify(hideSecret(record.tag, record.text))),
              ].join(",")
            }}`,
          ),
        ]);
      case "rewind":
        return line("event", "rewind", [
          ...timeFields(record.wallTime),
          field("payload", `{${stepFields(record.step).join(",")}}`),
        ]);
      case "status":
        return line("event", "tracker_status", [
          ...timeFields(record.wallTime),
          field(
            "payload",
            JSON.stringify({ status: record.status, exit_code: String(record.exitCode ?? "") }),
          ),
        ]);
      case "trial":
        return line("event", "trial", [
          ...timeFields(record.wallTime),
          field(
            "payload",
            JSON.stringify({
              ...record.trial,
              parameters: withoutSecrets("", record.trial.parameters),
            }),
          ),
        ]);
      case "histogram":
      case "media": {
        const what = record.kind === "media" ? record.media : "histogram";
        this.#others.set(what, (this.#others.get(what) ?? 0) + 1);
        return "";
      }
      case "scalar": // handled separately
      case "params": // are in the config, as is the tracker's word on the run
      case "run":
      case "progress": // it is over
      case "output": // printed unchanged
        return "";
    }
  }

  #episode(record: EpisodeRecord, source: string): string {
    const [top, inner]: [string[], string[]] = [[], []];
    for (const [tag, value] of Object.entries(record.extra)) {
      const name = this.#nameOf(tag, source);
      if (name === undefined) continue;
      (name.inner ? inner : top).push(field(name.field, numberText(value)));
      this.#count(value);
    }
    const metadata = [
      ...stepFields(record.step),
      ...(record.time === null ? [] : [field("time", numberText(record.time))]),
      ...top,
      ...(inner.length === 0 ? [] : [field(OWN, `{${inner.join(",")}}`)]),
    ];
    return line("type", "episode", [
      ...timeFields(record.wallTime),
      field("episode_index", String(this.#counts.episodes++)),
      // An unstated return is NaN: it must not count as 0.
      field("total_reward", numberText(record.return ?? NaN)),
      ...(record.length === null ? [] : [field("steps", numberText(record.length))]),
      field("metadata", `{${metadata.join(",")}}`),
    ]);
  }
}
