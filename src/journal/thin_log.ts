/**
 * A chunk of a log in which lines of steps are not kept as text, because the stored steps restore
 * them to the byte (docs/explanation/architecture.md, "What becomes of a journal"). A line consists
 * of a template's fixed parts and, between them, values from a column of its step or values of its
 * own; every other line is kept unchanged. Pure.
 */
import { zlib } from "../base/node_modules.ts";
import { MOST_ROWS, TEXT_COLUMNS } from "../records/step_block.ts";
import { pythonText } from "../records/text_column.ts";
import {
  afterBlanks,
  afterString,
  afterValue,
  CLOSE_BRACE,
  COLON,
  COMMA,
  OPEN_BRACE,
  QUOTE,
} from "../readers/lines/json_scan.ts";
import type { TelemetryReader } from "../telemetry/telemetry_log.ts";
import type { StoredStep } from "../gen/records/record_types.ts";

/** Steps in the order of their seq, after a seq; empty at the end. */
export type ReadSteps = (since: number) => readonly StoredStep[];

/** The steps of a run, for the chunks of its log. */
export function stepsOf(records: Pick<TelemetryReader, "read">, runId: string): ReadSteps {
  return (since) => records.read(runId, "steps", since, MOST_ROWS);
}

/** How a column's value is written in a line. `null`: the line has its own value. */
type Reference = keyof typeof REFERENCES | null;

interface Template {
  /** One more than there are references. */
  parts: string[];
  references: Reference[];
}

/** A chunk's structure; the texts of lines and values are in the body, one per line, in order. */
interface Head {
  crc: number;
  templates: Template[];
  /** Consecutive lines: of a template and of steps from a seq on, or (-1) kept unchanged. */
  lines: [template: number, count: number, firstSeq: number][];
}

/** Columns by the words in their keys, then by their values. */
const REFERENCES = {
  observation: (step: StoredStep) => step.observationJson,
  action: (step: StoredStep) => step.actionJson,
  step: (step: StoredStep) => String(step.step),
  episode: (step: StoredStep) => String(step.episode),
  reward: (step: StoredStep) => String(step.reward),
  "reward of Python": (step: StoredStep) => pythonText(step.reward),
  render_payload: (step: StoredStep) => step.renderPayloadJson,
  render_hint: (step: StoredStep) => step.renderHintJson,
} satisfies Record<string, (step: StoredStep) => string>;
const NAMES = Object.keys(REFERENCES) as (keyof typeof REFERENCES)[];
const TEXTS = NAMES.filter((name) => TEXT_COLUMNS.some(({ column }) => column === name));
/** A line belongs to a step only if it contains this much of the step's text. */
const LEAST_TEXT = 8;
/**
 * How many of the next steps are searched for a line's step: lines of the skipped steps were kept
 * unchanged.
 */
const AHEAD = 64;
const MOST_TEMPLATES = 64;
const MOST_BYTES = 16 << 20;
/** Lines between two yields to other work. */
const LINES_AT_ONCE = 256;
const LEVEL = 3;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The steps of an attempt, for its log from the beginning. */
export class StepsOfLog {
  readonly #read: ReadSteps;
  readonly #attempt: number;
  #steps: StoredStep[] = [];
  #since = 0;
  #ended = false;

  constructor(read: ReadSteps, attempt: number) {
    this.#read = read;
    this.#attempt = attempt;
  }

  /** The `k`th of the remaining steps. */
  ahead(k: number): StoredStep | undefined {
    while (this.#steps.length <= k && !this.#ended) {
      const more = this.#read(this.#since);
      this.#ended = more.length === 0;
      this.#since = more.at(-1)?.seq ?? this.#since;
      this.#steps.push(...more.filter(({ attempt }) => attempt === this.#attempt));
    }
    return this.#steps[k];
  }

  pass(n: number): void {
    this.#steps.splice(0, n);
  }
}

