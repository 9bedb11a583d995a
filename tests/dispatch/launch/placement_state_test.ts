import assert from "node:assert/strict";
import {
  admissionOf,
  applySightings,
  FORGOTTEN,
  jobName,
  nextStep,
  readJobName,
  type Stage,
  stepOf,
} from "../../../src/dispatch/launch/placed/placement_state.ts";
import type { Sighting } from "../../../src/dispatch/launch/engine/launcher.ts";
import type { Placement, RunRow } from "../../../src/registry/row_types.ts";

const placement: Placement = {
  runId: "R",
  attempt: 1,
  launcher: "slurm",
  tries: 1,
  name: "mosaic-R-1",
  job: "7",
  submittedAt: 1000,
  phase: "queued",
  waitingFor: "",
  expectedStart: null,
  nodes: [],
  gpus: [],
  end: null,
  requestedAt: 0,
};
const sighting = (fields: Partial<Sighting> = {}): Sighting => ({
  job: "7",
  name: "mosaic-R-1",
  submittedAt: 1000,
  nodes: ["n1"],
  state: { t: "running" },
  ...fields,
});
const named = { answers: 0, ms: 0 };
const missed = (answers: number, ms: number) =>
  applySightings(placement, [], { answers, ms }).job.t;

Deno.test("placement: a job is forgotten after several answers and some time, not after one", () => {
  assert.equal(missed(1, 60_000), "unknown");
  assert.equal(missed(100, FORGOTTEN.ms - 1), "unknown");
  assert.equal(missed(FORGOTTEN.answers, FORGOTTEN.ms), "forgotten");
});

Deno.test("placement: an id that was given out again, at another time, is another job and must not run", () => {
  const other = sighting({ submittedAt: 9000 });
  const seen = applySightings(placement, [other], named);
  assert.equal(seen.job.t, "unknown");
  assert.deepEqual(seen.duplicates, [other]);
});

Deno.test("placement: of two jobs the one that is known is meant; before, the one that was submitted first", () => {
  const [mine, twin] = [sighting(), sighting({ job: "8", submittedAt: 2000 })];
  assert.deepEqual(applySightings(placement, [twin, mine], named).duplicates, [twin]);
  const intended = { ...placement, job: null, submittedAt: null, phase: "intended" } as const;
  const seen = applySightings(intended, [twin, mine], named);
  assert.equal(seen.placement.job, "7");
  assert.deepEqual(seen.duplicates, [twin]);
});

Deno.test("placement: what to do about a run that is INIT", () => {
  const end = (kind: "finished" | "job_cancelled") =>
    ({ t: "ended", end: { kind, proven: true, text: "" } }) as const;
  const step = (
    job: Parameters<typeof nextStep>[1],
    cancelRequested = false,
    phase: Placement["phase"] = "queued",
    requested = true,
  ) => nextStep({ ...placement, phase }, job, { cancelRequested, requested }).do;
  assert.equal(step({ t: "unknown" }, false, "intended", false), "launch");
  assert.equal(step({ t: "unknown" }), "nothing");
  assert.equal(step({ t: "queued" }), "nothing");
  assert.equal(step({ t: "running" }), "begin");
  assert.equal(step(end("finished")), "begin");
  assert.equal(step(end("job_cancelled")), "cancelled");
  assert.equal(step({ t: "forgotten" }), "launch_again");
  assert.equal(step({ t: "queued" }, true), "stop");
  // The engine may have made the job although it has not answered.
  assert.equal(step({ t: "unknown" }, true, "intended", true), "stop");
  assert.equal(step({ t: "unknown" }, true, "intended", false), "cancelled");
  assert.equal(step({ t: "forgotten" }, true), "cancelled");
  assert.equal(step(end("finished"), true), "cancelled");
});

Deno.test("placement: what to do about a job by how far its attempt is", () => {
  const end = { t: "ended", end: { kind: "finished", proven: true, text: "" } } as const;
  const requested: Stage = { t: "requested" };
  const released: Stage = { t: "released", at: 0 };
  const step = (
    stage: Stage,
    job: Parameters<typeof nextStep>[1],
    state = "INIT",
    now = 0,
    attempt = 1,
  ) =>
    stepOf(
      { placement, job, stage },
      { state, attempt, cancelRequestedAt: null, faultRequested: null } as RunRow,
      now,
    );
  assert.deepEqual(step(requested, { t: "running" }), { do: "begin" });
  const failed = {
    state: "INIT",
    attempt: 1,
    cancelRequestedAt: null,
    faultRequested: "deadline_passed",
  } as RunRow;
  const stop = stepOf({ placement, job: { t: "queued" }, stage: requested }, failed, 0);
  assert.deepEqual(stop, { do: "stop", how: "graceful" }, "the daemon has failed the run");
  assert.deepEqual(
    step(requested, { t: "running" }, "EXECUTING"),
    { do: "nothing" },
    "the attempt is supervised",
  );
  assert.deepEqual(step(requested, { t: "running" }, "FAULTED"), { do: "release" });
  assert.deepEqual(
    step(requested, { t: "running" }, "INIT", 0, 2),
    { do: "release" },
    "another attempt has begun",
  );
  assert.deepEqual(stepOf({ placement, job: { t: "queued" }, stage: requested }, undefined, 0), {
    do: "release",
  });
  assert.deepEqual(
    step(released, { t: "running" }, "INIT", 20_000),
    { do: "nothing" },
    "it has time to leave",
  );
  assert.deepEqual(step(released, { t: "running" }, "INIT", 20_001), { do: "stop", how: "now" });
  assert.deepEqual(step(released, end), { do: "forget" });
  assert.deepEqual(step(released, { t: "forgotten" }), { do: "forget" });
  assert.deepEqual(stepOf({ placement, job: end, stage: released }, undefined, 0), {
    do: "forget",
  });
});

Deno.test("placement: the proxy of its own job is admitted, unless it would start a worker of a run that is being stopped", () => {
  const row = { state: "INIT", cancelRequestedAt: null, faultRequested: null } as const;
  const requested: Stage = { t: "requested" };
  const admission = (change: object, job = "7", stage: Stage = requested, of = placement) =>
    admissionOf({ placement: of, stage }, { ...row, ...change }, job);
  assert.equal(admission({}), "admitted");
  assert.equal(admission({}, "8"), "another_job");
  assert.equal(
    admission({}, "8", requested, { ...placement, job: null }),
    "admitted",
    "no job is known yet",
  );
  const stops: [object, Stage][] = [
    [{ cancelRequestedAt: 1 }, requested],
    [{ faultRequested: "max_steps" }, requested],
    [{}, { t: "released", at: 0 }],
  ];
  for (const [request, stage] of stops) {
    assert.equal(admission(request, "7", stage), "being_stopped");
    assert.equal(admission({ ...request, state: "HANDSHAKE" }, "7", stage), "being_stopped");
    assert.equal(
      admission({ ...request, state: "EXECUTING" }, "7", stage),
      "admitted",
      "it delivers what is left",
    );
  }
});

Deno.test("placement: names tell run, attempt and try", () => {
  for (
    const job of [{ runId: "01AB", attempt: 3, tries: 1 }, {
      runId: "a-b.c",
      attempt: 12,
      tries: 4,
    }]
  ) {
    assert.deepEqual(readJobName(jobName(job)), job);
  }
  assert.equal(readJobName("train"), undefined);
});
