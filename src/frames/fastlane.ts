/**
 * The original's shared-memory ring of frames (`/dev/shm/mosaic.fastlane.RUN`): its layout, a
 * reader, the bytes that a writer writes, and pictures from the `rgb` numbers of a render payload.
 * A worker may write the ring, so every number in it is checked before use. Little endian, no
 * padding. Header of 80 bytes: magic, version, flags, capacity, slot size, payload size, width,
 * height, channels, format (u32 each, from 0), head and tail (u64 at 40), last reward, rolling
 * return, steps a second (f64 at 56). A slot: seq (u64), lengths of frame and metadata (u32 each),
 * frame, metadata. The n-th frame (from 1) is in slot (n - 1) mod capacity; its seq is odd while it
 * is written, and head becomes n when it is complete.
 */

export const RING_PREFIX = "mosaic.fastlane.";
const HEADER_BYTES = 80;
const SLOT_HEADER_BYTES = 16;
/** The first bytes of a ring. */
export const RING_MAGIC = "FLAN";
const MAGIC = 0x4e414c46;
const INVALIDATED = 1;
const MAX_FRAME_BYTES = 16 << 20;
const MAX_CAPACITY = 4096;
/**
 * Slots tried, from the newest back. If the ring is written faster than it is read, this read is
 * given up.
 */
const MAX_TRIES = 4;

/** Name of the file of a run's ring; it cannot contain `/`. */
export function ringName(id: string): string {
  return RING_PREFIX + id.replaceAll("/", "_");
}

/**
 * The suffixes after a run's id in the names of its rings ("" or such as "-w1"), from the names of
 * a directory.
 */
export function ringsOf(runId: string, names: Iterable<string>): string[] {
  const begin = ringName(runId);
  return [...names].filter((name) => name.startsWith(begin)).map((name) => name.slice(begin.length))
    .filter((rest) => /^(-[\w.-]{1,40})?$/.test(rest)).sort();
}

export interface Picture {
  width: number;
  height: number;
  /** 3: RGB; 4: RGBA. */
  channels: number;
  /** Rows of columns of channels. */
  pixels: Uint8Array<ArrayBuffer>;
}

export interface RingFrame extends Picture {
  /** Its number since the ring began, from 1. */
  n: number;
  reward: number;
  rollingReturn: number;
  stepsPerSecond: number;
}

interface RingHeader {
  capacity: number;
  slotSize: number;
  width: number;
  height: number;
  channels: number;
  head: number;
  reward: number;
  rollingReturn: number;
  stepsPerSecond: number;
}

/**
 * @throws RangeError if the header cannot be a ring's. undefined: it is not ready, or no longer
 * used
 */
function headerOf(bytes: Uint8Array, fileBytes: number): RingHeader | undefined {
  const values = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const [magic, version, flags, capacity, slotSize, , width, height, channels] = Array.from(
    { length: 9 },
    (_, i) => values.getUint32(i * 4, true),
  ) as [number, number, number, number, number, number, number, number, number];
  if (capacity === 0 || slotSize === 0 || (flags & INVALIDATED) !== 0) return undefined;
  const frameBytes = width * height * channels;
  const fits = magic === MAGIC && version === 1 && capacity <= MAX_CAPACITY &&
    [1, 3, 4].includes(channels) &&
    width > 0 && height > 0 && frameBytes <= MAX_FRAME_BYTES &&
    slotSize >= SLOT_HEADER_BYTES + frameBytes &&
    HEADER_BYTES + capacity * slotSize <= fileBytes;
  if (!fits) throw new RangeError("the ring's header does not fit its file");
  return {
    ...{ capacity, slotSize, width, height, channels },
    head: Number(values.getBigUint64(40, true)),
    reward: values.getFloat64(56, true),
    rollingReturn: values.getFloat64(64, true),
    stepsPerSecond: values.getFloat64(72, true),
  };
}

/** Reads the ring's file. */
export interface RingFile {
  /**
   * The bytes of the ranges, joined (fewer if a range does not exist), and the file's size;
   * undefined without a file. The bytes are valid until the next call.
   */
  read(...ranges: Ranges): Promise<{ size: number; bytes: Uint8Array } | undefined>;
}

export interface RingShape extends Pick<Picture, "width" | "height" | "channels"> {
  capacity: number;
  slotSize: number;
  /** Size of the whole file. */
  bytes: number;
}

