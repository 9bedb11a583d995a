/** Received bytes that are not consumed yet: reassembles what arrives in chunks. */
export class PendingBytes {
  #buffer = new Uint8Array(4096);
  #from = 0;
  #to = 0;

  /** Valid until the next `push`. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(this.#from, this.#to);
  }

  push(chunk: Uint8Array): void {
    if (this.#to + chunk.length > this.#buffer.length) {
      const held = this.bytes;
      const needed = held.length + chunk.length;
      if (needed > this.#buffer.length) this.#buffer = new Uint8Array(2 * needed);
      this.#buffer.set(held);
      this.#from = 0;
      this.#to = held.length;
    }
    this.#buffer.set(chunk, this.#to);
    this.#to += chunk.length;
  }

  /** The first `length` bytes are consumed. */
  drop(length: number): void {
    this.#from += length;
  }
}
