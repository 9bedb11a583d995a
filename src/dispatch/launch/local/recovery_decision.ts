/**
 * What to do with a run that has, or may have, processes when its daemon does not know their state
 * (at its start, or when a proxy is gone). Whoever starts a worker holds the attempt's proxy lock
 * and leaves a worker file, so these facts decide.
 */

export interface ProcessFacts {
  /** The attempt's proxy lock is held, or the proxy that the registry names lives. */
  proxyLives: boolean;
  /** There is a worker file or an exit record: the worker was started, and may still be alive. */
  workerStarted: boolean;
  /** The run is past HANDSHAKE: its proxy has registered. */
  registered: boolean;
}

export type Recovery =
  /** The proxy will connect by itself; one that does not in time is replaced. */
  | "await"
  /** A new proxy continues with journal, control and exit record. */
  | "attach"
  /** Nothing was started: the attempt is requeued. */
  | "start_again";

export function recoveryOf(facts: ProcessFacts): Recovery {
  if (facts.proxyLives) return "await";
  // If the worker file of a registered run is gone, somebody removed it: the proxy that attaches
  // reports the worker as lost.
  if (facts.workerStarted || facts.registered) return "attach";
  return "start_again";
}
