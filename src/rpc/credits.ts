/**
 * Credit-based delivery, for subscribers that request it: a Stream call with the metadata `mosaic-credits: N` gets N
 * records, then nothing until a ControlStream of the same subscriber grants more for that run. A subscriber is identified by
 * its `mosaic-subscriber` metadata, else by its connection. Steps and episodes use one account, as in the original.
 */
import type { Core } from "../dispatch/core/core.ts";
import { MosaicError } from "../base/errors.ts";
import type { TelemetryKind } from "../telemetry/types.ts";
import type { Caller } from "./handlers.ts";

const CREDITS = "mosaic-credits";
const SUBSCRIBER = "mosaic-subscriber";

interface Account {
  left: number;
  /** Number of streams that use it. */
  streams: number;
  waiters: Set<() => void>;
}

type Asker = Pick<Caller, "header" | "peer">;

function subscriberOf(asker: Asker): string {
  return asker.header(SUBSCRIBER) ?? asker.peer.name;
}

/** One stream's use of its account. */
class CreditedStream {
  readonly #core: Core;
  readonly #runId: string;
  readonly #kind: TelemetryKind;
  readonly #account: Account;
  readonly #close: () => void;

  constructor(core: Core, runId: string, kind: TelemetryKind, account: Account, close: () => void) {
    this.#core = core;
    this.#runId = runId;
    this.#kind = kind;
    this.#account = account;
    this.#close = close;
  }

  /**
   * Takes one credit; waits for a grant if there is none. Both moments are events of the run. @throws MosaicError the
   * signal's reason; `aborted` if that is no MosaicError
   */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#account.left > 0) {
      this.#account.left--;
      return;
    }
    this.#tell("STARVED");
    this.#core.readerStarved(this.#runId, true);
    try {
      while (this.#account.left <= 0 && !signal.aborted) await this.#granted(signal);
    } finally {
      this.#core.readerStarved(this.#runId, false);
    }
    if (signal.aborted) {
      throw signal.reason instanceof MosaicError
        ? signal.reason
        : new MosaicError("aborted", "the client has disconnected");
    }
    this.#account.left--;
    this.#tell("RESUMED");
  }

  close(): void {
    this.#close();
  }

  #granted(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#account.waiters.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#account.waiters.add(done);
      signal.addEventListener("abort", done, { once: true });
    });
  }

  #tell(state: "STARVED" | "RESUMED"): void {
    this.#core.readerState(this.#runId, this.#kind, state);
  }
}

/** The accounts of one server. */
export class Credits {
  readonly #accounts = new Map<string, Account>();

  /** The stream's account; undefined if it did not request credits. */
  open(core: Core, asker: Asker, runId: string, kind: TelemetryKind): CreditedStream | undefined {
    const asked = asker.header(CREDITS);
    if (asked === undefined) return undefined;
    const initial = Number(asked);
    if (!Number.isSafeInteger(initial) || initial < 0) {
      throw new MosaicError("invalid_argument", `${CREDITS} is "${asked}": give a whole number of records`);
    }
    const key = `${subscriberOf(asker)} ${runId}`;
    let account = this.#accounts.get(key);
    if (account === undefined) this.#accounts.set(key, account = { left: initial, streams: 0, waiters: new Set() });
    account.streams++;
    const close = () => {
      if (--account.streams === 0) this.#accounts.delete(key);
    };
    return new CreditedStream(core, runId, kind, account, close);
  }

  /** @throws MosaicError `failed_precondition` if the subscriber has no credit-based stream of the run. */
  grant(asker: Asker, runId: string, credits: number): void {
    const account = this.#accounts.get(`${subscriberOf(asker)} ${runId}`);
    if (account === undefined) {
      throw new MosaicError("failed_precondition", `run ${runId} has no stream of yours that waits for credits`, {
        hint: `Open the stream with the metadata ${CREDITS}, and both calls with the same ${SUBSCRIBER}.`,
      });
    }
    account.left += credits;
    for (const wake of [...account.waiters]) wake();
  }
}
