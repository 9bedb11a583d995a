import assert from "node:assert/strict";
import { readConfig } from "../../src/config/config.ts";
import { expectedStepsOf, planOf, restartDelaySeconds } from "../../src/config/plan.ts";
import { prepareRun, resolveRunId } from "../../src/config/prepare.ts";
import { isUlid } from "../../src/config/ulid.ts";
import { Layout } from "../../src/base/layout.ts";
import { fixtureText } from "./fixtures.ts";

const ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const OTHER = "01BX5ZZKBKACTAV9WEVGEMMVRZ";
const layout = new Layout("/srv/mosaic");
const planOfFixture = (name: string) =>
  planOf(prepareRun(readConfig(fixtureText(`${name}.json`)), { runId: ULID, layout }).configJson);

Deno.test("run id: the request's, else the config's ULID, else a new one", () => {
  const named = readConfig(fixtureText("flat-script.json"));
  const nameless = readConfig(fixtureText("flat-worker.json"));
  assert.equal(resolveRunId(named), ULID);
  assert.equal(resolveRunId(named, ULID), ULID);
  assert.equal(resolveRunId(nameless, OTHER), OTHER);
  const fresh = resolveRunId(nameless);
  assert.ok(isUlid(fresh), fresh);
});

Deno.test("run id: one that is no ULID, or not the config's, is refused", () => {
  const named = readConfig(fixtureText("flat-script.json"));
  assert.throws(() => resolveRunId(named, "../../etc"), /is not a ULID/);
  assert.throws(() => resolveRunId(named, OTHER), /run_id mismatch with configuration digest/);
});

Deno.test("prepare: the digest is taken before injection, and what was read stays as it was", () => {
  const read = readConfig(fixtureText("flat-worker.json"));
  const before = read.canonicalJson;
  prepareRun(read, { runId: ULID, layout });
  const again = prepareRun(read, { runId: OTHER, layout });
  assert.equal(read.canonicalJson, before);
  assert.ok(!again.configJson.includes(ULID));
  assert.equal(JSON.parse(again.configJson).metadata.worker.config.run_id, OTHER);
});

Deno.test("prepare: only environment variables that are there are rewritten", () => {
  const { configJson, directory } = prepareRun(readConfig(fixtureText("flat-worker.json")), {
    runId: ULID,
    layout,
  });
  assert.deepEqual(JSON.parse(configJson).environment, {
    CLEANRL_RUN_ID: ULID,
    MOSAIC_RUN_DIR: directory,
    OWN: "kept",
    XUANCE_TENSORBOARD_DIR: `${directory}/tensorboard`,
  });
});

Deno.test("plan: every default is in place", () => {
  const plan = planOfFixture("flat-minimal");
  assert.deepEqual(plan.schedule, {
    maxDurationSeconds: null,
    maxSteps: null,
    stallTimeoutSeconds: null,
  });
  assert.deepEqual(plan.restart, {
    backoffSeconds: 5,
    on: ["exit", "heartbeat", "handshake", "lost", "infrastructure"],
  });
  assert.deepEqual(plan.backpressure, { policy: "journal", minRateHz: 1, starvedSeconds: 10 });
  assert.deepEqual(plan.preflight, { files: [], modules: [], minFreeDiskMb: 0, gpu: false });
  assert.deepEqual(plan.telemetry, {
    ...{ strict: false, schemaId: null, schema: null },
    ...{ textOff: [], observe: [] },
  });
  assert.deepEqual(plan.sandbox, { kind: "none", network: false, writable: [] });
  assert.deepEqual(plan.artifacts, {
    persistLogs: true,
    keepJournal: false,
    dropCheckpoints: false,
    keepVideos: null,
  });
  assert.equal(plan.heartbeatTimeoutSeconds, null);
  assert.equal(plan.handshakeTimeoutSeconds, null);
  assert.equal(plan.webhook, null);
  assert.equal(plan.worker.useGrpc, true);
});

Deno.test("plan: observe names further files of trackers, or says that none are read", () => {
  const config = JSON.parse(fixtureText("flat-minimal.json"));
  const observed = (observe: unknown) =>
    planOf(JSON.stringify({ ...config, metadata: { observe } })).telemetry.observe;
  assert.deepEqual(observed(true), []);
  assert.deepEqual(observed(["logs/**/*.csv"]), ["logs/**/*.csv"]);
  assert.equal(observed(false), null);
  // An import prints what its files have; other files in the daemon's directory are not its.
  const imported = { ...config, entry_point: "mosaic:import-worker", metadata: { observe: true } };
  assert.equal(planOf(JSON.stringify(imported)).telemetry.observe, null);
});

Deno.test("plan: telemetry.text names the dialects of printed text that are read", () => {
  const config = JSON.parse(fixtureText("flat-minimal.json"));
  const off = (text: unknown) =>
    planOf(JSON.stringify({ ...config, metadata: { telemetry: { text } } })).telemetry.textOff;
  assert.deepEqual(off(true), []);
  assert.deepEqual(off(false), [
    "json",
    "python_dict",
    "key_value",
    "words",
    "bar",
    "table",
    "episode",
    "trial",
  ]);
  assert.deepEqual(off(["table", "json"]), [
    "python_dict",
    "key_value",
    "words",
    "bar",
    "episode",
    "trial",
  ]);
  assert.throws(() => off(["tables"]), /metadata.telemetry.text/);
});

