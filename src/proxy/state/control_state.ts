/**
 * Desired and applied control of a worker, as a pure state machine: paused, limited to a rate, held
 * for the backlog or the disk. The worker's group is stopped (SIGSTOP) while there is any reason: a
 * pause by signal, a hold, the off part of the rate limit's duty cycle. A worker that reads control
 * messages is asked to pause first; if it does not answer in time, it is stopped.
 */
import type {
  AppliedControl,
  ControlRecord,
  DesiredControl,
  Effects,
  Hold,
  PausedBy,
} from "./events_and_effects.ts";

/** How long a worker may take to answer a control message before it is stopped by signal. */
export const ANSWER_MS = 10_000;
/** Wait after a signal that could not be sent. */
const SIGNAL_AGAIN_MS = 1000;

export type Pausing =
  | { readonly tag: "running" }
  | { readonly tag: "asked_to_pause"; readonly until: number }
  | { readonly tag: "paused_by_message" }
  | { readonly tag: "paused_by_signal" }
  /** It had paused on request, and reports that it continues although nobody asked for that. */
  | { readonly tag: "resumed_unasked" }
  /** It may continue, and has not reported yet that it does. */
  | { readonly tag: "asked_to_resume" };

/**
 * What is stopped: nothing; the worker's group; also processes that have left the group; unknown
 * after an earlier proxy or a failed signal.
 */
export type Stopped = "nothing" | "group" | "all" | "unknown";

export interface ActiveControl {
  readonly tag: "active";
  /** Whether the worker reads control messages on its standard input. */
  readonly takesMessages: boolean;
  readonly desired: DesiredControl;
  readonly pausing: Pausing;
  readonly holds: readonly Hold[];
  readonly throttled: boolean;
  readonly stopped: Stopped;
  /** When to send a failed signal again. */
  readonly signalAgainAt: number | undefined;
  /** The last written record. */
  readonly record: ControlRecord | undefined;
}

export type ControlState =
  /** No worker yet; `desired` is what a daemon has sent already. */
  | { readonly tag: "pending"; readonly desired: DesiredControl | undefined }
  | ActiveControl
  /** The worker must end or has ended: every hold is lifted, and none is applied any more. */
  | { readonly tag: "released"; readonly applied: AppliedControl };

const UNCONTROLLED = { paused: false, maxRateHz: 0 };

export function appliedOf(control: ControlState): AppliedControl {
  switch (control.tag) {
    case "pending":
      return { ...UNCONTROLLED, selfPaused: "" };
    case "active":
      return {
        paused: isPaused(control),
        maxRateHz: control.desired.maxRateHz,
        selfPaused: control.holds[0] ?? "",
      };
    case "released":
      return control.applied;
  }
}

/**
 * Whether the worker is stopped for another reason than its rate, so that its rate cannot be
 * measured.
 */
export function isHeld(control: ControlState): boolean {
  return control.tag === "active" && (isPaused(control) || control.holds.length > 0);
}

function isPaused({ pausing }: ActiveControl): boolean {
  return pausing.tag === "paused_by_message" || pausing.tag === "paused_by_signal";
}

/** When a tick is due. */
export function controlDueAt(control: ControlState): number {
  if (control.tag !== "active") return Infinity;
  const answer = control.pausing.tag === "asked_to_pause" ? control.pausing.until : Infinity;
  return Math.min(answer, control.signalAgainAt ?? Infinity);
}

/**
 * The worker exists. If an earlier proxy may have left it stopped, it is continued, unless it is to
 * be paused: a paused worker stays paused.
 */
export function activate(
  control: ControlState,
  takesMessages: boolean,
  inherited: ControlRecord | undefined,
  now: number,
  effects: Effects,
): ControlState {
  if (control.tag !== "pending") return control;
  const active: ActiveControl = {
    tag: "active",
    takesMessages,
    desired: { ...UNCONTROLLED, workerHears: false },
    pausing: { tag: "running" },
    holds: [],
    throttled: false,
    stopped: "nothing",
    signalAgainAt: undefined,
    record: undefined,
  };
  const after = inherited === undefined ? active : takeOver(active, inherited, now, effects);
  return control.desired === undefined ? after : desire(after, control.desired, now, effects);
}

function takeOver(
  active: ActiveControl,
  inherited: ControlRecord,
  now: number,
  effects: Effects,
): ActiveControl {
  const { paused, maxRateHz, pausedBy } = inherited;
  const before: ActiveControl = {
    ...active,
    desired: { paused, maxRateHz, workerHears: false },
    stopped: "unknown",
  };
  if (maxRateHz > 0) effects.push({ tag: "set_rate", maxRateHz });
  if (paused && pausedBy === "") return pause(before, now, effects);
  if (!paused && pausedBy === "message") return resume(before, effects);
  const pausing: Pausing = !paused
    ? { tag: "running" }
    : { tag: pausedBy === "signal" ? "paused_by_signal" : "paused_by_message" };
  return enforce({ ...before, pausing }, effects);
}

export function desire(
  control: ControlState,
  desired: DesiredControl,
  now: number,
  effects: Effects,
): ControlState {
  if (control.tag === "released") return control;
  const { paused, maxRateHz, workerHears } = desired;
  if (control.tag === "pending") {
    return { tag: "pending", desired: { paused, maxRateHz, workerHears } };
  }
  const before = control.desired;
  const after: ActiveControl = { ...control, desired: { paused, maxRateHz, workerHears } };
  if (paused === before.paused && maxRateHz === before.maxRateHz) return after;
  effects.push({
    tag: "log",
    level: "info",
    message: "control",
    fields: { paused, max_rate_hz: maxRateHz },
  });
  if (maxRateHz !== before.maxRateHz) effects.push({ tag: "set_rate", maxRateHz });
  if (paused === before.paused) return keep(after, effects);
  return paused ? pause(after, now, effects) : resume(after, effects);
}

