/**
 * What to do with a run that has, or may have, processes when its daemon is not sure of them (at boot, or when a proxy is
 * gone). Who starts a worker holds the attempt's proxy lock and leaves a worker file, so that these facts decide.
 */

export interface ProcessFacts {
  /** The attempt's proxy lock is held, or the proxy that the registry names lives. */
  proxyLives: boolean;
  /** There is a worker file or an exit record: the worker was started, whether or not it still lives. */
  workerStarted: boolean;
  /** The run is past HANDSHAKE: its proxy has registered. */
  registered: boolean;
}

export type Recovery =
  /** The proxy will connect by itself; one that does not in time is replaced. */
  | "await"
  /** A new proxy takes over journal, control and exit record. */
  | "attach"
  /** Nothing was started: the attempt begins anew. */
  | "start_again";

export function recoveryOf(facts: ProcessFacts): Recovery {
  if (facts.proxyLives) return "await";
  // A registered run whose worker file is gone was tampered with: the proxy that attaches reports the worker as lost.
  if (facts.workerStarted || facts.registered) return "attach";
  return "start_again";
}
