/** What a proxy's effects act on, for tests of a part of it: nothing happens. */
import { createLogger } from "../../src/base/log.ts";
import type { Edges } from "../../src/proxy/run_proxy.ts";
import type { Settings } from "../../src/proxy/state/state.ts";

export const SETTINGS: Settings = {
  takesMessages: false,
  helloFirst: false,
  welcomeWaitMs: Infinity,
  lingerMs: Infinity,
  leaseMs: Infinity,
  graceS: 5,
  heartbeatMs: 60_000,
  answerTimeoutMs: 15_000,
  refusedTokenTries: 30,
};

export function inertEdges(): Edges {
  return {
    worker: {
      start: () => Promise.resolve(),
      signal() {},
      request() {},
      endGroup() {},
      writeRecord() {},
      recordLeaseEnd() {},
      close() {},
    },
    delivery: {
      connect: () => Promise.resolve(),
      close() {},
      awaitDaemon() {},
      send() {},
      seek() {},
      read() {},
    },
    growth: { arm() {}, disarm() {} },
    written: () => 0,
    measure: () => [],
    log: createLogger({ sinks: [] }),
  };
}
