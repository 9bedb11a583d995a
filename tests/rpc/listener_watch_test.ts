import assert from "node:assert/strict";
import { watchListener } from "../../src/rpc/grpc/listener_watch.ts";
import { NEVER_SHORT } from "../../src/os/processes/descriptors.ts";
import { createLogger } from "../../src/base/log.ts";
import { until } from "../harness/wait.ts";

interface Played {
  /** Connections that wait now. */
  waiting: number;
  /** Accepted between two polls. */
  accepts: number;
  /** No descriptor is left. */
  short?: boolean;
  relisten?: () => Promise<void>;
}

/** A watch with a poll each millisecond. */
function watched(played: Played) {
  let [polls, reads, accepted, relistens] = [0, 0, 0, 0];
  const watch = watchListener({
    port: 1,
    accepted: () => accepted += played.accepts,
    relisten: async () => {
      relistens++;
      await played.relisten?.();
    },
    log: createLogger({ level: "error", sinks: [] }),
    descriptors: {
      ...NEVER_SHORT,
      get short() {
        polls++;
        return played.short ?? false;
      },
    },
    waiting: () => {
      reads++;
      return played.waiting;
    },
    pollMs: 1,
  });
  return { watch, polls: () => polls, reads: () => reads, relistens: () => relistens };
}

Deno.test("listener watch: waiting connections do not mean a dead listener while others are accepted", async () => {
  const { watch, reads, relistens } = watched({ waiting: 100, accepts: 1 });
  await until(() => reads() > 10, { what: "many readings of the tables" });
  await watch.stop();
  assert.deepEqual([relistens(), watch.listening()], [0, true]);
});

Deno.test("listener watch: a listener that accepts no waiting connection is replaced, and is not ready until then", async () => {
  const played: Played = {
    waiting: 1,
    accepts: 0,
    relisten: () => Promise.reject(new Error("taken")),
  };
  const { watch, relistens } = watched(played);
  await until(() => relistens() > 2, { what: "several tries" });
  assert.equal(watch.listening(), false);
  played.waiting = 0;
  played.relisten = () => Promise.resolve();
  await until(() => watch.listening(), { what: "it to listen again" });
  await watch.stop();
});

Deno.test("listener watch: the tables are read at every tenth poll, and at once after a shortage of descriptors", async () => {
  const played: Played = { waiting: 0, accepts: 0 };
  const { watch, polls, reads } = watched(played);
  await until(() => polls() > 100, { what: "many polls" });
  assert.equal(reads(), Math.ceil(polls() / 10));
  played.short = true;
  const [before, at] = [reads(), polls()];
  await until(() => polls() > at + 20, { what: "polls in a shortage" });
  assert.equal(reads(), before);
  played.short = false;
  const after = polls();
  await until(() => polls() > after, { what: "the next poll" });
  await watch.stop();
  assert.equal(reads(), before + 1);
});

Deno.test("listener watch: a stop during the reading of the tables waits for it, and no listener is replaced", async () => {
  const last = Promise.withResolvers<number>();
  let [reads, relistens] = [0, 0];
  const watch = watchListener({
    port: 1,
    accepted: () => 0,
    relisten: () => Promise.resolve(void relistens++),
    log: createLogger({ level: "error", sinks: [] }),
    descriptors: NEVER_SHORT,
    waiting: () => ++reads < 4 ? 1 : last.promise,
    pollMs: 1,
  });
  await until(() => reads === 4, { what: "the reading that decides" });
  let stopped = false;
  const stopping = watch.stop().then(() => stopped = true);
  await Promise.resolve();
  assert.equal(stopped, false);
  last.resolve(1);
  await stopping;
  assert.equal(relistens, 0);
});

Deno.test("listener watch: a stop during the replacement of the listener waits for it", async () => {
  const bound = Promise.withResolvers<void>();
  const { watch, relistens } = watched({ waiting: 1, accepts: 0, relisten: () => bound.promise });
  await until(() => relistens() === 1, { what: "it to listen again" });
  let stopped = false;
  const stopping = watch.stop().then(() => stopped = true);
  // More microtasks than a stop that does not wait would need.
  for (let i = 0; i < 10; i++) await Promise.resolve();
  assert.equal(stopped, false);
  bound.resolve();
  await stopping;
  assert.equal(relistens(), 1);
});
