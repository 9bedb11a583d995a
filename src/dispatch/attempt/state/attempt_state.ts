/**
 * The states of an attempt that has, or may have, processes. Pure: `next` maps a state and an event
 * to the next state and to effects. The supervisor performs the effects; their results come back as
 * further events. Every attempt ends in one way: a proxy delivers the journal and reports the exit;
 * then the rest of the worker's process group is ended; then the run's last transition is
 * committed. A fault or cancellation only stops the group, and the proxy's report ends the run. If
 * no proxy can report any more, the attempt ends by what its host knows.
 * - `running`: the worker runs or will be started
 * - `stopping`: the group is being stopped, until an exit is reported or the host says that no
 *   report will come
 * - `exited`: the exit is known; the rest of the group and of its cgroup is being ended
 * - `ended`: no process is left; the run's last transition is to be committed, and retried until it
 *   is
 * The connection is independent of the phase: a proxy may connect and disconnect in each of the
 * first two.
 */
import type { ExitReport, OutOfMemory } from "../../../registry/failure/explain.ts";
import type { ProxyLink } from "./connected_proxy.ts";
import type { AbsenceStep, EngineEnd, Rest, WorkerGroup } from "./host.ts";
import { advance, beginStop, shorten, type StopEffect, type WorkerStop } from "./worker_stop.ts";

/** Time for a connected proxy to report the exit after the group is gone. */
const REPORT_MS = 30_000;
/**
 * A proxy on another host that was asked to stop its worker reports within the grace period and
 * this time. Otherwise the link is broken; nothing else would show that.
 */
const ANSWER_MS = 15_000;
/** The same for a proxy that has been silent for the whole heartbeat timeout. */
const SILENT_REPORT_MS = 5000;

export type Connection<S> =
  | { readonly t: "absent" }
  | { readonly t: "connected"; readonly session: S; readonly link: ProxyLink };

export type Ended =
  /** `report` is undefined if the worker's exit is unknown, or no worker was started. */
  | {
    readonly t: "over";
    readonly report: ExitReport | undefined;
    readonly oom: OutOfMemory | undefined;
    readonly engine?: EngineEnd | undefined;
  }
  /** Nothing was started: the attempt is requeued. */
  | { readonly t: "not_started" };

export type Phase =
  | { readonly t: "running" }
  /** `silent`: neither the worker nor its proxy had sent anything. */
  | { readonly t: "stopping"; readonly stop: WorkerStop; readonly silent: boolean }
  | {
    readonly t: "exited";
    readonly report: ExitReport | undefined;
    readonly oom: OutOfMemory | undefined;
    /** Ends what is left of the group; undefined while nothing was left. */
    readonly stop: WorkerStop | undefined;
  }
  | { readonly t: "ended"; readonly ended: Ended };

export interface AttemptState<S> {
  readonly phase: Phase;
  readonly connection: Connection<S>;
}

/**
 * Times are milliseconds of a monotonic clock. `group` is read from the host when the event
 * arrives.
 */
export type AttemptEvent<S> =
  | { readonly t: "connected"; readonly session: S; readonly link: ProxyLink }
  | { readonly t: "disconnected" }
  /** Some time has passed. `limit` is the limit that the run has reached. */
  | {
    readonly t: "tick";
    readonly now: number;
    readonly group: WorkerGroup;
    readonly limit: string | undefined;
    readonly graceMs: number;
    /** Since the last message or output of the worker and its proxy. */
    readonly silentMs?: number;
  }
  | {
    readonly t: "stop";
    readonly now: number;
    readonly group: WorkerGroup;
    readonly graceMs: number;
    readonly silent: boolean;
  }
  /** The proxy has delivered everything and reports the exit. */
  | {
    readonly t: "exit";
    readonly now: number;
    readonly group: WorkerGroup;
    readonly report: ExitReport;
    readonly graceMs: number;
  }
  /** The host's answer to the effect `keep_proxy`. */
  | {
    readonly t: "absence";
    readonly now: number;
    readonly group: WorkerGroup;
    readonly step: AbsenceStep;
    readonly graceMs: number;
  }
  /** The host's answer to the effect `end_rest`. */
  | { readonly t: "rest" } & Rest;

