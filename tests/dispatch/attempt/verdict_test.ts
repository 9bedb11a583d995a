import assert from "node:assert/strict";
import { type Requests, verdictOf } from "../../../src/dispatch/attempt/state/verdict.ts";
import type { ExitReport } from "../../../src/registry/failure/explain.ts";

const NOTHING: Requests = { cancelRequestedAt: null, cancelReason: null, faultRequested: null };
const exit = (fields: Partial<ExitReport> = {}): ExitReport => ({
  code: 0,
  signal: "",
  lost: false,
  finalPosition: 0,
  stderrTail: [],
  spawnError: "",
  ...fields,
});
const ending = (
  requests: Partial<Requests>,
  report: ExitReport | undefined,
  runFailed?: string,
) => {
  const { event } = verdictOf({ ...NOTHING, ...requests }, report, runFailed);
  return "reason" in event ? `${event.type} ${event.reason}` : event.type;
};

Deno.test("verdict: how the worker left decides, unless something was asked of the run", () => {
  assert.equal(ending({}, exit()), "exited_ok");
  assert.equal(ending({}, exit({ code: 3 })), "failed exit_code_3");
  assert.equal(ending({}, exit({ code: null, signal: "SIGKILL" })), "failed signal_SIGKILL");
  assert.equal(ending({}, exit({ code: null, lost: true })), "failed worker_lost");
  assert.equal(
    ending({}, exit({ code: 127, spawnError: "nope: not found" })),
    "failed spawn_failed: nope: not found",
  );
  assert.equal(ending({}, exit(), "no environment"), "failed run_failed: no environment");
  assert.equal(ending({}, exit({ code: 1 }), "no environment"), "failed exit_code_1");
});

Deno.test("verdict: a worker that ended well before the SIGTERM of a preemption has succeeded", () => {
  const requests = { faultRequested: "preempted" };
  const byItself = true;
  for (
    const [report, runFailed, expected] of [
      [{ byItself }, undefined, "exited_ok"],
      // It saved its checkpoint at SIGTERM, or that is not known.
      [{}, undefined, "failed preempted"],
      [{ byItself: false }, undefined, "failed preempted"],
      [{ byItself, code: 1 }, undefined, "failed preempted"],
      [{ byItself }, "no environment", "failed preempted"],
    ] as [Partial<ExitReport>, string | undefined, string][]
  ) assert.equal(ending(requests, exit(report), runFailed), expected, JSON.stringify(report));
  assert.equal(ending({ faultRequested: "max_steps" }, exit({ byItself })), "failed max_steps");
  assert.equal(
    ending({ ...requests, cancelRequestedAt: 1 }, exit({ byItself })),
    "cancelled user_cancel",
  );
});

Deno.test("verdict: a cancellation wins over a fault, a fault over how the worker was stopped", () => {
  const stopped = exit({ code: null, signal: "SIGTERM" });
  assert.equal(ending({ faultRequested: "max_steps" }, stopped), "failed max_steps");
  const both = { faultRequested: "max_steps", cancelRequestedAt: 1, cancelReason: "user_cancel" };
  assert.equal(ending(both, stopped), "cancelled user_cancel");
  assert.equal(ending({ cancelRequestedAt: 1 }, undefined), "cancelled user_cancel");
});
