/**
 * Stops a worker's process group: SIGTERM, the grace period, then SIGKILL until no process is left.
 * A connected proxy does it, because it knows how to reach its worker. The daemon does it if none
 * is connected, or if the proxy has not done it in time. Pure: the supervisor performs the steps.
 */
import type { Signal } from "../../../os/processes/signals.ts";
import type { ProxyLink } from "./connected_proxy.ts";
import type { WorkerGroup } from "./host.ts";

/**
 * How much longer than the grace period a proxy may take before the daemon kills the group itself.
 */
const PROXY_MARGIN_MS = 2000;

export interface WorkerStop {
  readonly startedAt: number;
  readonly graceMs: number;
  /** The proxy that was asked to stop the worker. */
  readonly stopSentTo: ProxyLink | undefined;
  /** The daemon has sent SIGTERM. */
  readonly terminated: boolean;
  /** When the group was first found gone while the current proxy was connected. */
  readonly goneSince: number | undefined;
}

export type StopEffect =
  | { do: "tell_proxy"; link: ProxyLink; graceSeconds: number }
  | { do: "signal"; signals: readonly Signal[] };

export function beginStop(graceMs: number, now: number): WorkerStop {
  return {
    startedAt: now,
    graceMs,
    stopSentTo: undefined,
    terminated: false,
    goneSince: undefined,
  };
}

/** A further request can only shorten the grace period; the proxy is asked again. */
export function shorten(stop: WorkerStop, graceMs: number): WorkerStop {
  return graceMs >= stop.graceMs ? stop : { ...stop, graceMs, stopSentTo: undefined };
}

/** The next step; called every fraction of a second. */
export function advance(
  stop: WorkerStop,
  { now, group, link }: { now: number; group: WorkerGroup; link: ProxyLink | undefined },
): { stop: WorkerStop; effects: StopEffect[] } {
  const waited = now - stop.startedAt;
  const effects: StopEffect[] = [];
  let next = stop;
  if (link !== undefined && link !== stop.stopSentTo) {
    effects.push({
      do: "tell_proxy",
      link,
      graceSeconds: Math.max(0, stop.graceMs - waited) / 1000,
    });
    next = { ...next, stopSentTo: link };
  }
  if (group === "unknown") return { stop: next, effects };
  if (group === "gone") return { stop: { ...next, goneSince: stop.goneSince ?? now }, effects };
  next = { ...next, goneSince: undefined };
  if (waited > stop.graceMs + (link === undefined ? 0 : PROXY_MARGIN_MS)) {
    effects.push({ do: "signal", signals: ["SIGKILL"] });
  } else if (link === undefined && !stop.terminated) {
    // A stopped group receives its SIGTERM only when it is continued.
    effects.push({ do: "signal", signals: ["SIGTERM", "SIGCONT"] });
    next = { ...next, terminated: true };
  }
  return { stop: next, effects };
}
