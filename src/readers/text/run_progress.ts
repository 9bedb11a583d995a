/**
 * How far a program is, by what it prints: bars of tqdm and Keras, and lines such as `Epoch 3/10`.
 * A loop within another one, a loop that begins again, and loops that only prepare or test say
 * nothing alone. Pure.
 */
import { parsedObject } from "../../base/text/json_text.ts";
import { type Bar, barOf } from "./progress_bars.ts";

/** The kind of the event that tells it. */
export const PROGRESS_KIND = "progress";
/** Less is not told. */
const LEAST = 0.01;
const MAX_LOOPS = 64;
/** Lines for people are short; a count is near the beginning. */
const MAX_LOOKED_AT = 200;

const OUTER = /\bepochs?\s{0,3}[:=[#]?\s{0,3}(\d{1,9})\s?(?:\/|of)\s?(\d{1,9})\b/i;
const INNER =
  /\b(?:step|iter|iteration|batch|update|episode|round)s?\s{0,3}[:=[#]?\s{0,3}(\d{1,12})\s?(?:\/|of)\s?(\d{1,12})\b/i;
/** An epoch without their number. */
const SOME_EPOCH = /\bepoch\b/i;
const OTHER_LOOPS =
  /^\W{0,3}(?:down|up|load|map|token|filter|eval|valid|test|predict|sanity|fetch|extract|generat|sav|warm)/i;

export interface ProgressState {
  /** Epoch and their number, from a line before its bar. */
  outer?: [at: number, of: number];
  /** The last position of each loop, and whether it has begun again. */
  loops?: [key: string, at: number, again: boolean][];
  told?: number | null;
}

export class RunProgress {
  #outer: [at: number, of: number] | undefined;
  readonly #loops: Map<string, { at: number; again: boolean }>;
  /** null: unknown; undefined: nothing was seen yet. */
  #part: number | null | undefined;
  #told: number | null | undefined;

  constructor({ outer, loops = [], told }: ProgressState = {}) {
    this.#outer = outer;
    this.#loops = new Map(loops.map(([key, at, again]) => [key, { at, again }]));
    this.#part = this.#told = told;
  }

  get state(): ProgressState {
    const loops = [...this.#loops].map((
      [key, { at, again }],
    ): [string, number, boolean] => [key, at, again]);
    return {
      ...(this.#outer === undefined ? {} : { outer: this.#outer }),
      ...(loops.length === 0 ? {} : { loops }),
      ...(this.#told === undefined ? {} : { told: this.#told }),
    };
  }

  /** @param hasNumbers the line has values: an epoch that it names is over */
  see(line: string, hasNumbers: boolean): void {
    const text = line.length > 4 * MAX_LOOKED_AT ? line.slice(0, 4 * MAX_LOOKED_AT) : line;
    const bar = /%\||[━\]]/.test(text) ? barOf(text.trim()) : undefined;
    if (bar !== undefined) return this.#bar(bar);
    const head = text.slice(0, MAX_LOOKED_AT);
    if (!/\d\s?(?:\/|of)\s?\d/.test(head) || OTHER_LOOPS.test(head)) return;
    const [outer, inner] = [countOf(OUTER, head), countOf(INNER, head)];
    // Prose may name a count, too: it stands at the beginning, or beside values.
    const isHeader = /^\W{0,3}epoch/i.test(head);
    if (!hasNumbers && !isHeader) return;
    if (outer === undefined) {
      if (inner !== undefined && !SOME_EPOCH.test(head)) this.#part = partOf(...inner);
      return;
    }
    this.#outer = outer;
    const [at, of] = outer;
    const within = inner === undefined ? (hasNumbers ? 1 : 0) : partOf(...inner);
    this.#part = Math.min(1, (at - 1 + within) / of);
  }

  #bar({ at, of, title }: Bar): void {
    if (of === undefined || of === 0 || OTHER_LOOPS.test(title)) return;
    const outer = countOf(OUTER, title) ?? (SOME_EPOCH.test(title) ? undefined : this.#outer);
    if (outer !== undefined) {
      this.#part = Math.min(1, (outer[0] - 1 + partOf(at, of)) / outer[1]);
      return;
    }
    if (SOME_EPOCH.test(title) && !/^epochs?$/i.test(title.trim())) return;
    const key = `${title} ${of}`;
    const known = this.#loops.get(key);
    const again = known !== undefined && (known.again || at < known.at);
    this.#loops.delete(key);
    this.#loops.set(key, { at, again });
    if (this.#loops.size > MAX_LOOPS) this.#loops.delete(this.#loops.keys().next().value!);
    // The outermost of several is the one that is least far.
    const open = [...this.#loops].filter(([name, loop]) =>
      !loop.again && loop.at < Number(name.slice(name.lastIndexOf(" ")))
    );
    const parts = open.map(([name, loop]) =>
      partOf(loop.at, Number(name.slice(name.lastIndexOf(" "))))
    );
    this.#part = parts.length === 0 ? null : Math.min(...parts);
  }

  /**
   * The part, 0 to 1, if it has moved since it was last told; null: it is unknown now; undefined:
   * nothing new.
   */
  take(): number | null | undefined {
    const part = this.#part;
    if (part === undefined || part === this.#told) return undefined;
    const hasMoved = part === null || this.#told === null || this.#told === undefined ||
      part === 1 ||
      Math.abs(part - this.#told) >= LEAST;
    if (!hasMoved || (part === null && this.#told === undefined)) return undefined;
    this.#told = part === null ? null : Math.round(part * 1e4) / 1e4;
    return this.#told;
  }
}

function countOf(pattern: RegExp, text: string): [at: number, of: number] | undefined {
  const [, at, of] = pattern.exec(text) ?? [];
  const count: [number, number] = [Number(at), Number(of)];
  return at === undefined || count[1] === 0 || count[0] > count[1] ? undefined : count;
}

const partOf = (at: number, of: number) => Math.min(1, at / of);

/** What the newest such event of these tells; undefined: there is none. */
export function toldPart(
  events: readonly { kind: string; dataJson: string }[],
): number | null | undefined {
  const newest = events.findLast(({ kind }) => kind === PROGRESS_KIND);
  if (newest === undefined) return undefined;
  const { part } = parsedObject(newest.dataJson) ?? {};
  return typeof part === "number" && part >= 0 && part <= 1 ? part : null;
}
