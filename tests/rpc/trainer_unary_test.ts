import assert from "node:assert/strict";
import { workerToken } from "../../src/base/session_tokens.ts";
import { RunStatus, TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { configOf } from "../harness/configs.ts";
import { hasCode, runId } from "../registry/fixture.ts";
import { executing, testEachWay, waiting, withServer } from "./fixture.ts";

const { method } = TrainerService;

testEachWay(
  "SubmitRun: answers the run's id and digest; a given id is used",
  async ({ client, core }) => {
    const config = () => configOf({ command: ["/bin/true"] });
    const first = await client.unary(method.submitRun, { configJson: config() });
    assert.equal(first.digest, core.registry.require(first.runId).digest);
    const second = await client.unary(method.submitRun, { configJson: config(), runId: runId(77) });
    assert.equal(second.runId, runId(77));
    assert.equal(second.digest, core.registry.require(runId(77)).digest);
  },
);

testEachWay(
  "SubmitRun: violations arrive as INVALID_ARGUMENT with their text and the hint apart",
  async ({ client }) => {
    await assert.rejects(client.unary(method.submitRun, { configJson: "{}" }), (error) => {
      assert.match((error as { hint?: string }).hint!, /mosaic submit --check/);
      return hasCode("invalid_argument", /run_name is missing.*entry_point is missing/s)(error);
    });
  },
);

testEachWay("SubmitRun: the same id with another digest is ALREADY_EXISTS", async ({ client }) => {
  await client.unary(method.submitRun, {
    configJson: configOf({ command: ["/bin/true"] }),
    runId: runId(5),
  });
  await assert.rejects(
    client.unary(method.submitRun, {
      configJson: configOf({ command: ["/bin/true"] }),
      runId: runId(5),
    }),
    hasCode("already_exists"),
  );
});

testEachWay(
  "CancelRun: a cancelled run is TERM with user_cancel; again changes nothing; unknown is NOT_FOUND",
  async ({ client, core }) => {
    const id = executing(core);
    await client.unary(method.cancelRun, { runId: id });
    await client.unary(method.cancelRun, { runId: id });
    const { runs } = await client.unary(method.listRuns, {});
    assert.equal(runs[0]!.status, RunStatus.TERM);
    assert.equal(runs[0]!.failureReason, "user_cancel");
    await assert.rejects(
      client.unary(method.cancelRun, { runId: "nope" }),
      hasCode("not_found", /run not found/),
    );
  },
);

testEachWay(
  "ListRuns: all states by default, oldest first; unknown status numbers are ignored",
  async ({ client, core }) => {
    const live = executing(core, 1);
    waiting(core, 2);
    const failed = executing(core, 3);
    core.ended(failed, { code: 3 });
    const all = await client.unary(method.listRuns, { statusFilter: [99 as RunStatus] });
    assert.deepEqual(all.runs.map((run) => run.status), [
      RunStatus.EXEC,
      RunStatus.INIT,
      RunStatus.FAULT,
    ]);
    assert.deepEqual(all.runs.map((run) => run.seqId), [0n, 0n, 0n]);
    assert.equal(all.runs[0]!.runId, live);
    // Unset where there is nothing to say, as proto3 optional.
    assert.equal(all.runs[0]!.failureReason, undefined);
    assert.equal(all.runs[0]!.gpuSlot, undefined);
    assert.equal(all.runs[2]!.failureReason, "exit_code_3");
    const faulted = await client.unary(method.listRuns, {
      statusFilter: [RunStatus.FAULT, RunStatus.TERM],
    });
    assert.deepEqual(faulted.runs.map((run) => run.runId), [failed]);
  },
);

testEachWay("ListRuns: GPU slots of a run, the first of them apart", async ({ client, core }) => {
  const id = waiting(core);
  core.registry.gpus.claim(id, [1, 2]);
  const { runs } = await client.unary(method.listRuns, {});
  assert.equal(runs[0]!.gpuSlot, 1);
  assert.deepEqual(runs[0]!.gpuSlots, [1, 2]);
});

testEachWay(
  "Heartbeat: reaches the core; unknown or empty run is NOT_FOUND",
  async ({ client, core }) => {
    const id = executing(core);
    await client.unary(method.heartbeat, { runId: id });
    assert.deepEqual(core.calls, [`heartbeat ${id}`]);
    await assert.rejects(client.unary(method.heartbeat, { runId: "" }), hasCode("not_found"));
  },
);

testEachWay(
  "RegisterWorker: answers version and token; empty, unknown and ended runs are told apart",
  async ({ client, core }) => {
    const id = executing(core);
    const answer = await client.unary(method.registerWorker, { runId: id, workerKind: "cleanrl" });
    const { sessionToken } = core.registry.require(id);
    assert.deepEqual([answer.acceptedVersion, answer.sessionToken], [
      "MOSAIC/1.0",
      workerToken(sessionToken!),
    ]);
    assert.equal(core.registry.require(id).workerKind, "cleanrl");
    await assert.rejects(
      client.unary(method.registerWorker, {}),
      hasCode("invalid_argument", /run_id/),
    );
    await assert.rejects(
      client.unary(method.registerWorker, { runId: "nope" }),
      hasCode("not_found"),
    );
    core.ended(id);
    await assert.rejects(
      client.unary(method.registerWorker, { runId: id }),
      hasCode("failed_precondition", /already terminated/),
    );
  },
);

Deno.test("GetHealth: pid, start, address; not healthy while nothing can be stored", async () => {
  await withServer(async ({ client, core, server }) => {
    const health = await client.unary(method.getHealth, {});
    assert.equal(health.pid, BigInt(Deno.pid));
    assert.equal(health.startedAt?.seconds, BigInt(Math.floor(core.startedAt / 1000)));
    assert.equal(health.listenAddress, server.address);
    assert.equal(health.healthy, true);
    core.full = true;
    assert.equal((await client.unary(method.getHealth, {})).healthy, false);
  });
});

testEachWay("GetHealth: version and commit of the daemon", async ({ client, core }) => {
  const { version, commit } = await client.unary(method.getHealth, {});
  // From source there is no commit.
  assert.deepEqual([version, commit], [core.version, ""]);
});
