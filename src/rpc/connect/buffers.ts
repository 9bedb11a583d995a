/**
 * Buffers for large messages, reused by all streams. The runtime frees unused buffers only when
 * about 64 MiB of them have accumulated: with a new buffer for each message they would be most of
 * the daemon's memory.
 */
const LEAST_BYTES = 64 << 10;
/** Larger buffers, which only huge records need, are not kept. */
const LARGEST_KEPT_BYTES = 1 << 20;
const ALL_KEPT_BYTES = 4 << 20;

export class BufferPool {
  readonly #free = new Map<number, ArrayBuffer[]>();
  #bytes = 0;

  /** Its size is a power of two; its content is undefined. */
  take(least: number): ArrayBuffer {
    const size = Math.max(LEAST_BYTES, 2 ** Math.ceil(Math.log2(least)));
    const free = this.#free.get(size)?.pop();
    if (free === undefined) return new ArrayBuffer(size);
    this.#bytes -= size;
    return free;
  }

  /** Returns a buffer to the pool. The caller must not use it afterwards. */
  give(buffer: ArrayBuffer): void {
    const size = buffer.byteLength;
    if (size > LARGEST_KEPT_BYTES || this.#bytes + size > ALL_KEPT_BYTES) return;
    this.#bytes += size;
    const free = this.#free.get(size);
    if (free === undefined) this.#free.set(size, [buffer]);
    else free.push(buffer);
  }
}
