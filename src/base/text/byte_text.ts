/**
 * A JSON text as a part of other bytes. Valid until those change, or until this object is set to
 * another part.
 */

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export class ByteText {
  #bytes: Uint8Array = new Uint8Array(0);
  #from = 0;
  #to = 0;

  get bytes(): Uint8Array {
    return this.#bytes;
  }
  get from(): number {
    return this.#from;
  }
  get to(): number {
    return this.#to;
  }

  set(bytes: Uint8Array, from: number, to: number): void {
    this.#bytes = bytes;
    this.#from = from;
    this.#to = to;
  }

  toString(): string {
    return decoder.decode(this.#bytes.subarray(this.#from, this.#to));
  }
}