/** Bytes to write at an offset of the file. */
export interface RingPart {
  at: number;
  bytes: Uint8Array;
}

const WRITTEN_CAPACITY = 128;
/** A container's whole shared memory may have only 64 MiB. */
const WRITTEN_BYTES = 16 << 20;
/** The original's format codes, the CRC-32 of their names. */
const FORMAT: Record<number, number> = { 3: 0xb793dab2, 4: 0xf601dff1 };

export function ringShape(width: number, height: number, channels: number): RingShape {
  const slotSize = SLOT_HEADER_BYTES + width * height * channels;
  const capacity = Math.max(4, Math.min(WRITTEN_CAPACITY, Math.floor(WRITTEN_BYTES / slotSize)));
  return { width, height, channels, capacity, slotSize, bytes: HEADER_BYTES + capacity * slotSize };
}

/** Tells readers that the ring is no longer written. */
export const INVALIDATION: RingPart = { at: 8, bytes: u32(INVALIDATED) };

/**
 * The header of a file of zeros. Readers consider the ring ready once capacity and slot size are
 * set: these are written last.
 */
export function ringStart({ width, height, channels, capacity, slotSize }: RingShape): RingPart[] {
  return [
    { at: 0, bytes: u32(MAGIC, 1, 0) },
    {
      at: 20,
      bytes: u32(slotSize - SLOT_HEADER_BYTES, width, height, channels, FORMAT[channels]!),
    },
    { at: 12, bytes: u32(capacity, slotSize) },
  ];
}

/** The n-th frame (from 1), in the order in which it must be written. */
export function ringFrame(
  { capacity, slotSize }: RingShape,
  n: number,
  pixels: Uint8Array,
  values: Pick<RingFrame, "reward" | "rollingReturn" | "stepsPerSecond">,
): RingPart[] {
  const at = HEADER_BYTES + ((n - 1) % capacity) * slotSize;
  const numbers = new Float64Array([values.reward, values.rollingReturn, values.stepsPerSecond]);
  return [
    { at: 56, bytes: littleEndian(numbers) },
    { at, bytes: u64(2 * n + 1) },
    { at: at + 8, bytes: u32(pixels.length, 0) },
    { at: at + SLOT_HEADER_BYTES, bytes: pixels },
    { at, bytes: u64(2 * n + 2) },
    { at: 40, bytes: u64(n) },
  ];
}

function u32(...values: number[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(values.length * 4));
  values.forEach((value, i) => view.setUint32(i * 4, value, true));
  return new Uint8Array(view.buffer);
}

function u64(value: number): Uint8Array {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, BigInt(value), true);
  return new Uint8Array(view.buffer);
}

function littleEndian(values: Float64Array): Uint8Array {
  const view = new DataView(new ArrayBuffer(values.length * 8));
  values.forEach((value, i) => view.setFloat64(i * 8, value, true));
  return new Uint8Array(view.buffer);
}

export class RingReader {
  readonly #file: RingFile;
  #shown = 0;
  /** Position of the next frame, once one was read: it is read together with the header. */
  #ahead: Ranges = [];

  constructor(file: RingFile) {
    this.#file = file;
  }