export type Effect =
  | StopEffect
  /** The daemon fails the run: recorded first, then a `stop` event follows. */
  | { do: "fault"; reason: string }
  | { do: "disconnect"; link: ProxyLink; reason: string }
  /** Kill the proxy, which does not report, so that another one attaches. */
  | { do: "replace_proxy" }
  /** No proxy is connected: ask the host what to do about it. */
  | { do: "keep_proxy"; stoppingSince: number | undefined }
  | { do: "attach" }
  | { do: "end_rest"; report: ExitReport | undefined }
  /** Commit the end. */
  | { do: "settle" }
  /** Tick within a fraction of a second, or as soon as the current work is done. */
  | { do: "wake" }
  | { do: "tick_soon" };

export interface Step<S> {
  readonly state: AttemptState<S>;
  readonly effects: readonly Effect[];
}

const ABSENT = { t: "absent" } as const;

export function next<S>(state: AttemptState<S>, event: AttemptEvent<S>): Step<S> {
  switch (event.t) {
    case "connected":
      return connected(state, event);
    case "disconnected":
      return { state: { ...state, connection: ABSENT }, effects: [{ do: "wake" }] };
    case "tick":
      return tick(state, event);
    case "stop":
      return stopped(state, event);
    case "exit":
      return exited(state, event, event.report);
    case "absence":
      return afterAbsence(state, event);
    case "rest":
      return rest(state, event);
  }
}

/** A newer connection replaces the older one. */
function connected<S>(
  { phase, connection }: AttemptState<S>,
  { session, link }: { session: S; link: ProxyLink },
): Step<S> {
  const effects: Effect[] = [];
  if (connection.t === "connected") {
    effects.push({
      do: "disconnect",
      link: connection.link,
      reason: "a newer proxy of this run has connected",
    });
  }
  const now = { t: "connected", session, link } as const;
  if (phase.t !== "stopping") return { state: { phase, connection: now }, effects };
  // Its time to report begins now; the stop is sent after the welcome.
  effects.push({ do: "tick_soon" });
  const stop = { ...phase.stop, goneSince: undefined };
  return { state: { phase: { ...phase, stop }, connection: now }, effects };
}

function tick<S>(state: AttemptState<S>, event: AttemptEvent<S> & { t: "tick" }): Step<S> {
  const { phase, connection } = state;
  switch (phase.t) {
    case "running":
      if (event.limit !== undefined) {
        return { state, effects: [{ do: "fault", reason: event.limit }] };
      }
      return {
        state,
        effects: connection.t === "absent" ? [{ do: "keep_proxy", stoppingSince: undefined }] : [],
      };
    case "stopping": {
      const step = unlessBroken(stopFurther({ phase, connection }, event), event);
      if (step.state.connection.t === "connected") return step;
      return {
        state: step.state,
        effects: [...step.effects, { do: "keep_proxy", stoppingSince: phase.stop.startedAt }],
      };
    }
    case "exited":
      return finish({ phase, connection }, event);
    case "ended":
      return { state, effects: [{ do: "settle" }] };
  }
}

/** Treats a proxy on another host that does not answer as disconnected. */
function unlessBroken<S>(
  step: Step<S>,
  { now, group, silentMs = 0 }: AttemptEvent<S> & { t: "tick" },
): Step<S> {
  const { phase, connection } = step.state;
  if (phase.t !== "stopping" || connection.t === "absent" || group !== "unknown") return step;
  const { startedAt, graceMs } = phase.stop;
  if (Math.min(silentMs, now - startedAt - graceMs) <= ANSWER_MS) return step;
  const broken = {
    do: "disconnect",
    link: connection.link,
    reason: "no answer to the request to stop",
  } as const;
  return { state: { phase, connection: ABSENT }, effects: [...step.effects, broken] };
}

function stopped<S>(
  { phase, connection }: AttemptState<S>,
  event: AttemptEvent<S> & { t: "stop" },
): Step<S> {
  const { now, graceMs, silent } = event;
  switch (phase.t) {
    case "running":
    case "stopping": {
      const stopping = phase.t === "running"
        ? { t: "stopping", stop: beginStop(graceMs, now), silent } as const
        : { ...phase, stop: shorten(phase.stop, graceMs) };
      const { state, effects } = stopFurther({ phase: stopping, connection }, event);
      return { state, effects: [...effects, { do: "wake" }] };
    }
    case "exited": {
      const stop = phase.stop === undefined
        ? beginStop(graceMs, now)
        : shorten(phase.stop, graceMs);
      return finish({ phase: { ...phase, stop }, connection }, event);
    }
    case "ended":
      return { state: { phase, connection }, effects: [{ do: "wake" }] };
  }
}

