/**
 * Finds the record that ends one connection after the other: what was sent first of all that the
 * daemon has not stored when it welcomes the proxy again. After two such ends a record is passed
 * over, so that none stops its run for ever. Lines of the journal travel together: those of a
 * suspected batch are sent one by one before any is passed over.
 */
import type { ErrorCode } from "../../base/errors.ts";

/** What was being sent: a place in the journal, or the next part of a file. */
export interface Sent {
  source: "stdout" | "files";
  /** The file's name; "" for the journal. */
  name: string;
  /** The batch's first byte, or the file's serial. */
  at: number;
  /** The batch's end. */
  to: number;
}

const MOST_FAILURES = 2;

export class Suspects {
  #sent: Sent[] = [];
  #why: string | undefined;
  #reason = "";
  #first: Sent | undefined;
  #failures = 0;
  /** Lines of the journal before this position go alone. */
  #aloneTo = 0;

  /** Before it is read, because reading may fail, too. */
  sending(one: Sent): void {
    this.#sent.push(one);
  }

  /**
   * The connection ends because of something that was sent or read: with an answer of this code, or
   * with an own error.
   */
  failed(why: string, code?: ErrorCode): void {
    // Any other answer says nothing about what was sent: a daemon without space, a run that has
    // ended, a token.
    if (code === undefined || code === "internal" || code === "invalid_argument") this.#why = why;
  }

  /** A new connection begins. @param isStored whether the daemon has stored it */
  welcomed(isStored: (one: Sent) => boolean): void {
    const first = this.#sent.find((one) => !isStored(one));
    const why = this.#why;
    this.#sent = [];
    this.#why = undefined;
    if (why === undefined || first === undefined) return;
    const { source, name, at } = first;
    const isSame = this.#first?.source === source && this.#first.name === name &&
      this.#first.at === at;
    this.#failures = isSame ? this.#failures + 1 : 1;
    this.#first = first;
    if (source === "stdout" && this.#failures >= MOST_FAILURES && at >= this.#aloneTo) {
      this.#aloneTo = first.to;
      this.#failures = 0;
    }
    this.#reason = why;
  }

  /** Whether the line of the journal at this position goes alone. */
  isAlone(at: number): boolean {
    return at < this.#aloneTo;
  }

  /** Why this is passed over; undefined if it is not. */
  passes(source: Sent["source"], name: string, at: number): string | undefined {
    const first = this.#first;
    const isIt = first?.source === source && first.name === name && first.at === at;
    return isIt && this.#failures >= MOST_FAILURES ? this.#reason : undefined;
  }
}
