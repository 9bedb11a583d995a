/**
 * Holds the worker to what is wanted of it: paused, no faster than so many steps a second, not further ahead of the
 * daemon than the backlog allows, not on the last of a disk.
 *
 * Its group is stopped (SIGSTOP) while any of its reasons says so: a pause by signal, the backlog, the disk, the "off" part of
 * the throttle's duty cycle. A worker that reads its standard input is asked to pause first; one that does not
 * answer in time is stopped all the same.
 */
import { messageOf } from "../base/errors.ts";
import { signalGroup } from "../os/signals.ts";
import type { ProcessRef } from "../os/identity.ts";
import { DutyCycle } from "./duty_cycle.ts";
import type { ProxyLog } from "./proxy_log.ts";

export interface Wish {
  paused: boolean;
  /** Steps a second; 0 is unlimited. */
  maxRateHz: number;
}

/** Why the proxy holds a worker that nobody wants to be paused. */
export type Hold = "backlog" | "disk";

/** How a worker is paused: it has been asked and has answered, or its group is stopped; "": neither. */
export type PausedBy = "message" | "signal" | "";

/** What the next proxy of this worker has to know, whenever this one ends. */
export interface Kept extends Wish {
  /** Of a worker that is to go on, "message" means that it has not said yet that it does. */
  pausedBy: PausedBy;
}

/** What is in force. */
export interface Applied extends Wish {
  /** "backlog" or "disk" while the proxy holds the worker of its own accord. */
  selfPaused: string;
}

export interface ControlOptions {
  leader: ProcessRef | undefined;
  /** The worker's standard input, where it reads control messages. */
  fifo: string | undefined;
  log: ProxyLog;
  changed: (applied: Applied) => void;
  /** Called before what it says is done. */
  keep: (kept: Kept) => void;
  /** Bytes that the worker has written. */
  written: () => number;
  /** How long a worker may take to answer a control message before signals are used. */
  answerMs?: number;
}

const ANSWER_MS = 10_000;
/** How long after a signal that could not be sent it is tried again. */
const AGAIN_MS = 1000;

export class WorkerControl {
  readonly #options: ControlOptions;
  #wish: Wish = { paused: false, maxRateHz: 0 };
  /** Of a worker that is asked by message: whether it has answered with "paused". */
  #answeredPaused = false;
  /** It was asked to go on and has not answered. */
  #resuming = false;
  #pausedBySignal = false;
  readonly #held = new Set<Hold>();
  #throttledOff = false;
  /** undefined: not known, an earlier proxy may have left it either way. */
  #stopped: boolean | undefined = false;
  /** Whether a worker that has left the group is stopped with it: the duty cycle has no time to look for one. */
  #stoppedOutside: boolean | undefined = false;
  #over = false;
  #answerTimer: ReturnType<typeof setTimeout> | undefined;
  #againTimer: ReturnType<typeof setTimeout> | undefined;
  #fifo: Deno.FsFile | undefined;
  #writing: Promise<void> = Promise.resolve();
  readonly #duty: DutyCycle;
  #told = "";
  #kept = "";

