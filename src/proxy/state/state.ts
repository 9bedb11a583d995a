/**
 * The proxy of one attempt as a pure state machine: `next` maps a state and an event to the next
 * state and to effects. It reads no clock and no file; the loop in run_proxy.ts performs the
 * effects.
 */
import type { ProcessRef } from "../../os/processes/identity.ts";
import {
  activate,
  appliedOf,
  applyLifecycleRecord,
  controlDueAt,
  type ControlState,
  controlTick,
  desire,
  hold,
  notSignalled,
  release,
  throttle,
} from "./control_state.ts";
import {
  acknowledged,
  batchSent,
  caughtUp,
  connect,
  deliveryDueAt,
  type DeliverySettings,
  type DeliveryState,
  deliveryTick,
  greet,
  grew,
  heard,
  isNew,
  isOpen,
  lost,
  pump,
  timeout,
  undelivered,
  welcomed,
} from "./delivery_state.ts";
import { isOverBacklog } from "./backlog.ts";
import type {
  AppliedControl,
  Effect,
  Effects,
  Event,
  Failure,
  Hold,
  Result,
  WorkerEnd,
} from "./events_and_effects.ts";
import { PROXY_EXIT, statusOf } from "./exit_codes.ts";
import { LEAVE_AFTER_MS } from "./grace.ts";
import { GRACE_S } from "../../base/agreed.ts";

type EventOf<Tag extends Event["tag"]> = Extract<Event, { tag: Tag }>;

interface StopRequest {
  readonly graceS: number;
  /** For the log. */
  readonly by: string;
}

export type WorkerState =
  /** It is started after the daemon's welcome. */
  | { readonly tag: "awaiting_welcome" }
  /** `stop` was requested meanwhile. */
  | { readonly tag: "starting"; readonly stop: StopRequest | undefined }
  /** `leader` is undefined if no process is left to signal: the exit will be known soon. */
  | { readonly tag: "running"; readonly leader: ProcessRef | undefined }
  | { readonly tag: "ended"; readonly leader: ProcessRef | undefined; readonly end: WorkerEnd };

/** The worker's process group: not touched until a stop is requested or the worker has ended. */
export type GroupState = "left_alone" | "ending" | "ended";

export type Stay =
  | { readonly tag: "serving" }
  /**
   * A signal arrived: the proxy exits at `until`, which is set when the worker and its group have
   * ended.
   */
  | { readonly tag: "signalled"; readonly until: number | undefined }
  /** The daemon refuses the attempt: the proxy exits when the worker's group has ended. */
  | { readonly tag: "refused"; readonly reason: string }
  | { readonly tag: "left" };

export interface Settings extends DeliverySettings {
  /** Whether the worker reads control messages on its standard input. */
  readonly takesMessages: boolean;
  /** The worker is started only after the welcome. */
  readonly helloFirst: boolean;
  /** Or without a welcome after this time; Infinity: never. */
  readonly welcomeWaitMs: number;
  /** With nothing left to run and no daemon, the proxy exits after this time; Infinity: never. */
  readonly lingerMs: number;
  /** After so long without a message of the daemon, the worker is stopped; Infinity: never. */
  readonly leaseMs: number;
  /** Between SIGTERM and SIGKILL for processes that the worker leaves in its group. */
  readonly graceS: number;
}

export interface State {
  readonly settings: Settings;
  readonly worker: WorkerState;
  readonly group: GroupState;
  readonly control: ControlState;
  readonly delivery: DeliveryState;
  readonly stay: Stay;
  /** Since when no worker runs and no daemon is connected; undefined while either is. */
  readonly idleSince: number | undefined;
  /** When the daemon last sent something, or the proxy began. */
  readonly heardAt: number;
  /** When the proxy began. */
  readonly begunAt: number;
  /** The engine has announced its time limit. */
  readonly limitIsNear: boolean;
}

export interface Step {
  state: State;
  effects: Effect[];
}