export function hold(
  control: ControlState,
  why: Hold,
  on: boolean,
  effects: Effects,
): ControlState {
  if (control.tag !== "active" || control.holds.includes(why) === on) return control;
  const holds = on ? [...control.holds, why] : control.holds.filter((one) => one !== why);
  return enforce({ ...control, holds }, effects);
}

export function throttle(control: ControlState, off: boolean, effects: Effects): ControlState {
  return control.tag === "active" ? enforce({ ...control, throttled: off }, effects) : control;
}

/** A lifecycle record of the worker: `paused` and `resumed` answer control messages. */
export function applyLifecycleRecord(
  control: ControlState,
  kind: string,
  effects: Effects,
): ControlState {
  if (control.tag !== "active") return control;
  const pausing = answered(control, kind);
  return pausing === control.pausing ? control : keep({ ...control, pausing }, effects);
}

/** An answer to an earlier message does not answer the last one. */
function answered({ desired, pausing }: ActiveControl, kind: string): Pausing {
  switch (pausing.tag) {
    case "asked_to_pause":
    case "resumed_unasked":
      return desired.paused && kind === "paused" ? { tag: "paused_by_message" } : pausing;
    case "paused_by_message":
      return kind === "resumed" ? { tag: "resumed_unasked" } : pausing;
    case "asked_to_resume":
      return kind === "resumed" ? { tag: "running" } : pausing;
    case "paused_by_signal":
    case "running":
      return pausing;
  }
}

/**
 * The signal may have reached a part of the group. A worker that is to continue must not stay
 * stopped for lack of a descriptor.
 */
export function notSignalled(control: ControlState, now: number): ControlState {
  return control.tag === "active"
    ? { ...control, stopped: "unknown", signalAgainAt: now + SIGNAL_AGAIN_MS }
    : control;
}

export function controlTick(control: ControlState, now: number, effects: Effects): ControlState {
  if (control.tag !== "active") return control;
  let after = control;
  if (after.pausing.tag === "asked_to_pause" && after.pausing.until <= now) {
    effects.push({
      tag: "log",
      level: "warn",
      message: "the worker does not answer the pause and is stopped",
    });
    after = enforce(keep({ ...after, pausing: { tag: "paused_by_signal" } }, effects), effects);
  }
  if (after.signalAgainAt !== undefined && after.signalAgainAt <= now) {
    after = enforce({ ...after, signalAgainAt: undefined }, effects);
  }
  return after;
}

export function release(control: ControlState, effects: Effects): ControlState {
  if (control.tag === "released") return control;
  const applied = appliedOf(control);
  if (control.tag === "active") {
    if (control.desired.maxRateHz > 0) effects.push({ tag: "set_rate", maxRateHz: 0 });
    enforce({ ...control, pausing: { tag: "running" }, holds: [], throttled: false }, effects);
  }
  const paused = control.tag === "active" && control.pausing.tag === "paused_by_message";
  return { tag: "released", applied: { ...applied, paused, selfPaused: "" } };
}

function pause(control: ActiveControl, now: number, effects: Effects): ActiveControl {
  const pausing: Pausing = control.takesMessages || control.desired.workerHears
    ? { tag: "asked_to_pause", until: now + ANSWER_MS }
    : { tag: "paused_by_signal" };
  const after = enforce(keep({ ...control, pausing }, effects), effects);
  if (control.takesMessages) effects.push({ tag: "ask_worker", control: "pause" });
  return after;
}

function resume(control: ActiveControl, effects: Effects): ActiveControl {
  const byMessage = control.takesMessages || control.desired.workerHears;
  const pausing: Pausing = { tag: byMessage ? "asked_to_resume" : "running" };
  const after = enforce(keep({ ...control, pausing }, effects), effects);
  if (control.takesMessages) effects.push({ tag: "ask_worker", control: "resume" });
  return after;
}

function enforce(control: ActiveControl, effects: Effects): ActiveControl {
  const { stopped } = control;
  const lasting = control.pausing.tag === "paused_by_signal" || control.holds.length > 0;
  const stop = lasting || control.throttled;
  const inForce = lasting
    ? stopped === "all"
    : stop
    ? stopped === "all" || stopped === "group"
    : stopped === "nothing";
  if (inForce) return control;
  // The duty cycle is too short to find processes that have left the group. If a lasting stop has
  // reached them, they must be continued, too.
  const outside = lasting || (!stop && stopped !== "group");
  effects.push({ tag: "signal_group", signal: stop ? "SIGSTOP" : "SIGCONT", outside });
  if (!stop) return { ...control, stopped: "nothing" };
  // If the state of processes outside the group was unknown before, it still is.
  return { ...control, stopped: lasting ? "all" : stopped === "unknown" ? "unknown" : "group" };
}

/** Written before it is applied, so that the next proxy never undoes it. */
function keep(control: ActiveControl, effects: Effects): ActiveControl {
  const { paused, maxRateHz } = control.desired;
  const record: ControlRecord = { paused, maxRateHz, pausedBy: pausedBy(control.pausing) };
  if (isSame(record, control.record)) return control;
  effects.push({ tag: "write_record", record });
  return { ...control, record };
}

function pausedBy({ tag }: Pausing): PausedBy {
  if (tag === "paused_by_signal") return "signal";
  return tag === "paused_by_message" || tag === "asked_to_resume" ? "message" : "";
}

function isSame(a: ControlRecord, b: ControlRecord | undefined): boolean {
  return a.paused === b?.paused && a.maxRateHz === b.maxRateHz && a.pausedBy === b.pausedBy;
}
