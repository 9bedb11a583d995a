/**
 * Credit-based delivery, for subscribers that request it: a Stream call with the metadata
 * `mosaic-credits: N` gets N records, then nothing until a ControlStream of the same subscriber
 * grants more for that run. A subscriber is identified by its `mosaic-subscriber` metadata, else by
 * its connection. Steps and episodes use one account, as in the original.
 */
import type { Core } from "../../dispatch/core/core.ts";
import { MosaicError } from "../../base/errors.ts";
import type { TelemetryKind } from "../../records/record_fields.ts";
import { type Caller, clientDisconnected } from "./handlers.ts";

const CREDITS = "mosaic-credits";
const SUBSCRIBER = "mosaic-subscriber";

interface Account {
  left: number;
  /** Number of streams that use it. */
  streams: number;
  waiters: Set<() => void>;
}

type Requester = Pick<Caller, "header" | "peer">;

function subscriberOf({ header, peer }: Requester): string {
  return header(SUBSCRIBER) ?? peer.name;
}

/** One stream's use of its account. */
export interface CreditedStream {
  /**
   * Takes one credit; waits for a grant if there is none. The beginning and end of a wait are
   * events of the run.
   * @throws MosaicError the signal's reason, or `aborted` if that is not a MosaicError
   */
  take(signal: AbortSignal): Promise<void>;
  close(): void;
}

/** The accounts of one server. */
export class Credits {
  readonly #accounts = new Map<string, Account>();

  /** The stream's account; undefined if it did not request credits. */
  open(
    core: Core,
    caller: Requester,
    runId: string,
    kind: TelemetryKind,
  ): CreditedStream | undefined {
    const requested = caller.header(CREDITS);
    if (requested === undefined) return undefined;
    const initial = Number(requested);
    if (!Number.isSafeInteger(initial) || initial < 0) {
      throw new MosaicError(
        "invalid_argument",
        `${CREDITS} is "${requested}": give a whole number of records`,
      );
    }
    const key = `${subscriberOf(caller)} ${runId}`;
    const account = this.#accounts.get(key) ?? { left: initial, streams: 0, waiters: new Set() };
    this.#accounts.set(key, account);
    account.streams++;
    return {
      async take(signal) {
        if (account.left <= 0) {
          core.readerState(runId, kind, "STARVED");
          core.readerStarved(runId, true);
          try {
            while (account.left <= 0 && !signal.aborted) await granted(account, signal);
          } finally {
            core.readerStarved(runId, false);
          }
          if (signal.aborted) {
            const { reason } = signal;
            throw reason instanceof MosaicError ? reason : clientDisconnected();
          }
          core.readerState(runId, kind, "RESUMED");
        }
        account.left--;
      },
      close: () => {
        if (--account.streams === 0) this.#accounts.delete(key);
      },
    };
  }

  /**
   * @throws MosaicError `failed_precondition` if the subscriber has no credit-based stream of the
   * run.
   */
  grant(caller: Requester, runId: string, credits: number): void {
    const account = this.#accounts.get(`${subscriberOf(caller)} ${runId}`);
    if (account === undefined) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} has no stream of yours that waits for credits`,
        {
          hint:
            `Open the stream with the metadata ${CREDITS}, and both calls with the same ${SUBSCRIBER}.`,
        },
      );
    }
    account.left += credits;
    for (const wake of [...account.waiters]) wake();
  }
}

function granted(account: Account, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      account.waiters.delete(done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    account.waiters.add(done);
    signal.addEventListener("abort", done, { once: true });
  });
}
