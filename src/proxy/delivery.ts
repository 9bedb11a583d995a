/**
 * Delivers the journal, then the exit, over as many connections as it takes.
 *
 * Delivery is a cursor: each connection begins where the daemon says that its store ends, and never runs further than
 * the window, and a quarter of it or 64 KiB or one line, ahead of the last acknowledgement. While there is no connection nothing is read and nothing is kept: the journal
 * on disk is the queue.
 */
import { messageOf, MosaicError } from "../base/errors.ts";
import type { LineContext, RecordCheck } from "../telemetry/dialects/parse_line.ts";
import { buildBatch } from "./batches.ts";
import type { Applied, Wish } from "./control.ts";
import type { DaemonAddress } from "./daemon_address.ts";
import type { IngestStream } from "./ingest_stream.ts";
import { type Journal, JOURNAL_BOUNDS } from "./journal.ts";
import { Link, type ProxyInit } from "./link.ts";
import type { ProxyLog } from "./proxy_log.ts";
import type { Wake } from "./wake.ts";

type HelloInit = Extract<ProxyInit, { case: "hello" }>["value"];
type ExitInit = Extract<ProxyInit, { case: "exit" }>["value"];

/** How a delivery ends that is not given up. */
export type Delivered =
  /** Everything and the exit is acknowledged. */
  | { type: "done" }
  /** The daemon will take nothing more of this attempt. */
  | { type: "refused"; reason: string };

export interface DeliveryOptions {
  journal: Journal;
  address: DaemonAddress;
  /** A new connection each time: one that has stopped delivering never recovers. */
  open: (target: string) => IngestStream;
  hello: () => HelloInit;
  context: LineContext;
  check: RecordCheck | undefined;
  log: ProxyLog;
  /** Set off whenever there may be something to do. */
  wake: Wake;
  /** Whether growth of the journal sets off `wake`: from `ask` on, until `rest`. */
  growth: { ask(): void; rest(): void };
  applied: () => Applied;
  onWish: (wish: Wish) => void;
  onStop: (graceSeconds: number) => void;
  /** So many steps stood in so many bytes. */
  onSteps: (steps: number, bytes: number) => void;
  onEvent: (kind: string) => void;
  /** Bytes stored by the daemon. */
  onAcknowledged: (position: number) => void;
  /** undefined while the worker lives. */
  exit: () => ExitInit | undefined;
  heartbeatMs: number;
  /** Without any word from the daemon for so long, with something under way, the connection is taken for dead. */
  deadmanMs: number;
  /** After so many refusals of its token, and the worker's end, the proxy goes. */
  turnedAwayTries?: number;
}

const PROTOCOL = "mosaic-ingest/1.0";
const BACKOFF_MS = { first: 100, most: 2000 };
/** How often a daemon that is away is looked for in its daemon.json. */
const LOOK_MS = 200;
/** So that lines which trickle in share a message. */
const GATHER_MS = 10;
/** Who writes so much between two looks need not be told of: the next look finds more. */
const MANY_BYTES = 4096;
const WELCOME_MS = 15_000;
const DEFAULT_WINDOW = 8 << 20;
/** A piece may have so much however small the window is: many small ones would cost more than what they save. */
const LEAST_PIECE_BYTES = 64 << 10;
const IDLE_MS = 1000;
const TURNED_AWAY_TRIES = 30;