  /**
   * The newest complete frame that was not read before; its pixels are valid until the next call.
   * @throws RangeError if the file is no ring
   */
  async next(): Promise<RingFrame | undefined> {
    const ahead = this.#ahead;
    this.#ahead = [];
    const start = await this.#file.read([0, HEADER_BYTES], ...ahead);
    if (start === undefined || start.bytes.length < HEADER_BYTES) return undefined;
    const header = headerOf(start.bytes, start.size);
    if (header === undefined || header.head === this.#shown) return undefined;
    // A recreated ring counts from 1 again.
    if (header.head < this.#shown) this.#shown = 0;
    const oldest = Math.max(this.#shown, header.head - Math.min(header.capacity, MAX_TRIES));
    for (let n = header.head; n > oldest; n--) {
      const ranges = slotRanges(header, n);
      const bytes = String(ranges) === String(ahead)
        ? start.bytes.subarray(HEADER_BYTES)
        : (await this.#file.read(...ranges))?.bytes;
      const frame = bytes === undefined ? undefined : frameOf(header, n, bytes);
      if (frame === undefined) continue;
      this.#shown = header.head;
      this.#ahead = slotRanges(header, header.head + 1);
      return frame;
    }
    return undefined;
  }
}

type Ranges = [at: number, length: number][];

/** A slot, then its beginning again: if its seq has changed meanwhile, the frame is torn. */
function slotRanges(
  { capacity, slotSize, width, height, channels }: RingHeader,
  n: number,
): Ranges {
  const position = HEADER_BYTES + ((n - 1) % capacity) * slotSize;
  const length = SLOT_HEADER_BYTES + width * height * channels;
  return [[position, length], [position, 8]];
}

/** @param read the bytes at `slotRanges`. Undefined: it is being written */
function frameOf(header: RingHeader, n: number, read: Uint8Array): RingFrame | undefined {
  const { width, height, channels, reward, rollingReturn, stepsPerSecond } = header;
  const length = slotRanges(header, n)[0]![1];
  if (read.length < length + 8) return undefined;
  const frameBytes = width * height * channels;
  const end = SLOT_HEADER_BYTES + frameBytes;
  const slot = new Uint8Array(read.buffer as ArrayBuffer, read.byteOffset, length);
  const view = new DataView(read.buffer, read.byteOffset);
  const seq = view.getBigUint64(0, true);
  if (seq % 2n !== 0n || view.getBigUint64(length, true) !== seq) return undefined;
  if (view.getUint32(8, true) !== frameBytes) return undefined;
  return {
    n,
    width,
    height,
    ...colored(slot.subarray(SLOT_HEADER_BYTES, end), channels),
    ...{ reward, rollingReturn, stepsPerSecond },
  };
}

/** Converts grey to RGB. */
function colored(
  pixels: Uint8Array<ArrayBuffer>,
  channels: number,
): Pick<Picture, "channels" | "pixels"> {
  if (channels !== 1) return { channels, pixels };
  const rgb = new Uint8Array(pixels.length * 3);
  // A call for each pixel would take thirty times as long and block the daemon.
  for (let i = 0, to = 0; i < pixels.length; i++, to += 3) {
    rgb[to] = rgb[to + 1] = rgb[to + 2] = pixels[i]!;
  }
  return { channels: 3, pixels: rgb };
}

/**
 * The picture under `rgb` or `RGB` of a render payload: rows of columns of 1, 3 or 4 numbers.
 * Undefined if there is none, or rows differ. Numbers are truncated to integers from 0 to 255.
 * (`JSON.parse` would create an array for each pixel.)
 */
export function pictureOfPayload(json: string): Picture | undefined {
  const found = /"(?:rgb|RGB)"\s*:\s*(?=\[)/.exec(json);
  if (found === null) return undefined;
  let at = found.index + found[0].length;
  const numbers = new Uint8Array(Math.min(MAX_FRAME_BYTES, json.length - at));
  let count = 0;
  let depth = 0;
  let deepest = 0;
  let rows = 0;
  let columns = 0;
  for (; at < json.length; at++) {
    const char = json.charCodeAt(at);
    if (char === 0x5b) {
      depth++;
      deepest = Math.max(deepest, depth);
      if (depth === 2) rows++;
      else if (depth === 3) columns++;
      else if (depth > 3) return undefined;
    } else if (char === 0x5d) {
      if (--depth === 0) break;
    } else if (char >= 0x30 && char <= 0x39) {
      const isNegative = json.charCodeAt(at - 1) === 0x2d;
      let value = 0;
      let next = char;
      do {
        value = Math.min(255, value * 10 + next - 0x30);
        next = json.charCodeAt(++at);
      } while (next >= 0x30 && next <= 0x39);
      // Skip the fraction.
      while (
        (next >= 0x30 && next <= 0x39) || next === 0x2e || next === 0x65 || next === 0x2b ||
        next === 0x2d
      ) {
        next = json.charCodeAt(++at);
      }
      at--;
      if (count === numbers.length) return undefined;
      numbers[count++] = isNegative ? 0 : value;
    } else if (
      char !== 0x2c && char !== 0x20 && char !== 0x2d && char !== 0x0a && char !== 0x0d &&
      char !== 0x09
    ) {
      return undefined;
    }
  }
  const width = deepest === 2 ? count / rows : columns / rows;
  const channels = deepest === 2 ? 1 : count / columns;
  const isWhole = depth === 0 && rows > 0 && Number.isInteger(width) && width > 0 &&
    [1, 3, 4].includes(channels);
  return isWhole
    ? { width, height: rows, ...colored(numbers.slice(0, count), channels) }
    : undefined;
}
