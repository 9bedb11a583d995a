/**
 * The top-level fields of one line: their parsed values and the very text the worker wrote for each.
 *
 * JSON.parse proves that the line is JSON and gives the values; a second, unvalidating walk finds where each value
 * stands, so that actions, observations and unknown fields are handed on verbatim. That is both exact (`1.0` stays
 * `1.0`, integers of any size survive) and cheaper than writing the values out again.
 */

/** Names that some dialect gives a meaning; every other field is kept as the record's further information. */
const KNOWN = [
  "type",
  "event_type",
  "event",
  "run_id",
  "agent_id",
  "worker_id",
  "episode",
  "episode_index",
  "episode_id",
  "episode_number",
  "step_index",
  "step",
  "time_step",
  "action",
  "action_json",
  "observation",
  "observation_json",
  "reward",
  "total_reward",
  "episode_return",
  "episode_reward",
  "steps",
  "num_steps",
  "episode_length",
  "episode_steps",
  "terminated",
  "truncated",
  "policy_label",
  "backend",
  "frame_ref",
  "render",
  "render_hint",
  "render_hint_json",
  "render_payload",
  "render_payload_json",
  "payload_version",
  "episode_seed",
  "seed",
  "ts_unix_ns",
  "ts",
  "timestamp",
  "metadata",
  "metadata_json",
  "payload",
] as const;

export type FieldName = typeof KNOWN[number];

const slotOf = new Map<string, number>(KNOWN.map((name, slot) => [name, slot]));
/** Slot numbers by name: `SLOT.reward`. */
export const SLOT = Object.fromEntries(KNOWN.map((name, slot) => [name, slot])) as Record<FieldName, number>;

const QUOTE = 34;
const BACKSLASH = 92;
const COMMA = 44;
const COLON = 58;
const OPEN_BRACKET = 91;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;

type CodeUnits = Uint8Array | Uint16Array;

/** Position after the string that begins at `at` (on its opening quote). */
function afterString(units: CodeUnits, at: number, end: number): number {
  for (let i = at + 1; i < end; i++) {
    const c = units[i];
    if (c === QUOTE) return i + 1;
    if (c === BACKSLASH) i++;
  }
  return end;
}

/** Position after the value that begins at `at`. Only meaningful in text that is known to be JSON. */
function afterValue(units: CodeUnits, at: number, end: number): number {
  const first = units[at];
  if (first === QUOTE) return afterString(units, at, end);
  let i = at;
  if (first === OPEN_BRACE || first === OPEN_BRACKET) {
    let depth = 1;
    i++;
    while (depth > 0 && i < end) {
      const c = units[i];
      if (c === QUOTE) {
        i = afterString(units, i, end);
        continue;
      }
      if (c === OPEN_BRACE || c === OPEN_BRACKET) depth++;
      else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) depth--;
      i++;
    }
    return i;
  }
  for (; i < end; i++) {
    const c = units[i]!;
    if (c === COMMA || c === CLOSE_BRACE || c <= 32) break;
  }
  return i;
}

const encoder = new TextEncoder();
let bytes = new Uint8Array(4096);

/** The line's code units in a buffer: indexing bytes is several times faster than `charCodeAt`. */
function codeUnits(line: string): CodeUnits {
  if (bytes.length < line.length) bytes = new Uint8Array(line.length * 2);
  // As many bytes as characters: all ASCII, so that positions in the two are the same.
  if (encoder.encodeInto(line, bytes).written === line.length) return bytes;
  const units = new Uint16Array(line.length);
  for (let i = 0; i < line.length; i++) units[i] = line.charCodeAt(i);
  return units;
}

/** Where the top-level keys and values of an object stand: quadruples (key from, key to, value from, value to). */
export function spansOf(line: string, into: number[]): number {
  const units = codeUnits(line);
  const end = line.length;
  let count = 0;
  let i = 1;
  while (i < end) {
    while (i < end && (units[i]! <= 32 || units[i] === COMMA)) i++;
    if (units[i] !== QUOTE) break;
    const key = i + 1;
    i = afterString(units, i, end);
    into[count * 4] = key;
    into[count * 4 + 1] = i - 1;
    // Between the key and its value there is only white space and the colon.
    while (i < end && (units[i]! <= 32 || units[i] === COLON)) i++;
    into[count * 4 + 2] = i;
    i = afterValue(units, i, end);
    into[count * 4 + 3] = i;
    count++;
  }
  return count;
}

