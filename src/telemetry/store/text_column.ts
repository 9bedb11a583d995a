/**
 * A column of texts as bytes, before compression. Pure; what comes out is what went in, to the byte.
 *
 * Lists of numbers of 32 bits, as most observations are, become these numbers, a byte of all of them after the other: their
 * first bytes are alike and compress, where their up to 20 digits do not. A text that its numbers do not give back exactly is
 * kept beside them. (Numbers of 64 bits stay text: they would take 6 of 45 bytes less a step, and a block twice as long.)
 */

const TEXTS = 0;
const NUMBERS = 1;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Fewer texts, or shorter numbers, are small as text. */
const LEAST_TEXTS = 16;
const SAMPLE = 16;
const LEAST_DIGITS = 12;
/** Longer lists are images and the like. */
const MOST_NUMBERS = 256;
const SEPARATORS = [", ", ","];
/** Of all rows, those that are not as JSON.stringify writes them. */
const MOST_UNLIKE = 1 / 8;

/** @param values well-formed and without NUL, as all storable texts are */
export function encodeTexts(values: readonly string[]): Uint8Array {
  const numbers = encodeNumbers(values);
  if (numbers !== undefined) return numbers;
  const text = encoder.encode(`\0${values.join("\0")}`);
  text[0] = TEXTS;
  return text;
}

/** @throws Error when there are not `n` of them */
export function decodeTexts(bytes: Uint8Array, n: number): string[] {
  if (bytes[0] === NUMBERS) return decodeNumbers(bytes, n);
  if (bytes[0] !== TEXTS) throw new Error(`a column has form ${bytes[0]}, which this mosaic does not know`);
  const values = decoder.decode(bytes.subarray(1)).split("\0");
  if (values.length !== n) throw new Error(`a column has ${values.length} of ${n} texts`);
  return values;
}

function isStorable(text: unknown): boolean {
  return typeof text === "string" && text.isWellFormed() && !text.includes("\0");
}

// ---- lists of numbers

/** How the numbers of a column are written: as JSON.stringify does, but for some. */
interface Lists {
  /** Numbers of each list. */
  width: number;
  separator: string;
  /** Rows with a number that Python writes in its own way: `1.0`, `1e-05`. */
  python: number[];
  /** Texts that are neither, by their rows. */
  others: [row: number, text: string][];
}

function encodeNumbers(values: readonly string[]): Uint8Array | undefined {
  const n = values.length;
  const width = n < LEAST_TEXTS ? 0 : widthOf(values[0]!);
  if (width === 0) return undefined;
  // A few tell whether it is worth while to read all.
  if (listsOf(values.slice(0, SAMPLE), width)?.some((row) => row === undefined) !== false) return undefined;
  const rows = listsOf(values, width);
  if (rows === undefined || values.reduce((sum, text) => sum + text.length, 0) < LEAST_DIGITS * n * width) {
    return undefined;
  }
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
  const floats = new Float32Array(n * width);
  for (let i = 0; i < n; i++) {
    const row = numbers[i]!;
    for (let k = 0; k < width; k++) floats[k * n + i] = row[k]!;
    if (texts[i] === values[i]) continue;
    if (pythonList(row, lists) === values[i]) python.push(i);
    else others.push([i, values[i]!]);
    if (python.length + others.length > n * MOST_UNLIKE) return undefined;
  }
  const head = encoder.encode(`\0${JSON.stringify(lists)}\n`);
  head[0] = NUMBERS;
  const bytes = new Uint8Array(head.length + floats.byteLength);
  bytes.set(head);
  transpose(new Uint8Array(floats.buffer), bytes.subarray(head.length), 4);
  return bytes;
}

function decodeNumbers(bytes: Uint8Array, n: number): string[] {
  const end = bytes.indexOf(10) + 1;
  const lists = JSON.parse(decoder.decode(bytes.subarray(1, end))) as Lists;
  const { width, python, others } = lists;
  const isRow = (row: unknown) => Number.isInteger(row) && (row as number) >= 0 && (row as number) < n;
  const isRight = Number.isInteger(width) && width > 0 && width <= MOST_NUMBERS &&
    SEPARATORS.includes(lists.separator) &&
    python.every(isRow) && others.every(([row, text]) => isRow(row) && isStorable(text));
  if (!isRight) throw new Error("a column of lists of numbers has a head that is not right");
  const length = bytes.length - end;
  if (length !== n * width * 4) throw new Error(`a column has ${length} bytes of ${n} lists of ${width} numbers`);
  const floats = new Float32Array(n * width);
  transpose(bytes.subarray(end), new Uint8Array(floats.buffer), n * width);
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

/** 0 for a text that is no list. */
function widthOf(text: string): number {
  if (text[0] !== "[" || text.length > MOST_NUMBERS * 32) return 0;
  const width = text.split(",").length;
  return width <= MOST_NUMBERS ? width : 0;
}

/** The numbers of each text that is a list of so many, all of 32 bits; undefined where the texts are no JSON at all. */
function listsOf(texts: readonly string[], width: number): (number[] | undefined)[] | undefined {
  try {
    const rows = JSON.parse(`[${texts.join(",")}]`) as unknown[];
    return rows.length === texts.length ? rows.map((row) => isList(row, width) ? row : undefined) : undefined;
  } catch {
    return undefined;
  }
}

function isList(row: unknown, width: number): row is number[] {
  if (!Array.isArray(row) || row.length !== width) return false;
  for (let k = 0; k < width; k++) if (Math.fround(row[k]) !== row[k]) return false;
  return true;
}

function pythonText(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e16) return Number.isInteger(value) ? `${value}.0` : String(value);
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  return value.toExponential().replace(/e([-+])(\d)$/, "e$10$2");
}

/** `from` is rows of `width` bytes; `to` becomes its columns. */
function transpose(from: Uint8Array, to: Uint8Array, width: number): void {
  const rows = from.length / width;
  for (let column = 0, at = 0; column < width; column++) {
    for (let i = column, row = 0; row < rows; row++, i += width) to[at++] = from[i]!;
  }
}