export function initialState(settings: Settings): State {
  return {
    settings,
    worker: settings.helloFirst
      ? { tag: "awaiting_welcome" }
      : { tag: "starting", stop: undefined },
    group: "left_alone",
    control: { tag: "pending", desired: undefined },
    delivery: undelivered(settings),
    stay: { tag: "serving" },
    idleSince: undefined,
    heardAt: Infinity,
    begunAt: Infinity,
    limitIsNear: false,
  };
}

/** When a `tick` is due; Infinity while nothing waits for a time. */
export function dueAt(state: State): number {
  const { settings, control, delivery, stay, idleSince } = state;
  if (stay.tag === "left") return Infinity;
  const leave = stay.tag === "signalled" ? stay.until ?? Infinity : Infinity;
  const lingered = idleSince === undefined ? Infinity : idleSince + settings.lingerMs;
  return Math.min(
    ...[leave, lingered, leaseEndsAt(state), startsAt(state)],
    ...[controlDueAt(control), deliveryDueAt(delivery)],
  );
}

/**
 * When the worker is started without a welcome; Infinity: it waits for one, or is started already.
 */
function startsAt({ worker, begunAt, settings }: State): number {
  return worker.tag === "awaiting_welcome" ? begunAt + settings.welcomeWaitMs : Infinity;
}

/** Infinity while no worker is running, and no group has to end. */
function leaseEndsAt({ settings, worker, group, heardAt }: State): number {
  const runs = worker.tag === "running" && worker.leader !== undefined && group === "left_alone";
  return runs ? heardAt + settings.leaseMs : Infinity;
}

/** @param now ms of a monotonic clock */
export function next(state: State, event: Event, now: number): Step {
  const effects: Effects = [];
  if (state.stay.tag === "left") return { state, effects };
  let after = idling(settle(handle(state, event, now, effects), now, effects), now);
  if (after.stay.tag === "left") return { state: after, effects };
  // Messages of the daemon are answered even if they change nothing; that a stop lifts a pause is
  // not reported.
  const isRequest = event.tag === "welcomed" || event.tag === "control";
  const applied = appliedOf(after.control);
  const isChanged = after.control.tag === "active" && !isSame(applied, appliedOf(state.control));
  if (isOpen(after.delivery) && (isRequest || isChanged)) {
    effects.push({ tag: "send", message: { case: "control", applied } });
  }
  after = {
    ...after,
    delivery: pump(after.delivery, reportableEnd(after), after.settings, now, effects),
  };
  return { state: after, effects };
}

function handle(state: State, event: Event, now: number, effects: Effects): State {
  const { control, delivery, settings } = state;
  switch (event.tag) {
    case "started": {
      const begun = { ...state, heardAt: now, begunAt: now };
      if (state.worker.tag === "awaiting_welcome") {
        return { ...begun, delivery: connect(delivery, effects) };
      }
      effects.push({ tag: "start_worker" });
      return begun;
    }
    case "worker_started":
      return workerStarted(state, event.leader, event.inherited, now, effects);
    case "worker_exited":
      return workerExited(state, event, effects);
    case "group_ended":
      return { ...state, group: "ended" };
    case "group_not_signalled":
      return { ...state, control: notSignalled(control, now) };
    case "throttled":
      return { ...state, control: throttle(control, event.off, effects) };
    case "journal_grew":
      return { ...state, delivery: grew(delivery, event.source) };
    case "batch_sent": {
      const source = delivery.sources.find(({ id }) => id === event.source);
      const answers = isOpen(delivery) && isNew(source, event) ? event.eventKinds : [];
      return {
        ...state,
        control: answers.reduce(
          (before, kind) => applyLifecycleRecord(before, kind, effects),
          control,
        ),
        delivery: batchSent(delivery, event, settings, now, effects),
      };
    }
    case "caught_up":
      return { ...state, delivery: caughtUp(delivery, event, effects) };
    case "connected": {
      if (delivery.connection.tag !== "connecting") return state;
      const startsWorker = state.worker.tag === "awaiting_welcome";
      effects.push({
        tag: "send",
        message: { case: "hello", leader: leaderOf(state), startsWorker },
      });
      return { ...state, delivery: greet(delivery, now) };
    }
    case "welcomed":
    case "acknowledged":
    case "control":
    case "stop_requested":
    case "exit_acknowledged":
    case "heartbeat_answered":
      return handleDaemonMessage(state, event, now, effects);
    case "disconnected":
      return disconnected(state, event.failure, now, effects);
    case "daemon_announced":
      return delivery.connection.tag === "waiting"
        ? { ...state, delivery: connect(delivery, effects) }
        : state;
    case "backlog_measured": {
      const isHeld = holds(state, "backlog");
      const over = isOverBacklog(isHeld, event.bytes, event.limit);
      const message = over
        ? "worker held: too much undelivered"
        : "worker continues: the backlog is delivered";
      return measured(
        state,
        "backlog",
        over,
        message,
        { backlog: event.bytes, limit: event.limit },
        effects,
      );
    }
    case "free_space_measured": {
      const message = event.enough
        ? "worker continues: there is free space"
        : `worker held: it waits for ${event.text}`;
      return measured(state, "disk", !event.enough, message, {}, effects);
    }
    case "checkpoint_requested":
      return askForCheckpoint(state, effects);
    case "limit_near":
      effects.push({ tag: "log", level: "info", message: "the time limit is near" });
      return warn({ ...state, limitIsNear: true }, effects);
    case "signal":
      return stop(
        state.stay.tag === "serving"
          ? { ...state, stay: { tag: "signalled", until: undefined } }
          : state,
        { graceS: GRACE_S, by: "a signal" },
        effects,
      );
    case "tick":
      return tick(state, now, effects);
  }
}