export class Delivery {
  readonly #options: DeliveryOptions;
  #link: Link | undefined;
  #givenUp = false;
  /** How far records were counted: what is read again after a reconnection is not counted again. */
  #counted = 0;
  #failures = 0;
  /** How often in a row the daemon did not accept the token. */
  #turnedAway = 0;
  /** Whether the current connection has said hello. */
  #asked = false;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  get connected(): boolean {
    return this.#link !== undefined;
  }

  /** Tells the daemon what is in force; after a reconnection it is told anyway. */
  report(applied: Applied): void {
    this.#link?.send({ case: "control", value: applied });
  }

  /** Leaves what is not delivered to another proxy. */
  giveUp(): void {
    this.#givenUp = true;
    this.#link?.close();
    this.#options.wake.notify();
  }

  async run(): Promise<Delivered | { type: "given_up" }> {
    const { address, log, wake } = this.#options;
    for (;;) {
      if (this.#givenUp) return { type: "given_up" };
      try {
        await this.#deliver();
        return { type: "done" };
      } catch (error) {
        if (this.#givenUp) return { type: "given_up" };
        // What is wrong before the daemon was asked (a token file, say) is no answer of its.
        const refusal = this.#asked ? this.#refusal(error) : undefined;
        if (refusal !== undefined) return { type: "refused", reason: refusal };
        this.#failures++;
        // Once when it begins, then now and then: a daemon may be away for hours.
        if (this.#failures === 1 || this.#failures % 300 === 0) {
          log.warn({ target: address.current, error: messageOf(error), tries: this.#failures }, "no delivery just now");
        }
        address.lookAgain();
        const until = performance.now() + Math.min(BACKOFF_MS.most, BACKOFF_MS.first * 2 ** (this.#failures - 1));
        for (let left: number; !this.#givenUp && (left = until - performance.now()) > 0;) {
          await wake.wait(Math.min(left, LOOK_MS));
          // A daemon that is started again finds its proxies at once, however long they were without one.
          if (!address.announcedAnew()) continue;
          address.lookAgain();
          break;
        }
      }
    }
  }

  #refusal(error: unknown): string | undefined {
    if (!(error instanceof MosaicError)) return undefined;
    if (error.code === "unauthenticated" || error.code === "permission_denied") {
      // A token may be put right while the worker lives; after its end nothing but the report is open, and on disk.
      this.#turnedAway++;
      const enough = this.#turnedAway >= (this.#options.turnedAwayTries ?? TURNED_AWAY_TRIES);
      return enough && this.#options.exit() !== undefined ? error.message : undefined;
    }
    if (error.code !== "failed_precondition" && error.code !== "not_found") return undefined;
    // Another version of the daemon will come, or the proxy be replaced: the worker is not to suffer from it.
    if (error.message.includes("mosaic-ingest/")) return undefined;
    return this.#options.address.isOurs() ? error.message : undefined;
  }

  async #deliver(): Promise<void> {
    const { address, open, wake, log } = this.#options;
    this.#asked = false;
    const link = new Link(open(address.current), this.#options.deadmanMs, () => wake.notify());
    let heartbeat: ReturnType<typeof setInterval> | undefined;
    try {
      link.send({ case: "hello", value: { ...this.#options.hello(), protocol: PROTOCOL } });
      this.#asked = true;
      const welcome = await link.welcome(WELCOME_MS);
      this.#link = link;
      if (this.#failures > 0) log.info({ target: address.current, tries: this.#failures }, "connected again");
      this.#failures = this.#turnedAway = 0;
      if (welcome.control !== undefined) this.#options.onWish(welcome.control);
      link.send({ case: "control", value: this.#options.applied() });
      heartbeat = setInterval(
        () => link.send({ case: "heartbeat", value: { journalSize: this.#journalSize() } }),
        this.#options.heartbeatMs,
      );
      await this.#pump(link, Number(welcome.journalPosition), Number(welcome.windowBytes) || DEFAULT_WINDOW);
    } finally {
      this.#link = undefined;
      clearInterval(heartbeat);
      link.close();
    }
  }

  #journalSize(): bigint {
    return BigInt(this.#options.journal.size());
  }

  async #pump(link: Link, position: number, window: number): Promise<void> {
    const { journal, wake, growth, exit, applied, context, check } = this.#options;
    journal.seek(position);
    let acknowledged = position;
    let sent = position;
    this.#counted = Math.max(this.#counted, position);
    this.#options.onAcknowledged(position);
    let reportedExit = false;
    let gatherUntil = 0;
    for (;;) {
      for (const message of link.take()) {
        switch (message.case) {
          case "ack":
            acknowledged = Math.max(acknowledged, Number(message.value.position));
            window = Number(message.value.windowBytes) || window;
            this.#options.onAcknowledged(acknowledged);
            break;
          case "control":
            this.#options.onWish(message.value);
            link.send({ case: "control", value: applied() });
            break;
          case "stop":
            this.#options.onStop(message.value.graceSeconds);
            break;
          case "exitAck":
            return;
        }
      }
      link.check(sent > acknowledged || reportedExit);
      const ended = exit();
      const now = performance.now();
      const gathers = now < gatherUntil && ended === undefined;
      if (sent - acknowledged < window && !gathers) {
        // A part of the window, not the room left in it: an acknowledgement frees as much as its piece had, so that pieces
        // cut to the room would become small and stay so.
        const most = Math.min(JOURNAL_BOUNDS.bytes, Math.max(LEAST_PIECE_BYTES, window >> 2));
        const piece = journal.next(ended !== undefined, most);
        if (piece !== undefined) {
          const batch = buildBatch(piece, context, check);
          link.send({ case: "batch", value: { ...batch.message, journalSize: this.#journalSize() } });
          const bytes = piece.to - piece.from;
          sent = piece.to;
          if (piece.to > this.#counted) {
            this.#counted = piece.to;
            this.#options.onSteps(batch.steps, bytes);
            batch.eventKinds.forEach(this.#options.onEvent);
          }
          if (piece.lines.length < JOURNAL_BOUNDS.lines && bytes < most / 2) {
            gatherUntil = performance.now() + GATHER_MS;
          }
          if (bytes >= MANY_BYTES) growth.rest();
          // Acknowledgements, control and signals come in between any two batches.
          await new Promise<void>((resolve) => setImmediate(() => resolve()));
          continue;
        }
        if (ended !== undefined && !reportedExit && acknowledged >= sent) {
          reportedExit = true;
          link.send({ case: "exit", value: { ...ended, finalPosition: BigInt(sent) } });
          continue;
        }
        growth.ask();
      }
      await wake.wait(gathers ? gatherUntil - now : IDLE_MS);
    }
  }
}
