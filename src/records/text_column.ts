/**
 * A column of texts as bytes, before compression. Pure; decoding restores the texts to the byte.
 * Lists of numbers with many digits, as most observations are, are stored as numbers, of 32 bits if
 * that is exact, else of
 * 64. The bytes of all numbers are transposed: first bytes are alike and compress well, unlike
 *   their up to 20 digits.
 * Numbers of 64 bits are compressed here, each byte position on its own: together with six that
 * hardly compress, the other two would not. A text that its numbers do not restore exactly is kept
 * beside them.
 */

import { joinedBytes } from "../base/text/joined_bytes.ts";
import { zlib } from "../base/node_modules.ts";
import type { ByteText } from "../base/text/byte_text.ts";
import { storableText } from "./storable_steps.ts";

const TEXTS = 0;
/** Forms of lists of numbers, and the array types that hold their numbers. */
const NUMBERS: Record<number, typeof Float32Array | typeof Float64Array> = {
  1: Float32Array,
  2: Float64Array,
};
const BYTES = 8;
const FIRST_BYTES = 1 << 12;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Fewer texts are small as text. This many are sampled to decide whether reading all is worth it.
 */
const LEAST_TEXTS = 16;
/** Characters per number, below which text is smaller, for each form. */
const LEAST_DIGITS: Record<number, number> = { 1: 12, 2: 17 };
/** Longer lists are images and the like. */
const MOST_NUMBERS = 256;
const SEPARATORS = [", ", ","];
/** Fraction of rows that may differ from JSON.stringify's form. */
const MOST_UNLIKE = 1 / 8;

/**
 * Texts as a block stores them: each after a NUL; the first NUL's byte is the form. Added texts are
 * made storable. A text that is a part of other bytes is copied without becoming a string.
 */
export class TextColumn {
  #bytes = new Uint8Array(FIRST_BYTES);
  #used = 0;
  #n = 0;
  #length = 0;
  /** Texts that had to be changed to be stored, as they were, by their rows. */
  readonly #changed = new Map<number, string>();

  static of(texts: readonly string[]): TextColumn {
    const column = new TextColumn();
    for (const text of texts) column.push(text);
    return column;
  }

  get n(): number {
    return this.#n;
  }
  /** Length of all texts, in UTF-16 units. */
  get length(): number {
    return this.#length;
  }
  /** Number of texts that had to be changed to be stored. */
  get clamped(): number {
    return this.#changed.size;
  }

  /** @param text a part of other bytes has no NUL, because JSON has none */
  push(text: string | ByteText): void {
    if (typeof text === "string") this.#add(text);
    else if (!this.#copy(text)) this.#add(text.toString());
  }

  /** @returns false if a character has several bytes */
  #copy({ bytes, from, to }: ByteText): boolean {
    const target = this.#reserve(to - from);
    let at = this.#used + 1;
    let all = 0;
    for (let i = from; i < to; i++) {
      const byte = bytes[i]!;
      all |= byte;
      target[at++] = byte;
    }
    if (all > 127) return false;
    this.#added(at, to - from);
    return true;
  }

