/**
 * Sends pictures as the rows that differ from the picture before, because most of an environment's
 * frame stays the same. The server finds the rows, the page completes the picture.
 */

import type { Picture } from "./fastlane.ts";

/** Index of the first row, and the number of consecutive rows. */
export type RowRange = [first: number, count: number];

type PictureSize = Omit<Picture, "pixels">;

/**
 * Unchanged rows between two changed ones are sent with them: a range costs about as many bytes as
 * a short row.
 */
const JOINED_ROWS = 2;
/**
 * With more ranges the whole picture is sent: rows may be a pixel long, and a picture may have
 * millions of them.
 */
const MOST_RANGES = 1000;

/**
 * Bounds the memory of kept pictures: a worker chooses their size and the number of environments.
 */
export class KeptPictures {
  readonly #most: number;
  #free: number;
  /** One for all: each is compared at once. */
  #aligned = new Uint8Array(0);

  /** @param most bytes of all pictures together */
  constructor(most: number) {
    this.#most = this.#free = most;
  }

  get free(): number {
    return this.#free;
  }

  /** @returns whether this many bytes may be kept */
  take(bytes: number): boolean {
    if (bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#free += bytes;
    if (this.#free === this.#most) this.#aligned = new Uint8Array(0);
  }

  /** The same bytes at the beginning of a buffer, valid until the next call. */
  aligned(pixels: Uint8Array): Uint8Array {
    if (this.#aligned.length < pixels.length) this.#aligned = new Uint8Array(pixels.length);
    this.#aligned.set(pixels);
    return this.#aligned.subarray(0, pixels.length);
  }
}

/** Finds what has changed from one picture of an environment to the next. */
export class ChangedRows implements Disposable {
  readonly #kept: KeptPictures;
  #size: PictureSize | undefined;
  #last = new Uint8Array(0);

  constructor(kept: KeptPictures) {
    this.#kept = kept;
  }

  /**
   * @param picture read only during this call
   * @returns the ranges of rows that differ from the picture of the call before, and their pixels.
   * Ranges are null for a whole picture, which is the given one: the first, one of another size or
   * with too many ranges, and each where no more may be kept.
   */
  next(
    { width, height, channels, pixels }: Picture,
  ): Pick<Picture, "pixels"> & { rows: RowRange[] | null } {
    const isSame = this.#size?.width === width && this.#size.height === height &&
      this.#size.channels === channels;
    if (!isSame) {
      this[Symbol.dispose]();
      if (this.#kept.take(pixels.length)) {
        this.#size = { width, height, channels };
        this.#last = pixels.slice();
      }
      return { rows: null, pixels };
    }
    const rowBytes = width * channels;
    const rows = changedRanges(this.#last, this.#kept.aligned(pixels), rowBytes);
    if (rows === undefined) {
      this.#last.set(pixels);
      return { rows: null, pixels };
    }
    for (const [first, count] of rows) {
      const from = first * rowBytes;
      this.#last.set(pixels.subarray(from, from + count * rowBytes), from);
    }
    return { rows, pixels: ofRows(this.#last, rows, rowBytes) };
  }

  /** No picture is kept. */
  [Symbol.dispose](): void {
    this.#kept.give(this.#last.length);
    this.#size = undefined;
    this.#last = new Uint8Array(0);
  }
}

/**
 * @param before each picture is at the beginning of its buffer, so that rows of whole words are
 * compared four bytes at a time
 * @returns undefined if there are too many
 */
function changedRanges(
  before: Uint8Array,
  after: Uint8Array,
  rowBytes: number,
): RowRange[] | undefined {
  const inWords = rowBytes % 4 === 0;
  const wordsOf = ({ buffer, length }: Uint8Array) => new Uint32Array(buffer, 0, length / 4);
  const [a, b] = inWords ? [wordsOf(before), wordsOf(after)] : [before, after];
  const length = inWords ? rowBytes / 4 : rowBytes;
  const ranges: RowRange[] = [];
  let last: RowRange | undefined;
  for (let row = 0, at = 0; at < b.length; row++) {
    const end = at + length;
    let i = at;
    while (i < end && a[i] === b[i]) i++;
    at = end;
    if (i === end) continue;
    if (last !== undefined && row <= last[0] + last[1] + JOINED_ROWS) last[1] = row + 1 - last[0];
    else if (ranges.push(last = [row, 1]) > MOST_RANGES) return undefined;
  }
  return ranges;
}

function ofRows(
  pixels: Uint8Array,
  rows: readonly RowRange[],
  rowBytes: number,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(rows.reduce((sum, [, count]) => sum + count * rowBytes, 0));
  let to = 0;
  for (const [first, count] of rows) {
    bytes.set(pixels.subarray(first * rowBytes, (first + count) * rowBytes), to);
    to += count * rowBytes;
  }
  return bytes;
}

/**
 * The whole picture after a message.
 * @param before the previous whole picture; undefined if there was none
 * @param pixels of the rows; of all rows if `rows` is null
 * @returns undefined if the message does not match the previous picture
 */
export function completed(
  before: Uint8Array | undefined,
  { width, height, channels }: PictureSize,
  rows: readonly RowRange[] | null,
  pixels: Uint8Array,
): Uint8Array | undefined {
  if (rows === null) return pixels;
  const rowBytes = width * channels;
  if (before === undefined || before.length !== rowBytes * height) return undefined;
  const whole = before.slice();
  let from = 0;
  for (const [first, count] of rows) {
    whole.set(pixels.subarray(from, from + count * rowBytes), first * rowBytes);
    from += count * rowBytes;
  }
  return whole;
}