// ----------------------------------------------------------------------------------------------------
// the worker

function workerStarted(
  state: State,
  leader: ProcessRef | undefined,
  inherited: EventOf<"worker_started">["inherited"],
  now: number,
  effects: Effects,
): State {
  const { worker, settings } = state;
  if (worker.tag !== "starting") return state;
  if (leader !== undefined && isOpen(state.delivery)) {
    effects.push({ tag: "send", message: { case: "worker_started", leader } });
  }
  const takesMessages = settings.takesMessages && leader !== undefined;
  const running: State = {
    ...state,
    worker: { tag: "running", leader },
    control: activate(state.control, takesMessages, inherited, now, effects),
  };
  const after = worker.stop === undefined ? running : stop(running, worker.stop, effects);
  return warn({ ...after, delivery: connect(after.delivery, effects) }, effects);
}

/** Asks the worker to save a checkpoint before the engine's time limit. */
function warn(state: State, effects: Effects): State {
  return state.limitIsNear ? askForCheckpoint(state, effects) : state;
}

function askForCheckpoint(state: State, effects: Effects): State {
  if (state.worker.tag === "running" && state.settings.takesMessages) {
    effects.push({ tag: "ask_worker", control: "checkpoint" });
  }
  return state;
}

/**
 * What the worker leaves running in its group is ended, and what that prints until then belongs to
 * the attempt: the end is reported after both.
 */
function workerExited(
  state: State,
  { end, rest = false }: EventOf<"worker_exited">,
  effects: Effects,
): State {
  const { code, signal } = end.exit ?? {};
  effects.push({
    tag: "log",
    level: "info",
    message: "worker has ended",
    fields: { code, signal, lost: end.exit === undefined },
  });
  const ended: State = {
    ...state,
    worker: { tag: "ended", leader: leaderOf(state), end },
    control: release(state.control, effects),
  };
  return rest
    ? stop(
      ended,
      { graceS: state.settings.graceS, by: "its own end, which left processes" },
      effects,
    )
    : ended;
}

