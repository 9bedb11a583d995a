/**
 * Pictures sent as the rows that differ from the picture before: of an environment most of a frame stays as it is. The
 * server finds the rows, the page completes the picture.
 */

import type { Picture } from "../wire/fastlane.ts";

/** Index of the first row, and how many rows follow one another from there. */
export type RowRange = [first: number, count: number];

type PictureSize = Omit<Picture, "pixels">;

/** Unchanged rows between two changed ones are sent with them: a range costs about as many bytes as a short row. */
const JOINED_ROWS = 2;

/** Finds what has changed from one picture of an environment to the next. */
export class ChangedRows {
  #size: PictureSize | undefined;
  #last = new Uint8Array(0);
  /** The picture before the last; the next is copied into it. */
  #spare = new Uint8Array(0);

  /**
   * @param picture read only during this call
   * @returns the ranges of rows that differ from the picture of the call before, and their pixels. Ranges are null for a whole
   * picture, which is valid until the next call: the first one, or one of another size.
   */
  next({ width, height, channels, pixels }: Picture): Pick<Picture, "pixels"> & { rows: RowRange[] | null } {
    const isSame = this.#size?.width === width && this.#size.height === height && this.#size.channels === channels;
    if (!isSame) {
      this.#size = { width, height, channels };
      this.#last = pixels.slice();
      this.#spare = new Uint8Array(pixels.length);
      return { rows: null, pixels: this.#last };
    }
    [this.#last, this.#spare] = [this.#spare, this.#last];
    this.#last.set(pixels);
    const rowBytes = width * channels;
    const rows = changedRanges(this.#spare, this.#last, rowBytes);
    return { rows, pixels: ofRows(this.#last, rows, rowBytes) };
  }
}

/** @param before each picture has a buffer of its own, so that rows of whole words are compared four bytes at a time */
function changedRanges(before: Uint8Array, after: Uint8Array, rowBytes: number): RowRange[] {
  const inWords = rowBytes % 4 === 0;
  const [a, b] = inWords ? [new Uint32Array(before.buffer), new Uint32Array(after.buffer)] : [before, after];
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
    else ranges.push(last = [row, 1]);
  }
  return ranges;
}

function ofRows(pixels: Uint8Array, rows: readonly RowRange[], rowBytes: number): Uint8Array<ArrayBuffer> {
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
 *
 * @param before the whole picture before; undefined when there was none
 * @param pixels of the rows; of all for `rows` null
 * @returns undefined when the message does not fit what was there before
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