/** The fields of the line last loaded. One instance is used again and again: a line allocates nothing here. */
export class Fields {
  #line = "";
  #count = 0;
  readonly #spans: number[] = [];
  /** Per slot: the index of its field in the line, -1 when the line has none, and the parsed value. */
  readonly #at = new Int32Array(KNOWN.length);
  readonly #values: unknown[] = new Array(KNOWN.length).fill(undefined);
  #taken = new Uint8Array(64);
  readonly #lastKeys: string[] = [];
  readonly #lastSlots: number[] = [];
  #takenCount = 0;

  /** @param line Begins with `{`. @param record What JSON.parse made of it. */
  load(line: string, record: Record<string, unknown>): void {
    this.#line = line;
    const spans = this.#spans;
    const count = this.#count = spansOf(line, spans);
    this.#at.fill(-1);
    if (count > this.#taken.length) this.#taken = new Uint8Array(count * 2);
    this.#taken.fill(0, 0, count);
    this.#takenCount = 0;
    let i = 0;
    for (const key in record) {
      // A worker's lines mostly have the same keys in the same order.
      if (this.#lastKeys[i] !== key) {
        // JSON.parse keeps the order of the text but for keys like "0", which come first.
        if (/^\d/.test(key)) return this.#loadByName(record);
        this.#lastKeys[i] = key;
        this.#lastSlots[i] = slotOf.get(key) ?? -1;
      }
      const slot = this.#lastSlots[i]!;
      if (slot >= 0) {
        this.#at[slot] = i;
        this.#values[slot] = record[key];
      }
      i++;
    }
    // Fewer than in the text: a key came twice.
    if (i !== count) this.#loadByName(record);
  }

  #loadByName(record: Record<string, unknown>): void {
    this.#at.fill(-1);
    const seen = new Map<string, number>();
    for (let i = 0; i < this.#count; i++) {
      const key = this.#keyAt(i);
      const before = seen.get(key);
      // Of a repeated key the last value counts, here as in JSON.parse.
      if (before !== undefined) this.#takeAt(before);
      seen.set(key, i);
      const slot = slotOf.get(key);
      if (slot !== undefined) {
        this.#at[slot] = i;
        this.#values[slot] = record[key];
      }
    }
  }

  #keyAt(i: number): string {
    return JSON.parse(this.#line.slice(this.#spans[i * 4]! - 1, this.#spans[i * 4 + 1]! + 1)) as string;
  }

  #takeAt(i: number): void {
    if (this.#taken[i] === 1) return;
    this.#taken[i] = 1;
    this.#takenCount++;
  }

  has(slot: number): boolean {
    return this.#at[slot] !== -1;
  }

  /** The parsed value; undefined when the line has no such field. */
  value(slot: number): unknown {
    return this.#at[slot] === -1 ? undefined : this.#values[slot];
  }

  /** The value as the worker wrote it. Only for a field that is there. */
  text(slot: number): string {
    const i = this.#at[slot]!;
    return this.#line.slice(this.#spans[i * 4 + 2]!, this.#spans[i * 4 + 3]!);
  }

  /** Marks a field as used: it is then not among the leftovers. */
  take(slot: number): void {
    const i = this.#at[slot]!;
    if (i !== -1) this.#takeAt(i);
  }

  /** `"key":value` of every field that nobody took, verbatim, joined by commas; "" when all were taken. */
  leftovers(without?: Record<string, unknown>): string {
    if (this.#takenCount === this.#count) return "";
    let text = "";
    for (let i = 0; i < this.#count; i++) {
      if (this.#taken[i] === 1) continue;
      if (without !== undefined && Object.hasOwn(without, this.#keyAt(i))) continue;
      const field = this.#line.slice(this.#spans[i * 4]! - 1, this.#spans[i * 4 + 3]!);
      text = text === "" ? field : `${text},${field}`;
    }
    return text;
  }
}
