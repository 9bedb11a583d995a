/**
 * The proxy's loop: passes events one by one to the state machine, performs the effects, and keeps
 * the one timer that the state asks for. Results of effects come back as events.
 */
import { isHeld } from "./state/control_state.ts";
import { DutyCycle } from "./worker/duty_cycle.ts";
import type { Effect, Event, Hold, Result, SourceId } from "./state/events_and_effects.ts";
import { PRESSURE_POLL_MS } from "./delivery/pressure.ts";
import type { Logger } from "../base/log.ts";
import type { EventQueue } from "./state/queue.ts";
import { dueAt, holds, initialState, next, type Settings, type State } from "./state/state.ts";
import type { Delivery } from "./delivery/delivery.ts";
import type { WorkerHandle } from "./worker/worker_handle.ts";

type Methods<Class, Names extends keyof Class> = Pick<Class, Names>;

/** What effects act on. Results are put into the queue. */
export interface Edges {
  worker: Methods<
    WorkerHandle,
    "start" | "signal" | "request" | "endGroup" | "writeRecord" | "recordLeaseEnd" | "close"
  >;
  delivery: Methods<Delivery, "connect" | "close" | "awaitDaemon" | "send" | "seek" | "read">;
  growth: { arm(source: SourceId): void; disarm(source: SourceId): void };
  /** Bytes that the worker has written. */
  written: () => number;
  measure: (acknowledged: number, holds: (why: Hold) => boolean) => Event[];
  log: Logger;
}

export interface Left {
  code: number;
  result: Result;
}

export class ProxyLoop {
  readonly #queue: EventQueue<Event>;
  readonly #edges: Edges;
  readonly #duty: DutyCycle;
  #state: State;
  #left: Left | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Infinity;

  constructor(settings: Settings, queue: EventQueue<Event>, edges: Edges) {
    this.#state = initialState(settings);
    this.#queue = queue;
    this.#edges = edges;
    this.#duty = new DutyCycle({
      run: (run) => queue.put({ tag: "throttled", off: !run }),
      written: () => isHeld(this.#state.control) ? undefined : edges.written(),
    });
  }

  /**
   * Runs until the proxy may exit. @throws errors after which another proxy must continue with the
   * worker and its journal.
   */
  async run(): Promise<Left> {
    const measures = setInterval(() => this.#measure(), PRESSURE_POLL_MS);
    this.#queue.put({ tag: "started" });
    try {
      await this.#queue.run((event) => this.#handle(event));
    } finally {
      clearInterval(measures);
      clearTimeout(this.#timer);
      this.#duty.limit(0);
      this.#edges.delivery.close();
      this.#edges.worker.close();
    }
    return this.#left!;
  }

  #handle(event: Event): void {
    const { state, effects } = next(this.#state, event, performance.now());
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    this.#setTimer();
  }

  /**
   * A timer that fires early costs one tick; resetting it at each acknowledgement would cost more.
   */
  #setTimer(): void {
    const due = dueAt(this.#state);
    if (due >= this.#timerAt) return;
    clearTimeout(this.#timer);
    this.#timerAt = due;
    this.#timer = setTimeout(() => {
      this.#timerAt = Infinity;
      this.#queue.put({ tag: "tick" });
    }, Math.max(0, Math.ceil(due - performance.now())));
  }

  #measure(): void {
    if (this.#state.control.tag !== "active") return;
    try {
      const acknowledged = this.#state.delivery.sources[0]?.acknowledged ?? 0;
      const events = this.#edges.measure(acknowledged, (why) => holds(this.#state, why));
      for (const event of events) this.#queue.put(event);
    } catch (error) {
      this.#queue.fail(error);
    }
  }

  #perform(effect: Effect): void {
    const { worker, delivery, growth, log } = this.#edges;
    switch (effect.tag) {
      case "start_worker":
        worker.start(effect.settings);
        break;
      case "signal_group":
        worker.signal(effect.signal, effect.outside);
        break;
      case "end_group":
        worker.endGroup(effect.graceS);
        break;
      case "ask_worker":
        worker.request(effect.control);
        break;
      case "record_lease_end":
        worker.recordLeaseEnd();
        break;
      case "set_rate":
        this.#duty.limit(effect.maxRateHz);
        break;
      case "count_steps":
        this.#duty.seen(effect.steps, effect.bytes);
        break;
      case "write_record":
        worker.writeRecord(effect.record);
        break;
      case "connect":
        delivery.connect();
        break;
      case "close":
        delivery.close();
        break;
      case "await_daemon":
        delivery.awaitDaemon(effect.error, effect.tries);
        break;
      case "send":
        delivery.send(effect.message);
        break;
      case "seek":
        delivery.seek(effect.source, effect.position);
        break;
      case "read":
        delivery.read(effect.source, effect.most, effect.final);
        break;
      case "arm_growth":
        growth.arm(effect.source);
        break;
      case "disarm_growth":
        growth.disarm(effect.source);
        break;
      case "log":
        log[effect.level](effect.fields ?? {}, effect.message);
        break;
      case "leave":
        this.#left = { code: effect.code, result: effect.result };
        this.#queue.close();
    }
  }
}