Deno.test("plan: every field of the config arrives", () => {
  const plan = planOfFixture("flat-every-metadata-field");
  assert.deepEqual(plan.restart, { backoffSeconds: 0.5, on: ["exit", "lost"] });
  assert.deepEqual(plan.backpressure, { policy: "throttle", minRateHz: 50, starvedSeconds: 2.5 });
  assert.deepEqual(plan.preflight, {
    files: [
      { path: "data.npz", sha256: null },
      {
        path: "/srv/weights.pt",
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      },
    ],
    modules: ["numpy", "gymnasium.wrappers"],
    minFreeDiskMb: 100,
    gpu: true,
  });
  assert.deepEqual(plan.telemetry, {
    strict: true,
    schemaId: "mine",
    schema: { required: ["reward"] },
    textOff: [],
    observe: [],
  });
  assert.deepEqual(plan.sandbox, { kind: "bubblewrap", network: true, writable: ["/srv/cache"] });
  assert.deepEqual(plan.webhook, {
    url: "https://example.org/hook",
    events: ["state"],
    secretFile: "/etc/mosaic/hook.key",
  });
  assert.deepEqual(plan.schedule, {
    maxDurationSeconds: 60,
    maxSteps: 1000,
    stallTimeoutSeconds: 30,
  });
  assert.equal(plan.heartbeatTimeoutSeconds, 12.5);
  assert.equal(plan.handshakeTimeoutSeconds, 7);
});

Deno.test("expected steps: the schedule's, else the worker's; a config that nobody checked hides nothing", () => {
  const prepared = (name: string) =>
    prepareRun(readConfig(fixtureText(`${name}.json`)), { runId: ULID, layout }).configJson;
  assert.equal(expectedStepsOf(prepared("flat-minimal")), 0);
  assert.equal(expectedStepsOf(prepared("flat-every-metadata-field")), 1000);
  assert.equal(expectedStepsOf(prepared("flat-worker")), 2048);
  for (const damaged of ["", "null", "{", "[1]", '{"metadata":null,"schedule":{"max_steps":-1}}']) {
    assert.equal(expectedStepsOf(damaged), 0, damaged);
  }
  assert.equal(expectedStepsOf('{"x":NaN,"schedule":{"max_steps":5}}'), 5);
});

Deno.test("plan: short forms stand for their objects", () => {
  const plan = planOfFixture("flat-short-forms");
  assert.equal(plan.backpressure.policy, "pause");
  assert.equal(plan.sandbox.kind, "bubblewrap");
  assert.equal(plan.webhook?.url, "http://127.0.0.1:9000/hook");
});

Deno.test("plan: what the worker's own config says is used where mosaic's says nothing", () => {
  const plan = planOfFixture("flat-worker");
  assert.equal(plan.telemetry.schemaId, "cleanrl.ppo");
  assert.deepEqual(plan.telemetry.schema, { type: "object" });
  assert.equal(plan.worker.workerId, "cleanrl_worker");
});

Deno.test("plan: the restart delay doubles up to ten minutes", () => {
  const plan = planOfFixture("flat-minimal");
  assert.deepEqual([2, 3, 4, 30].map((attempt) => restartDelaySeconds(plan, attempt)), [
    5,
    10,
    20,
    600,
  ]);
  const after = (backoffSeconds: number, attempt: number) =>
    restartDelaySeconds({ ...plan, restart: { ...plan.restart, backoffSeconds } }, attempt);
  assert.equal(after(0, 2000), 0);
  // A run whose next attempt is at a time without a text kept the daemon from starting.
  assert.ok(!Number.isNaN(new Date(Date.now() + after(8.8e12, 2) * 1000).getTime()));
});

Deno.test("plan: a stored config that was damaged from outside is named as such", () => {
  assert.throws(() => planOf("{}"), /the stored config is damaged: run_name is missing/);
});

Deno.test("prepare: the daemon's defaults of metadata.slurm become the run's own, below what its config says", () => {
  const slurm = { partition: "gpu", account: "lab", warn_seconds: 60, lease_seconds: 600 };
  const stored = (metadata: Record<string, unknown>) => {
    const config = { ...JSON.parse(fixtureText("flat-minimal.json")), metadata };
    return JSON.parse(
      prepareRun(readConfig(JSON.stringify(config)), { runId: ULID, layout, slurm }).configJson,
    )
      .metadata;
  };
  assert.deepEqual(stored({ launcher: "slurm", slurm: { partition: "short", time: 5 } }).slurm, {
    account: "lab",
    lease_seconds: 600,
    partition: "short",
    time: 5,
  });
  const worker = { script: "/bin/true", supports_pause: true };
  assert.deepEqual(
    stored({ launcher: "slurm", worker }).slurm,
    slurm,
    "its worker reads the warning",
  );
  assert.equal(stored({ worker }).slurm, undefined, "a run of the daemon's own host");
});
