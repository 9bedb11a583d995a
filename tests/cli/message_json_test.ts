/**
 * The JSON contract: these shapes are what docs/reference/json.md promises. A change here is a
 * change for every script.
 */
import * as contract from "../../src/registry/contract.ts";
import { strict as assert } from "node:assert";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { artifactJsonOf, eventJsonOf, hostJsonOf } from "../../src/runs/fields/host_json.ts";
import { runDetailJsonOf, runJsonOf } from "../../src/runs/fields/run_json.ts";
import type { RunJson } from "../../src/runs/fields/run_types.ts";
import { note } from "../../src/runs/fields/run_texts.ts";
import {
  ArtifactSchema,
  EventSchema,
  HostResponseSchema,
  RunSchema,
} from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { fakeRun, ID_A, NOW } from "./fakes.ts";

const RUN = {
  run_id: ID_A,
  name: "cart-1",
  state: "EXECUTING",
  outcome: null,
  reason: null,
  hint: null,
  attempt: 1,
  max_attempts: 1,
  priority: 0,
  queue_position: null,
  waiting_for: null,
  gpus_requested: 2,
  gpu_slots: [0, 1],
  tags: ["sweep"],
  notes: "",
  code_changed: null,
  digest: "ab".repeat(32),
  submitted_at: "2025-11-22T13:56:40.000Z",
  updated_at: "2025-11-22T13:58:20.000Z",
  started_at: "2025-11-22T13:56:53.000Z",
  finished_at: null,
  last_heartbeat: "2025-11-22T13:59:56.000Z",
  not_before: null,
  exit_code: null,
  exit_signal: null,
  cancel_requested: false,
  cancel_reason: null,
  pause_requested: false,
  base_dir: "runs",
  directory: "/state/trainer/runs/R",
  resume_from: null,
  max_steps: 10000,
  max_rate_hz: null,
  worker_id: "worker",
  agent_id: null,
  worker_pid: 4242,
  proxy_pid: 4241,
  damaged: [],
  placement: null,
  telemetry: {
    steps: 6200,
    episodes: 80,
    events: 3,
    other_lines: 2,
    malformed_lines: 1,
    violations: { "step: reward": 4 },
    journal_position: 900,
    journal_size: 1000,
    mean_reward_100: 77.5,
    steps_per_second: 20,
    last_record_at: "2025-11-22T13:59:59.000Z",
    last_output_at: null,
    metrics: 0,
    told_step: 0,
    reported_reward: null,
    overwritten_steps: 0,
    overwritten_episodes: 0,
    objective: null,
  },
  capabilities: {
    worker_kind: "telemetry_proxy",
    proto_version: "MOSAIC/1.0",
    schema_id: "jsonl.telemetry",
    schema_version: 1,
    supports_pause: true,
    supports_checkpoint: false,
  },
  parent: null,
  children: 0,
};

/** A GPU of which the driver tells nothing. */
const UNTOLD = {
  ...{
    uuid: "",
    memory_mb: null,
    used_mb: null,
    percent: null,
    watts: null,
    celsius: null,
    others: "",
    lost: false,
    health: "",
    link: "",
  },
  shares: [],
};

/**
 * Fields that are not named here have tests of their own (tests/runs/fields), and nothing of a run
 * that lacks them.
 */
function assertHas(json: object, expected: object): void {
  const known = Object.keys(expected).map((name) => [name, json[name as keyof typeof json]]);
  assert.deepEqual(Object.fromEntries(known), expected);
}

Deno.test("json: a run", () => {
  assertHas(runJsonOf(fakeRun()), RUN);
  contract.Run.parse(runJsonOf(fakeRun()));
});

Deno.test("json: a run that has not said anything yet", () => {
  const json = runJsonOf(
    create(RunSchema, {
      runId: ID_A,
      name: "n",
      state: "INIT",
      queuePosition: 2,
      waitingFor: "2 GPUs",
    }),
  );
  assert.deepEqual(Object.keys(json), Object.keys(runJsonOf(fakeRun())));
  assert.deepEqual(Object.keys(json.telemetry), Object.keys(RUN.telemetry));
  assert.deepEqual([json.queue_position, json.waiting_for, json.capabilities], [2, "2 GPUs", null]);
  assert.equal(json.telemetry.mean_reward_100, null);
});

