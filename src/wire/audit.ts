/** The audit log: who changed what, when and with which outcome, and who was refused. One JSON object a line. */
import { TokenBucket } from "../base/token_bucket.ts";

export interface AuditEntry {
  /** Name of the token; "owner" for the daemon's user without one, "anybody" where no credential is asked for, "nobody". */
  who: string;
  /** Of the connection; "unix" for the daemon's own socket. */
  address: string;
  /** Of the process at the other end, where it is known. */
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
  /** Refusals that were not written since the one before: strangers must not fill the disk. */
  skipped?: number;
};

const REFUSED_A_SECOND = 1;
const REFUSED_BURST = 60;

export class Audit {
  readonly #write: (line: string) => void;
  readonly #refusals = new TokenBucket(REFUSED_A_SECOND, REFUSED_BURST, performance.now());
  #skipped = 0;

  /** @param write appends a line, with its end, and never throws */
  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  /** Somebody did, or was allowed to try, something that changes something. */
  did(entry: AuditEntry): void {
    this.#write(auditLine(entry));
  }

  /** Somebody was not allowed to do something. */
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
  return `${JSON.stringify({ at: new Date().toISOString(), ...entry, ...(skipped === 0 ? {} : { skipped }) })}\n`;
}

/** @returns undefined for a line that is none, such as one that a full disk has cut off */
export function parseAuditLine(line: string): AuditLine | undefined {
  try {
    const entry = JSON.parse(line) as Partial<AuditLine> | null;
    return typeof entry?.at === "string" && typeof entry.action === "string" ? entry as AuditLine : undefined;
  } catch {
    return undefined;
  }
}