/**
 * The thinned form of a log's chunk; chunks must be passed in order from the log's beginning.
 * @param turn resolves when the caller may continue for some milliseconds
 * @returns undefined if no line belongs to a step, or if the same bytes would not be restored
 */
export async function thinned(
  bytes: Uint8Array,
  steps: StepsOfLog,
  turn: () => Promise<void>,
): Promise<Uint8Array | undefined> {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    return undefined;
  }
  const head: Head = { crc: zlib().crc32(bytes), templates: [], lines: [] };
  const kept: string[] = [];
  const own: string[][][] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (i % LINES_AT_ONCE === LINES_AT_ONCE - 1) await turn();
    const found = line[0] === "{" ? stepOf(line, steps, head.templates) : undefined;
    const { template = -1, seq = 0, values = [] } = found ?? {};
    if (found === undefined) kept.push(line);
    const columns = own[template] ??= values.map(() => []);
    for (const [k, value] of values.entries()) columns[k]!.push(value);
    const last = head.lines.at(-1);
    const goesOn = last?.[0] === template && (found === undefined || last[2] + last[1] === seq);
    if (goesOn) last[1]++;
    else head.lines.push([template, 1, seq]);
  }
  if (head.templates.length === 0) return undefined;
  const columns = head.templates.flatMap((_, template) => own[template] ?? []);
  const body = encoder.encode([JSON.stringify(head), ...[kept, ...columns].flat()].join("\n"));
  const { constants, zstdCompressSync } = zlib();
  const params = { [constants.ZSTD_c_compressionLevel]: LEVEL, [constants.ZSTD_c_checksumFlag]: 1 };
  return zstdCompressSync(body, { params }) as Uint8Array;
}

/** Restores the chunk's bytes. @throws Error if a step that it needs is missing or changed */
export function rendered(thin: Uint8Array, read: ReadSteps): Uint8Array {
  const body = decoder.decode(
    zlib().zstdDecompressSync(thin, { maxOutputLength: MOST_BYTES }) as Uint8Array,
  );
  const [first, ...texts] = body.split("\n");
  const { crc, templates, lines } = JSON.parse(first!) as Head;
  const count = (of: number) =>
    lines.reduce((sum, [template, n]) => sum + (template === of ? n : 0), 0);
  let at = count(-1);
  const next = [
    0,
    ...templates.flatMap(({ references }, template) =>
      references.filter((one) => one === null).map(() => {
        const from = at;
        at += count(template);
        return from;
      })
    ),
  ];
  // A template's columns of values follow those of the templates before.
  const columnsOf = templates.map((_, template) =>
    1 +
    templates.slice(0, template).reduce(
      (n, one) => n + one.references.filter((r) => r === null).length,
      0,
    )
  );
  const stepAt = stepReader(read);
  const out: string[] = [];
  let length = 0;
  for (const [template, n, seq] of lines) {
    for (let i = 0; i < n; i++) {
      let line: string;
      if (template === -1) line = texts[next[0]!++]!;
      else {
        const { parts, references } = templates[template]!;
        const step = stepAt(seq + i);
        let column = columnsOf[template]!;
        line = parts[0]!;
        for (const [k, reference] of references.entries()) {
          line += (reference === null ? texts[next[column++]!++]! : REFERENCES[reference](step)) +
            parts[k + 1]!;
        }
      }
      if ((length += line.length) > MOST_BYTES) throw new Error("it is too long");
      out.push(line);
    }
  }
  const bytes = encoder.encode(out.join("\n"));
  if (zlib().crc32(bytes) !== crc) throw new Error("its steps do not give back its lines");
  return bytes;
}

/** A reader for steps in ascending order. */
function stepReader(read: ReadSteps): (seq: number) => StoredStep {
  let steps: readonly StoredStep[] = [];
  let i = 0;
  return (seq) => {
    if (steps[i]?.seq !== seq) i = steps.findIndex((step) => step.seq === seq);
    if (i < 0) [steps, i] = [read(seq - 1), 0];
    const step = steps[i++];
    if (step?.seq !== seq) throw new Error(`step ${seq} is damaged or removed`);
    return step;
  };
}

