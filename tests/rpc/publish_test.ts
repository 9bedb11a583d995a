import assert from "node:assert/strict";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { hasCode } from "../registry/fixture.ts";
import { until } from "../harness/wait.ts";
import { executing, testEachWay, waiting } from "./fixture.ts";

const { method } = TrainerService;

const STEPS = 800;

testEachWay(
  "PublishRunSteps: every message is stored in order and counted",
  async ({ client, core }) => {
    const runId = waiting(core);
    core.registry.apply(runId, { type: "spawned" });
    core.registerWorker({
      runId,
      workerId: "",
      workerKind: "telemetry_proxy",
      protoVersion: "MOSAIC/1.0",
      schemaId: "",
      schemaVersion: 1,
      supportsPause: false,
      supportsCheckpoint: false,
    });
    const call = client.upload(method.publishRunSteps);
    for (let i = 0; i < STEPS; i++) {
      await call.send({
        runId,
        stepIndex: BigInt(i),
        reward: i === 7 ? NaN : 0.5,
      });
    }
    call.end();
    const { accepted, dropped } = await call.answer;
    assert.deepEqual([accepted, dropped], [BigInt(STEPS), 0n]);
    const rows = core.telemetry.read(runId, "steps", 0, 2 * STEPS);
    assert.deepEqual(rows.map((row) => row.step), Array.from({ length: STEPS }, (_, i) => i));
    assert.ok(Number.isNaN(rows[7]!.reward));
    assert.equal(core.registry.require(runId).state, "EXECUTING");
  },
);

testEachWay(
  "PublishRunEpisodes: episodes with metadata; an empty stream is fine",
  async ({ client, core }) => {
    const runId = executing(core);
    const call = client.upload(method.publishRunEpisodes);
    await call.send({ runId, totalReward: 3, steps: 4n, metadataJson: "{}" });
    call.end();
    assert.equal((await call.answer).accepted, 1n);
    assert.equal(core.telemetry.read(runId, "episodes", 0, 9)[0]!.totalReward, 3);
    const empty = client.upload(method.publishRunEpisodes);
    empty.end();
    assert.equal((await empty.answer).accepted, 0n);
  },
);

testEachWay(
  "Publish: an empty, unknown, unregistered or changing run is refused with its own code",
  async ({ client, core }) => {
    const runId = executing(core);
    const silent = waiting(core, 2);
    const publish = async (...runs: string[]) => {
      const call = client.upload(method.publishRunSteps);
      call.answer.catch(() => {});
      for (const run of runs) await call.send({ runId: run });
      call.end();
      return await call.answer;
    };
    await assert.rejects(publish(""), hasCode("invalid_argument", /run_id is empty/));
    await assert.rejects(publish("nope"), hasCode("not_found", /run not registered/));
    await assert.rejects(publish(silent), hasCode("failed_precondition", /RegisterWorker/));
    await assert.rejects(publish(runId, runId, silent), hasCode("invalid_argument", /changed/));
    // What came before the wrong message counts.
    assert.equal(core.telemetry.head(runId, "steps"), 2);
  },
);

testEachWay(
  "Publish: while the disk is full the sender waits, and nothing is lost",
  async ({ client, core }) => {
    const runId = executing(core);
    core.full = true;
    const call = client.upload(method.publishRunSteps);
    for (let i = 0; i < 10; i++) await call.send({ runId, stepIndex: BigInt(i) });
    call.end();
    await until(() => core.logLines.some((line) => line.includes("its sender waits")), {
      what: "the sender to wait",
    });
    core.full = false;
    assert.equal((await call.answer).accepted, 10n);
    assert.equal(core.telemetry.head(runId, "steps"), 10);
  },
);

testEachWay(
  "Publish: a stream that has begun in an attempt that is over is refused",
  async ({ client, core }) => {
    const runId = executing(core);
    const call = client.upload(method.publishRunSteps);
    call.answer.catch(() => {});
    await call.send({ runId });
    await until(() => core.telemetry.read(runId, "steps", 0, 9).length === 1, {
      what: "the first step",
    });
    core.registry.apply(runId, { type: "failed", reason: "test" });
    core.registry.apply(runId, { type: "retry", reason: "test" });
    core.registry.apply(runId, { type: "spawned" });
    await call.send({ runId });
    call.end();
    await assert.rejects(
      call.answer,
      hasCode("failed_precondition", /attempt 1 of run .* has ended; the run is in attempt 2/),
    );
    assert.equal(core.telemetry.read(runId, "steps", 0, 9).length, 1);
  },
);