Deno.test("json: a run in full", () => {
  const run = fakeRun({
    transitions: [
      { seq: 1n, toState: "INIT", event: "submit", attempt: 1, at: timestampFromMs(NOW) },
      {
        seq: 2n,
        fromState: "INIT",
        toState: "FAULTED",
        event: "failed",
        reason: "exit_code_3",
        attempt: 1,
        at: timestampFromMs(NOW),
      },
    ],
    configJson: `{"run_name":"cart-1"}`,
    stderrTail: ["boom"],
  });
  assertHas(runDetailJsonOf(run), {
    ...RUN,
    transitions: [
      {
        seq: 1,
        from: null,
        to: "INIT",
        event: "submit",
        reason: null,
        attempt: 1,
        at: "2025-11-22T14:00:00.000Z",
      },
      {
        seq: 2,
        from: "INIT",
        to: "FAULTED",
        event: "failed",
        reason: "exit_code_3",
        attempt: 1,
        at: "2025-11-22T14:00:00.000Z",
      },
    ],
    parameters: [],
    config: { run_name: "cart-1" },
    enforced_limits: [],
    ranks: [],
    stderr_tail: ["boom"],
    host_gpus: 0,
  });
});

Deno.test("json: an event, an artifact, the host", () => {
  const event = {
    seq: 7n,
    runId: ID_A,
    runName: "cart-1",
    kind: "checkpoint",
    attempt: 1,
    dataJson: `{"step":10}`,
  };
  assert.deepEqual(eventJsonOf(create(EventSchema, { ...event, at: timestampFromMs(NOW) })), {
    seq: 7,
    at: "2025-11-22T14:00:00.000Z",
    run_id: ID_A,
    run_name: "cart-1",
    kind: "checkpoint",
    attempt: 1,
    data: { step: 10 },
  });
  const artifact = { path: "checkpoints/a.json", kind: "checkpoint", bytes: 12n, sha256: "00" };
  assert.deepEqual(artifactJsonOf(create(ArtifactSchema, { ...artifact, windowId: "0x46" })), {
    ...artifact,
    bytes: 12,
    step: null,
    window_id: "0x46",
    at: null,
    deleted_at: null,
  });
  const host = {
    version: "0.1.0",
    pid: 12n,
    startedAt: timestampFromMs(NOW),
    stateDir: "/state",
    listen: "127.0.0.1:50055",
    http: "127.0.0.1:8055",
    tls: true,
    gpus: [
      { slot: 0, runId: ID_A, name: "H100", uuid: "GPU-1", memoryMb: 81559, usedMb: 4, percent: 0 },
      {
        ...{ slot: 1, runId: "", name: "H100", others: "pid 7" },
        shares: [{ runId: ID_A, part: 0.25, memoryMb: 6144 }],
      },
    ],
    cpus: 2,
    loadAverage: [0.5, 1, 2],
    memoryBytes: 100n,
    memoryAvailableBytes: 50n,
    diskBytes: 200n,
    diskAvailableBytes: 20n,
    telemetryBytes: 3n,
    rssBytes: 4n,
    runsByState: { EXECUTING: 1n },
  };
  assert.deepEqual(hostJsonOf(create(HostResponseSchema, host)), {
    version: "0.1.0",
    pid: 12,
    started_at: "2025-11-22T14:00:00.000Z",
    state_dir: "/state",
    listen: "127.0.0.1:50055",
    http: "127.0.0.1:8055",
    tls: true,
    gpus: [
      {
        ...UNTOLD,
        slot: 0,
        run_id: ID_A,
        name: "H100",
        uuid: "GPU-1",
        memory_mb: 81559,
        used_mb: 4,
        percent: 0,
      },
      {
        ...{ ...UNTOLD, slot: 1, run_id: null, name: "H100", others: "pid 7" },
        shares: [{ run_id: ID_A, part: 0.25, memory_mb: 6144, used_mb: null }],
      },
    ],
    gpu_problem: "",
    cpus: 2,
    load_average: [0.5, 1, 2],
    memory_bytes: 100,
    memory_available_bytes: 50,
    disk_bytes: 200,
    disk_available_bytes: 20,
    telemetry_bytes: 3,
    rss_bytes: 4,
    runs_by_state: { EXECUTING: 1 },
  });
});

Deno.test("list: a run that an engine places says where it runs, or what the engine doubts", () => {
  const placed = (
    nodes: string[],
    waiting_for: string | null = null,
    further: Partial<RunJson> = {},
  ): string =>
    note({
      ...runJsonOf(fakeRun()),
      ...{ state: "EXECUTING", outcome: null, reason: null, max_steps: null, waiting_for: null },
      cancel_requested: false,
      placement: {
        ...{
          launcher: "slurm",
          name: "mosaic-1-1",
          job: "17",
          phase: "running",
          waiting_for,
          expected_start: null,
        },
        ...{ nodes, gpus: [], end: null },
      },
      ...further,
    } as RunJson, NOW);
  assert.equal(placed(["n1"]), "on n1");
  assert.equal(placed(["n1", "n2", "n3"]), "on n1 and 2 more");
  assert.equal(placed([]), "");
  assert.equal(placed(["n1"], "doubtful: NODE_FAIL"), "doubtful: NODE_FAIL");
  assert.equal(
    placed(["n1"], null, { state: "FAULTED", outcome: "failed", reason: "node_fail" }),
    "node_fail",
  );
});