/** Ends the worker's group. A second request may only shorten the grace period. */
function stop(state: State, request: StopRequest, effects: Effects): State {
  const { worker } = state;
  if (worker.tag === "awaiting_welcome") {
    effects.push({
      tag: "log",
      level: "info",
      message: "no worker is started",
      fields: { by: request.by },
    });
    return {
      ...state,
      worker: { tag: "ended", leader: undefined, end: { exit: undefined, stderrTail: [] } },
    };
  }
  if (worker.tag === "starting") {
    const graceS = Math.min(request.graceS, worker.stop?.graceS ?? Infinity);
    return {
      ...state,
      worker: { tag: "starting", stop: { graceS, by: worker.stop?.by ?? request.by } },
    };
  }
  const released: State = { ...state, control: release(state.control, effects) };
  const { graceS, by } = request;
  if (released.group === "ending") {
    effects.push({ tag: "end_group", graceS });
    return released;
  }
  if (released.group === "ended" || worker.leader === undefined) return released;
  effects.push({
    tag: "log",
    level: "info",
    message: "worker is stopped",
    fields: { grace_s: graceS, by },
  });
  effects.push({ tag: "end_group", graceS });
  return { ...released, group: "ending" };
}

function leaderOf({ worker }: State): ProcessRef | undefined {
  return worker.tag === "running" || worker.tag === "ended" ? worker.leader : undefined;
}

/**
 * The end to report; undefined while the worker or the rest of a group that is being stopped lives.
 */
function reportableEnd({ worker, group }: State): WorkerEnd | undefined {
  return worker.tag === "ended" && group !== "ending" ? worker.end : undefined;
}

export function holds({ control }: State, why: Hold): boolean {
  return control.tag === "active" && control.holds.includes(why);
}

function measured(
  state: State,
  why: Hold,
  on: boolean,
  message: string,
  fields: Record<string, unknown>,
  effects: Effects,
): State {
  if (state.control.tag !== "active" || holds(state, why) === on) return state;
  effects.push({ tag: "log", level: "warn", message, fields });
  return { ...state, control: hold(state.control, why, on, effects) };
}

// ----------------------------------------------------------------------------------------------------
// the daemon

type FromDaemon = EventOf<
  | "welcomed"
  | "acknowledged"
  | "control"
  | "stop_requested"
  | "exit_acknowledged"
  | "heartbeat_answered"
>;

function handleDaemonMessage(
  state: State,
  event: FromDaemon,
  now: number,
  effects: Effects,
): State {
  const { settings, delivery: { connection } } = state;
  if (connection.tag === "greeting" && event.tag !== "welcomed") {
    const message = `the daemon begins with "${event.tag}" instead of a welcome`;
    return disconnected(state, { code: undefined, message, announced: false }, now, effects);
  }
  if (connection.tag !== "greeting" && connection.tag !== "open") return state;
  const after = answered(state, event, now, effects);
  return { ...after, heardAt: now, delivery: heard(after.delivery, settings, now) };
}

function answered(state: State, event: FromDaemon, now: number, effects: Effects): State {
  const { control, delivery, settings } = state;
  switch (event.tag) {
    case "welcomed":
      if (state.worker.tag === "awaiting_welcome") {
        effects.push({ tag: "start_worker", settings: event.worker });
      }
      return {
        ...state,
        worker: state.worker.tag === "awaiting_welcome"
          ? { tag: "starting", stop: undefined }
          : state.worker,
        control: event.control === undefined
          ? control
          : desire(control, event.control, now, effects),
        delivery: welcomed(delivery, event, settings, now, effects),
      };
    case "acknowledged":
      return storeMeasured(
        { ...state, delivery: acknowledged(delivery, event) },
        event.storeFull === true,
        effects,
      );
    case "control":
      return { ...state, control: desire(control, event.desired, now, effects) };
    case "stop_requested":
      return stop(state, { graceS: event.graceS, by: "the daemon" }, effects);
    case "exit_acknowledged":
      return leave(state, workerStatus(state), { type: "done" }, effects);
    case "heartbeat_answered":
      return state;
  }
}

function storeMeasured(state: State, full: boolean, effects: Effects): State {
  const message = full
    ? "worker held: the daemon's disk is full or read-only"
    : "worker continues: the daemon stores again";
  return measured(state, "store", full, message, {}, effects);
}

