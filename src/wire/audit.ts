/**
 * The audit log: who changed what, when and with which result, and who was refused. One JSON object
 * per line.
 */
import { TokenBucket } from "../base/time/token_bucket.ts";

export interface AuditEntry {
  /**
   * Name of the token; "owner" for the daemon's user without one, "anybody" if no credential is
   * required, "nobody".
   */
  who: string;
  /** Of the connection; "unix" for the daemon's own socket. */
  address: string;
  /** User of the process at the other end, if known. */
  uid?: number | undefined;
  /** Such as `Mosaic/CancelRun` or `page/cancel`. */
  action: string;
  run?: string | undefined;
  /** "ok", or the code of the error. */
  outcome: string;
  message?: string | undefined;
}

export type AuditLine = AuditEntry & {
  /** ISO 8601. */
  at: string;
  /** Refusals not written since the previous line: strangers must not fill the disk. */
  skipped?: number;
};

const REFUSED_A_SECOND = 1;
const REFUSED_BURST = 60;

export class Audit {
  readonly #write: (line: string) => void;
  readonly #refusals = new TokenBucket(REFUSED_A_SECOND, REFUSED_BURST, performance.now());
  #skipped = 0;

  /** @param write appends a line, including its newline, and never throws */
  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  /** A caller made a change, or was allowed to try. */
  did(entry: AuditEntry): void {
    this.#write(auditLine(entry));
  }

  /** A caller was refused. */
  refused(entry: AuditEntry): void {
    if (this.#refusals.take(performance.now()) !== undefined) {
      this.#skipped++;
      return;
    }
    this.#write(auditLine(entry, this.#skipped));
    this.#skipped = 0;
  }
}

export function auditLine(entry: AuditEntry, skipped = 0): string {
  return `${
    JSON.stringify({
      at: new Date().toISOString(),
      ...entry,
      ...(skipped === 0 ? {} : { skipped }),
    })
  }\n`;
}

/** @returns undefined for an invalid line, such as one that a full disk has cut off */
export function parseAuditLine(line: string): AuditLine | undefined {
  try {
    const entry = JSON.parse(line) as Partial<AuditLine> | null;
    return typeof entry?.at === "string" && typeof entry.action === "string"
      ? entry as AuditLine
      : undefined;
  } catch {
    return undefined;
  }
}
