import assert from "node:assert/strict";
import { watchListener } from "../../src/rpc/grpc/listener_watch.ts";
import { NEVER_SHORT } from "../../src/os/descriptors.ts";
import { createLogger } from "../../src/base/log.ts";
import { until } from "../harness/wait.ts";

interface Played {
  /** Connections that wait now. */
  waiting: number;
  /** Accepted between two looks. */
  accepts: number;
  relisten?: () => Promise<void>;
}

/** A watch with a look each millisecond. */
function watched(played: Played) {
  let [looks, accepted, relistens] = [0, 0, 0];
  const watch = watchListener({
    port: 1,
    accepted: () => accepted,
    relisten: async () => {
      relistens++;
      await played.relisten?.();
    },
    log: createLogger({ level: "error", sinks: [] }),
    descriptors: NEVER_SHORT,
    waiting: () => {
      looks++;
      accepted += played.accepts;
      return { count: played.waiting, byShell: false };
    },
    lookMs: 1,
  });
  return { watch, looks: () => looks, relistens: () => relistens };
}

Deno.test("listener watch: connections that wait are no proof while others are accepted", async () => {
  const { watch, looks, relistens } = watched({ waiting: 100, accepts: 1 });
  await until(() => looks() > 50, { what: "many looks" });
  watch.stop();
  assert.deepEqual([relistens(), watch.listening()], [0, true]);
});

Deno.test("listener watch: one that accepts none of those that wait is begun anew, and until then it is not ready", async () => {
  const played: Played = { waiting: 1, accepts: 0, relisten: () => Promise.reject(new Error("taken")) };
  const { watch, relistens } = watched(played);
  await until(() => relistens() > 2, { what: "several tries" });
  assert.equal(watch.listening(), false);
  played.waiting = 0;
  played.relisten = () => Promise.resolve();
  await until(() => watch.listening(), { what: "it to listen again" });
  watch.stop();
});