  #add(text: string): void {
    const clean = storableText(text);
    if (clean !== text) this.#changed.set(this.#n, text);
    const target = this.#reserve(clean.length * 3);
    const at = this.#used + 1;
    this.#added(at + encoder.encodeInto(clean, target.subarray(at)).written, clean.length);
  }

  #added(end: number, length: number): void {
    this.#bytes[this.#used] = 0;
    this.#used = end;
    this.#length += length;
    this.#n++;
  }

  #reserve(bytes: number): Uint8Array {
    const least = this.#used + 1 + bytes;
    if (this.#bytes.length < least) {
      const larger = new Uint8Array(Math.max(least, this.#bytes.length * 2));
      larger.set(this.#bytes.subarray(0, this.#used));
      this.#bytes = larger;
    }
    return this.#bytes;
  }

  /** The first `most` texts. */
  strings(most = Infinity): string[] {
    if (this.#n === 0) return [];
    let end = 0;
    for (let texts = 0; texts < most && end >= 0; texts++) {
      end = this.#bytes.subarray(0, this.#used).indexOf(0, end + 1);
    }
    return decoder.decode(this.#bytes.subarray(1, end < 0 ? this.#used : end)).split("\0");
  }

  /** The same bytes as `encodeTexts` without numbers: valid until the next text is added. */
  encoded(): Uint8Array {
    this.#bytes[0] = TEXTS;
    return this.#bytes.subarray(0, this.#used);
  }

  /**
   * The texts as they were added: the daemon makes them storable, and counts those that it had to
   * change.
   */
  toJSON(): string[] {
    const texts = this.strings();
    for (const [row, text] of this.#changed) texts[row] = text;
    return texts;
  }
}

/** @param texts an array must have well-formed texts without NUL, as all storable texts are */
export function encodeTexts(texts: readonly string[] | TextColumn): Uint8Array {
  if (texts instanceof TextColumn) {
    const form = formOf(texts.n, texts.strings(LEAST_TEXTS));
    return (form === undefined ? undefined : encodeNumbers(texts.strings(), form)) ??
      texts.encoded();
  }
  const form = formOf(texts.length, texts.slice(0, LEAST_TEXTS));
  const numbers = form && encodeNumbers(texts, form);
  if (numbers) return numbers;
  const text = encoder.encode(`\0${texts.join("\0")}`);
  text[0] = TEXTS;
  return text;
}

/** @throws Error if there are not `n` of them */
export function decodeTexts(bytes: Uint8Array, n: number): string[] {
  const numbers = NUMBERS[bytes[0]!];
  if (numbers !== undefined) return decodeNumbers(bytes, n, numbers);
  if (bytes[0] !== TEXTS) {
    throw new Error(`a column has form ${bytes[0]}, which this mosaic does not know`);
  }
  const values = decoder.decode(bytes.subarray(1)).split("\0");
  if (values.length !== n) throw new Error(`a column has ${values.length} of ${n} texts`);
  return values;
}

function isStorable(text: unknown): boolean {
  return typeof text === "string" && text.isWellFormed() && !text.includes("\0");
}

// ---- lists of numbers

/** How the numbers of a column are written: as by JSON.stringify, except for some rows. */
interface Lists {
  /** Numbers per list. */
  width: number;
  separator: string;
  /** Rows with a number in Python's form: `1.0`, `1e-05`. */
  python: number[];
  /** Texts in neither form, by their rows. */
  others: [row: number, text: string][];
  /** For numbers of 64 bits: compressed length of each byte position. */
  lengths?: number[];
}

/** The form worth using for a column, by its first texts. */
function formOf(n: number, sample: readonly string[]): number | undefined {
  const width = n < LEAST_TEXTS ? 0 : widthOf(sample[0]!);
  if (width === 0) return undefined;
  const digits = sample.reduce((sum, text) => sum + text.length, 0) / sample.length / width;
  return [1, 2].find((form) =>
    digits >= LEAST_DIGITS[form]! && listsOf(sample, width, form)?.every((row) => row !== undefined)
  );
}

function encodeNumbers(values: readonly string[], form: number): Uint8Array | undefined {
  const n = values.length;
  const width = widthOf(values[0]!);
  const rows = listsOf(values, width, form);
  if (!rows) return undefined;
  const none = new Array<number>(width).fill(0);
  const numbers = rows.map((row) => row ?? none);
  const lists: Lists = {
    width,
    separator: SEPARATORS.find((separator) => values[0]!.includes(separator)) ?? ",",
    python: [],
    others: [],
  };
  const { python, others } = lists;
  const texts = listTexts(numbers, lists);
  const floats = new NUMBERS[form]!(n * width);
  for (let i = 0; i < n; i++) {
    const row = numbers[i]!;
    for (let k = 0; k < width; k++) floats[k * n + i] = row[k]!;
    if (texts[i] === values[i]) continue;
    if (pythonList(row, lists) === values[i]) python.push(i);
    else others.push([i, values[i]!]);
    if (python.length + others.length > n * MOST_UNLIKE) return undefined;
  }
  let planes: Uint8Array = new Uint8Array(floats.byteLength);
  transpose(new Uint8Array(floats.buffer), planes, floats.BYTES_PER_ELEMENT);
  if (form === 2) [planes, lists.lengths] = compressed(planes);
  const head = encoder.encode(`\0${JSON.stringify(lists)}\n`);
  head[0] = form;
  const bytes = new Uint8Array(head.length + planes.length);
  bytes.set(head);
  bytes.set(planes, head.length);
  return bytes;
}

function compressed(planes: Uint8Array): [bytes: Uint8Array, lengths: number[]] {
  const { constants, zstdCompressSync } = zlib();
  const params = { [constants.ZSTD_c_compressionLevel]: 1 };
  const size = planes.length / BYTES;
  const each = Array.from(
    { length: BYTES },
    (_, i) => zstdCompressSync(planes.subarray(i * size, (i + 1) * size), { params }),
  );
  return [joinedBytes(each), each.map(({ length }) => length)];
}

/** @throws Error if they are not `size` bytes each */
function decompressed(bytes: Uint8Array, lengths: readonly number[], size: number): Uint8Array {
  let at = 0;
  return joinedBytes(lengths.map((length) => {
    const plane = zlib().zstdDecompressSync(bytes.subarray(at, at += length), {
      maxOutputLength: size,
    }) as Uint8Array;
    if (plane.length !== size) throw new Error(`a column has ${plane.length} of ${size} bytes`);
    return plane;
  }));
}

function decodeNumbers(bytes: Uint8Array, n: number, Numbers: typeof NUMBERS[number]): string[] {
  const end = bytes.indexOf(10) + 1;
  const lists = JSON.parse(decoder.decode(bytes.subarray(1, end))) as Lists;
  const { width, python, others, lengths } = lists;
  const isRow = (row: unknown) =>
    Number.isInteger(row) && (row as number) >= 0 && (row as number) < n;
  const isRight = Number.isInteger(width) && width > 0 && width <= MOST_NUMBERS &&
    SEPARATORS.includes(lists.separator) &&
    (Numbers === Float32Array ||
      (lengths?.length === BYTES &&
        lengths.every((one) => Number.isSafeInteger(one) && one > 0))) &&
    python.every(isRow) && others.every(([row, text]) => isRow(row) && isStorable(text));
  if (!isRight) throw new Error("a column of lists of numbers has a head that is not right");
  const rest = bytes.subarray(end);
  const planes = Numbers === Float32Array ? rest : decompressed(rest, lengths!, n * width);
  const { length } = planes;
  if (length !== n * width * Numbers.BYTES_PER_ELEMENT) {
    throw new Error(`a column has ${length} bytes of ${n} lists of ${width} numbers`);
  }
  const floats = new Numbers(n * width);
  transpose(planes, new Uint8Array(floats.buffer), n * width);
  const numbers: number[][] = [];
  for (let i = 0; i < n; i++) {
    const row: number[] = [];
    for (let k = 0; k < width; k++) row.push(floats[k * n + i]!);
    numbers.push(row);
  }
  const texts = listTexts(numbers, lists);
  for (const row of python) texts[row] = pythonList(numbers[row]!, lists);
  for (const [row, text] of others) texts[row] = text;
  return texts;
}

/** All at once: number by number it would take ten times as long. */
function listTexts(numbers: readonly number[][], { separator }: Lists): string[] {
  const json = JSON.stringify(numbers);
  const all = separator === "," ? json : json.replaceAll(",", separator);
  const texts: string[] = [];
  for (let from = 1; texts.length < numbers.length;) {
    const end = all.indexOf("]", from) + 1;
    texts.push(all.slice(from, end));
    from = end + separator.length;
  }
  return texts;
}

function pythonList(row: readonly number[], { separator }: Lists): string {
  return `[${row.map(pythonText).join(separator)}]`;
}

/** 0 if the text is no list. */
function widthOf(text: string): number {
  if (text[0] !== "[" || text.length > MOST_NUMBERS * 32) return 0;
  const width = text.split(",").length;
  return width <= MOST_NUMBERS ? width : 0;
}

/**
 * The numbers of each text that is a list of this width and form; undefined if the texts are not
 * JSON at all.
 */
function listsOf(
  texts: readonly string[],
  width: number,
  form: number,
): (number[] | undefined)[] | undefined {
  try {
    const rows = JSON.parse(`[${texts.join(",")}]`) as unknown[];
    return rows.length === texts.length
      ? rows.map((row) => isList(row, width, form) ? row : undefined)
      : undefined;
  } catch {
    return undefined;
  }
}

function isList(row: unknown, width: number, form: number): row is number[] {
  if (!Array.isArray(row) || row.length !== width) return false;
  for (let k = 0; k < width; k++) {
    if (form === 1 ? Math.fround(row[k]) !== row[k] : !Number.isFinite(row[k])) return false;
  }
  return true;
}

export function pythonText(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e16) return Number.isInteger(value) ? `${value}.0` : String(value);
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  return value.toExponential().replace(/e([-+])(\d)$/, "e$10$2");
}

/** Transposes: `from` has rows of `width` bytes; `to` gets its columns. */
function transpose(from: Uint8Array, to: Uint8Array, width: number): void {
  const rows = from.length / width;
  for (let column = 0, at = 0; column < width; column++) {
    for (let i = column, row = 0; row < rows; row++, i += width) to[at++] = from[i]!;
  }
}
