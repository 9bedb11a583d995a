import assert from "node:assert/strict";
import { Attempt, type AttemptParts } from "../../../src/dispatch/attempt/attempt.ts";
import type { AttemptHost, WorkerGroup } from "../../../src/dispatch/attempt/state/host.ts";
import type { RunRow } from "../../../src/registry/row_types.ts";

Deno.test("attempt: a stop begins without a descriptor to look the group up, and ticks go on with it", () => {
  let short = true;
  const host = {
    group: (): WorkerGroup => {
      if (short) throw new Error("Too many open files (os error 24)");
      return "alive";
    },
  } as Partial<AttemptHost> as AttemptHost;
  const plan = { backpressure: { policy: "journal" } };
  const attempt = new Attempt(
    { runId: "R", attempt: 1 } as RunRow,
    {
      plan,
      host,
      progress: { clock: { lifelessMs: () => 0 } },
      graceMs: 5000,
    } as unknown as AttemptParts,
  );
  attempt.stop(5000, 0);
  assert.equal(attempt.state.phase.t, "stopping");
  assert.throws(() => attempt.tick(50), /os error 24/);
  short = false;
  const signals = attempt.tick(100).flatMap((effect) =>
    effect.do === "signal" ? effect.signals : []
  );
  assert.deepEqual(signals, ["SIGTERM", "SIGCONT"]);
  assert.deepEqual(
    attempt.tick(6000).flatMap((effect) => effect.do === "signal" ? effect.signals : []),
    ["SIGKILL"],
  );
});