function stopFurther<S>(
  { phase, connection }: { phase: Phase & { t: "stopping" }; connection: Connection<S> },
  { now, group }: { now: number; group: WorkerGroup },
): Step<S> {
  const link = connection.t === "connected" ? connection.link : undefined;
  const { stop, effects } = advance(phase.stop, { now, group, link });
  const reportMs = phase.silent ? SILENT_REPORT_MS : REPORT_MS;
  const late = link !== undefined && stop.goneSince !== undefined &&
    now - stop.goneSince > reportMs;
  if (!late) return { state: { phase: { ...phase, stop }, connection }, effects };
  return {
    state: { phase: { ...phase, stop }, connection: ABSENT },
    effects: [
      ...effects,
      { do: "disconnect", link, reason: "the exit was not reported in time" },
      { do: "replace_proxy" },
    ],
  };
}

function exited<S>(
  state: AttemptState<S>,
  event: { now: number; group: WorkerGroup; graceMs: number },
  report: ExitReport | undefined,
): Step<S> {
  const { phase, connection } = state;
  // The exit was reported before, but the end could not be committed.
  if (phase.t === "ended") return { state, effects: [{ do: "settle" }] };
  const stop = phase.t === "running" ? undefined : phase.stop;
  const oom = phase.t === "exited" ? phase.oom : undefined;
  // The proxy does not know of the daemon's own SIGTERM.
  const told = report !== undefined && stop?.terminated === true
    ? { ...report, byItself: false }
    : report;
  return finish({ phase: { t: "exited", report: told, oom, stop }, connection }, event);
}

/**
 * The attempt ends only when no process of the group is left; until then the run can be cancelled.
 */
function finish<S>(
  { phase, connection }: { phase: Phase & { t: "exited" }; connection: Connection<S> },
  { now, group, graceMs }: { now: number; group: WorkerGroup; graceMs: number },
): Step<S> {
  if (group !== "alive") {
    return { state: { phase, connection }, effects: [{ do: "end_rest", report: phase.report }] };
  }
  // The proxy has reported the exit, so it stops nothing any more.
  const { stop, effects } = advance(phase.stop ?? beginStop(graceMs, now), {
    now,
    group,
    link: undefined,
  });
  return {
    state: { phase: { ...phase, stop }, connection },
    effects: [...effects, { do: "wake" }],
  };
}

function rest<S>(state: AttemptState<S>, { ended, oom, engine }: Rest): Step<S> {
  const { phase, connection } = state;
  if (phase.t !== "exited") return { state, effects: [] };
  const known = { ...phase, oom: oom ?? phase.oom };
  if (!ended) return { state: { phase: known, connection }, effects: [{ do: "wake" }] };
  return endedStep(connection, { t: "over", report: known.report, oom: known.oom, engine });
}

function afterAbsence<S>(
  state: AttemptState<S>,
  event: AttemptEvent<S> & { t: "absence" },
): Step<S> {
  const { step } = event;
  const { phase, connection } = state;
  if (connection.t === "connected" || phase.t === "exited" || phase.t === "ended") {
    return { state, effects: [] };
  }
  const unreported = { t: "over", report: undefined, oom: undefined } as const;
  switch (step.do) {
    case "wait":
      return { state, effects: [] };
    case "attach":
      return { state, effects: [{ do: "attach" }] };
    case "fault":
      return { state, effects: [{ do: "fault", reason: step.reason }] };
    case "not_started":
      return endedStep(connection, phase.t === "running" ? { t: "not_started" } : unreported);
    case "over":
      return endedStep(connection, { ...unreported, engine: step.engine });
    case "exited":
      return exited(state, event, step.report);
  }
}

function endedStep<S>(connection: Connection<S>, ended: Ended): Step<S> {
  return { state: { phase: { t: "ended", ended }, connection }, effects: [{ do: "settle" }] };
}