/**
 * Finds the step of a line among the next ones; returns its template, and the line's own values.
 */
function stepOf(line: string, steps: StepsOfLog, templates: Template[]) {
  for (let k = 0; k < AHEAD; k++) {
    const step = steps.ahead(k);
    if (step === undefined) return undefined;
    if (
      !TEXTS.some((name) =>
        REFERENCES[name](step).length >= LEAST_TEXT && line.includes(REFERENCES[name](step))
      )
    ) {
      continue;
    }
    let template = templates.length - 1;
    let values: string[] | undefined;
    while (template >= 0 && (values = matched(templates[template]!, line, step)) === undefined) {
      template--;
    }
    if (values === undefined && templates.length < MOST_TEMPLATES) {
      const made = templateOf(line, step);
      values = made && matched(made, line, step);
      if (values !== undefined) template = templates.push(made!) - 1;
    }
    if (values === undefined) return undefined;
    steps.pass(k + 1);
    return { template, seq: step.seq, values };
  }
  return undefined;
}

/** The line's own values, if the template and the step restore everything else. */
function matched(
  { parts, references }: Template,
  line: string,
  step: StoredStep,
): string[] | undefined {
  if (!line.startsWith(parts[0]!) || !line.endsWith(parts.at(-1)!)) return undefined;
  const values: string[] = [];
  let at = parts[0]!.length;
  for (const [k, reference] of references.entries()) {
    const after = parts[k + 1]!;
    const isLast = k === references.length - 1;
    const end = reference !== null
      ? at + REFERENCES[reference](step).length
      : isLast
      ? line.length - after.length
      : line.indexOf(after, at);
    if (end < at || !line.startsWith(after, end)) return undefined;
    const value = line.slice(at, end);
    if (reference === null) values.push(value);
    else if (value !== REFERENCES[reference](step)) return undefined;
    at = end + after.length;
  }
  return at === line.length ? values : undefined;
}

/**
 * Each value of the line's object becomes a reference; undefined if none of them is a long text of
 * the step.
 */
function templateOf(line: string, step: StoredStep): Template | undefined {
  const bytes = encoder.encode(line);
  const textOf = (from: number, to: number) => decoder.decode(bytes.subarray(from, to));
  const template: Template = { parts: [], references: [] };
  let [at, done] = [afterBlanks(bytes, 0, bytes.length), 0];
  if (bytes[at] !== OPEN_BRACE) return undefined;
  do {
    const key = afterBlanks(bytes, at + 1, bytes.length);
    const keyEnd = bytes[key] === QUOTE ? afterString(bytes, key, bytes.length) : -1;
    const colon = keyEnd < 0 ? -1 : afterBlanks(bytes, keyEnd, bytes.length);
    if (bytes[colon] !== COLON) return undefined;
    const from = afterBlanks(bytes, colon + 1, bytes.length);
    const to = afterValue(bytes, from, bytes.length, true);
    if (to < 0) return undefined;
    template.parts.push(textOf(done, from));
    template.references.push(referenceOf(textOf(key, keyEnd), textOf(from, to), step));
    done = to;
    at = afterBlanks(bytes, to, bytes.length);
  } while (bytes[at] === COMMA);
  if (bytes[at] !== CLOSE_BRACE) return undefined;
  template.parts.push(textOf(done, bytes.length));
  return TEXTS.some((name) => template.references.includes(name)) ? template : undefined;
}

function referenceOf(key: string, value: string, step: StoredStep): Reference {
  const same = NAMES.filter((name) => REFERENCES[name](step) === value);
  return same.find((name) => key.includes(name.split(" ")[0]!)) ??
    same.find((name) => TEXTS.includes(name)) ?? null;
}