  constructor(options: ControlOptions) {
    this.#options = options;
    this.#duty = new DutyCycle({
      run: (run) => {
        this.#throttledOff = !run;
        this.#enforce();
      },
      written: () =>
        this.#pausedBySignal || this.#answeredPaused || this.#held.size > 0 ? undefined : options.written(),
    });
  }

  get wish(): Wish {
    return this.#wish;
  }

  get applied(): Applied {
    return {
      paused: this.#pausedBySignal || this.#answeredPaused,
      maxRateHz: this.#wish.maxRateHz,
      selfPaused: [...this.#held][0] ?? "",
    };
  }

  /** A worker that an earlier proxy may have left stopped goes on, unless it is to be paused: one that is stays as it is. */
  takeOver({ paused, maxRateHz, pausedBy }: Kept): void {
    this.#stopped = this.#stoppedOutside = undefined;
    this.#wish = { paused, maxRateHz };
    this.#pausedBySignal = paused && pausedBy === "signal";
    this.#answeredPaused = paused && pausedBy === "message";
    if (paused && pausedBy === "") this.#pause();
    else if (!paused && pausedBy === "message") this.#resume();
    else this.#enforce();
    this.#duty.limit(maxRateHz);
    this.#tell();
  }

  want(wish: Wish): void {
    if (this.#over) return;
    const before = this.#wish;
    this.#wish = { paused: wish.paused, maxRateHz: wish.maxRateHz };
    if (wish.paused && !before.paused) this.#pause();
    else if (!wish.paused && before.paused) this.#resume();
    else this.#keep();
    this.#duty.limit(wish.maxRateHz);
    this.#tell();
  }

  /** So many steps stood in so many bytes of the journal. */
  stepsSeen(steps: number, bytes: number): void {
    this.#duty.seen(steps, bytes);
  }

  hold(why: Hold, on: boolean): void {
    if (this.#over || this.#held.has(why) === on) return;
    if (on) this.#held.add(why);
    else this.#held.delete(why);
    this.#enforce();
    this.#tell();
  }

  /** A lifecycle record of the worker: `paused` and `resumed` answer control messages. */
  heard(kind: string): void {
    if (kind !== "paused" && kind !== "resumed") return;
    const paused = kind === "paused";
    // An answer to the message before leaves the last one unanswered.
    if (paused === this.#wish.paused) {
      clearTimeout(this.#answerTimer);
      this.#resuming = false;
    }
    this.#answeredPaused = paused && this.#wish.paused;
    if (!this.#over) this.#keep();
    this.#tell();
  }

  /** The worker is to end or has ended: whatever held it is lifted, and nothing will again. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#answerTimer);
    this.#duty.limit(0);
    this.#pausedBySignal = this.#throttledOff = false;
    this.#held.clear();
    this.#enforce();
    clearTimeout(this.#againTimer);
    try {
      this.#fifo?.close();
    } catch {
      // A write is still waiting; it ends with the process.
    }
  }

  #pause(): void {
    const asked = this.#options.fifo !== undefined;
    this.#resuming = false;
    this.#pausedBySignal = !asked;
    this.#keep();
    this.#enforce();
    if (!asked) return;
    this.#send("pause");
    this.#answerTimer = setTimeout(() => {
      this.#options.log.warn("the worker does not answer the pause and is stopped");
      this.#pausedBySignal = true;
      this.#keep();
      this.#enforce();
      this.#tell();
    }, this.#options.answerMs ?? ANSWER_MS);
  }

  #resume(): void {
    clearTimeout(this.#answerTimer);
    this.#pausedBySignal = this.#answeredPaused = false;
    this.#resuming = this.#options.fifo !== undefined;
    this.#keep();
    this.#enforce();
    if (this.#resuming) this.#send("resume");
  }

  /** One message after the other: a worker that does not read lets the pipe fill up, and then they wait here. */
  #send(control: "pause" | "resume"): void {
    const bytes = new TextEncoder().encode(JSON.stringify({ control }) + "\n");
    this.#writing = this.#writing.then(async () => {
      this.#fifo ??= await openFifo(this.#options.fifo!);
      await this.#fifo.write(bytes);
    }).catch((error) => {
      this.#options.log.warn({ error: messageOf(error) }, "the worker's standard input cannot be written");
    });
  }

  #enforce(): void {
    const lasting = this.#pausedBySignal || this.#held.size > 0;
    const stop = lasting || this.#throttledOff;
    const { leader, log } = this.#options;
    const known = stop === this.#stopped && (!lasting || this.#stoppedOutside === true);
    if (known || leader === undefined) return;
    const outside = lasting || !stop && this.#stoppedOutside !== false;
    this.#stopped = stop;
    this.#stoppedOutside = stop && (lasting || this.#stoppedOutside);
    try {
      signalGroup(leader, stop ? "SIGSTOP" : "SIGCONT", { outside });
    } catch (error) {
      log.warn({ error: messageOf(error) }, "the worker's group cannot be signalled");
      // Some of it may have been reached. A worker that is to go on must not stay stopped for want of a descriptor.
      this.#stopped = this.#stoppedOutside = undefined;
      clearTimeout(this.#againTimer);
      this.#againTimer = setTimeout(() => this.#enforce(), AGAIN_MS);
    }
  }

  #keep(): void {
    const message = this.#answeredPaused || this.#resuming;
    const kept: Kept = { ...this.#wish, pausedBy: this.#pausedBySignal ? "signal" : message ? "message" : "" };
    const text = JSON.stringify(kept);
    if (text === this.#kept) return;
    this.#kept = text;
    this.#options.keep(kept);
  }

  #tell(): void {
    const text = JSON.stringify(this.applied);
    if (text === this.#told) return;
    this.#told = text;
    this.#options.changed(this.applied);
  }
}

/** Open for both, it neither blocks nor ends. @throws where the worker has put something else in its place */
async function openFifo(path: string): Promise<Deno.FsFile> {
  const file = await Deno.open(path, { read: true, write: true });
  if ((await file.stat()).isFifo) return file;
  file.close();
  throw new Error(`${path} is no FIFO any more`);
}