function disconnected(state: State, failure: Failure, now: number, effects: Effects): State {
  const ended = reportableEnd(state) !== undefined;
  const delivery = lost(state.delivery, failure, ended, state.settings, now, effects);
  // A daemon that is away reports nothing of its disk: then the backlog's limit holds the worker.
  const after = storeMeasured({ ...state, delivery }, false, effects);
  if (delivery.connection.tag !== "refused") return after;
  const { reason } = delivery.connection;
  const fields = { reason };
  if (state.worker.tag === "ended") {
    effects.push({
      tag: "log",
      level: "info",
      message: "the daemon has settled the attempt already",
      fields,
    });
    return leave(after, workerStatus(after), { type: "refused", reason }, effects);
  }
  effects.push({
    tag: "log",
    level: "error",
    message: "the run has ended; its worker is stopped",
    fields,
  });
  return stop(
    { ...after, stay: { tag: "refused", reason } },
    { graceS: GRACE_S, by: "the run's end" },
    effects,
  );
}

// ----------------------------------------------------------------------------------------------------
// time, and the end

/** Whether there is nothing to run and no daemon to report to. */
function idling(state: State, now: number): State {
  const { worker, delivery, idleSince } = state;
  const idle = (worker.tag === "awaiting_welcome" || worker.tag === "ended") && !isOpen(delivery);
  if (idle === (idleSince !== undefined)) return state;
  return { ...state, idleSince: idle ? now : undefined };
}

function tick(before: State, now: number, effects: Effects): State {
  const state = leaseEndsAt(before) <= now ? leaseOver(before, effects) : before;
  const { idleSince, settings: { lingerMs } } = state;
  if (idleSince !== undefined && idleSince + lingerMs <= now) {
    effects.push({
      tag: "log",
      level: "warn",
      message: "no daemon: another proxy must deliver the rest",
    });
    return leave(state, workerStatus(state), { type: "given_up" }, effects);
  }
  if (state.stay.tag === "signalled" && state.stay.until !== undefined && state.stay.until <= now) {
    return leave(state, workerStatus(state), { type: "given_up" }, effects);
  }
  const after: State = {
    ...startedAnyway(state, now, effects),
    control: controlTick(state.control, now, effects),
  };
  const message = timeout(after.delivery, after.settings, now);
  if (message !== undefined) {
    return disconnected(after, { code: undefined, message, announced: false }, now, effects);
  }
  return { ...after, delivery: deliveryTick(after.delivery, after.settings, now, effects) };
}

function startedAnyway(state: State, now: number, effects: Effects): State {
  if (startsAt(state) > now) return state;
  const message =
    "no daemon answers: the worker starts without the config's variables and without a checkpoint";
  effects.push({ tag: "log", level: "warn", message }, { tag: "start_worker" });
  return { ...state, worker: { tag: "starting", stop: undefined } };
}

/** Another attempt may begin now, so this attempt's worker must not run on. */
function leaseOver(state: State, effects: Effects): State {
  effects.push({ tag: "record_lease_end" });
  const seconds = state.settings.leaseMs / 1000;
  return stop(state, { graceS: GRACE_S, by: `its lease: no daemon for ${seconds} s` }, effects);
}

/** Continues after both the worker and its group have ended. */
function settle(state: State, now: number, effects: Effects): State {
  const { stay, worker, group } = state;
  if (worker.tag === "awaiting_welcome" || worker.tag === "starting" || group === "ending") {
    return state;
  }
  if (stay.tag === "refused") {
    return leave(state, PROXY_EXIT.refused, { type: "refused", reason: stay.reason }, effects);
  }
  if (stay.tag !== "signalled" || stay.until !== undefined || worker.tag !== "ended") return state;
  return { ...state, stay: { tag: "signalled", until: now + LEAVE_AFTER_MS } };
}

function workerStatus({ worker }: State): number {
  const exit = worker.tag === "ended" ? worker.end.exit : undefined;
  return exit === undefined ? PROXY_EXIT.lost : statusOf(exit);
}

function leave(state: State, code: number, result: Result, effects: Effects): State {
  effects.push({ tag: "close" }, { tag: "leave", code, result });
  return { ...state, stay: { tag: "left" } };
}

function isSame(a: AppliedControl, b: AppliedControl): boolean {
  return a.paused === b.paused && a.maxRateHz === b.maxRateHz && a.selfPaused === b.selfPaused;
}
