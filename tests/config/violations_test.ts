import assert from "node:assert/strict";
import { readConfig, violationsOf } from "../../src/config/config.ts";
import { publishedSchema } from "../../src/config/schema.ts";

const good = {
  run_name: "demo",
  entry_point: "python",
  environment: {},
  resources: { cpus: 1, memory_mb: 256, gpus: { requested: 0 } },
  artifacts: {},
} as Record<string, unknown>;

const withMetadata = (metadata: unknown) => ({ ...good, metadata });
const paths = (config: unknown) => violationsOf(JSON.stringify(config)).map((v) => v.path);

Deno.test("config: a good config has no violations", () => {
  assert.deepEqual(violationsOf(JSON.stringify(good)), []);
});

Deno.test("config: the dots that stand for a hidden secret are refused where they stand, with what to do", () => {
  const copied = {
    ...good,
    arguments: ["train.py", "--api-key=••••••••"],
    environment: { TOKEN: "••••••••", A: "b" },
  };
  const violations = violationsOf(JSON.stringify(copied));
  assert.deepEqual(violations.map(({ path }) => path).sort(), [
    "arguments[1]",
    "environment.TOKEN",
  ]);
  for (const { message } of violations) {
    assert.match(message, /secret that was hidden.*show RUN --config --reveal/);
  }
});

Deno.test("config: each violation names its path", () => {
  const gpus = (value: unknown) => ({
    ...good,
    resources: { cpus: 1, memory_mb: 256, gpus: value },
  });
  const cases: [unknown, string[]][] = [
    [[], ["$"]],
    ["text", ["$"]],
    [{}, ["run_name", "entry_point", "environment", "resources", "artifacts"]],
    [{ ...good, extra: 1 }, ["extra"]],
    [{ ...good, payload: {} }, ["payload"]],
    [{ ...good, run_name: "" }, ["run_name"]],
    [{ ...good, run_name: "x".repeat(121) }, ["run_name"]],
    [{ ...good, entry_point: "" }, ["entry_point"]],
    [{ ...good, arguments: ["a", 1, "b\u0000c"] }, ["arguments[1]", "arguments[2]"]],
    [{ ...good, environment: { A: 1, "B=C": "x" } }, ["environment.A", 'environment["B=C"]']],
    [{
      ...good,
      resources: { cpus: 0, memory_mb: 255, disk: 1, gpus: { requested: 9, shared: true } },
    }, [
      "resources.cpus",
      "resources.memory_mb",
      "resources.gpus.requested",
      "resources.gpus.shared",
      "resources.disk",
    ]],
    [gpus({ requested: true }), ["resources.gpus.requested"]],
    [gpus({ requested: 1.5 }), ["resources.gpus.requested"]],
    [gpus({ requested: 1, mandatory: 1 }), ["resources.gpus.mandatory"]],
    [gpus({ requested: 1, share: 1 }), ["resources.gpus.share"]],
    [gpus({ requested: 1, share: 0 }), ["resources.gpus.share"]],
    [gpus({ requested: 1, memory_mb: 1.5 }), ["resources.gpus.memory_mb"]],
    [gpus({ requested: 1, memory_mb: 6144, share: 0.25 }), ["resources.gpus"]],
    [gpus({ requested: 0, share: 0.25 }), ["resources.gpus"]],
    [{ ...good, artifacts: { output_prefix: "", keep: 1 } }, [
      "artifacts.output_prefix",
      "artifacts.keep",
    ]],
    [{ ...good, schedule: { max_steps: 0, max_duration_seconds: "1", until: 1 } }, [
      "schedule.max_duration_seconds",
      "schedule.max_steps",
      "schedule.until",
    ]],
    [{ ...good, schedule: { stall_timeout_seconds: 0 } }, ["schedule.stall_timeout_seconds"]],
    [withMetadata(null), ["metadata"]],
    [
      withMetadata({
        worker: { module: 1, arguments: "x", use_grpc: "yes", cwd: "relative", own: 1 },
      }),
      [
        "metadata.worker.module",
        "metadata.worker.arguments",
        "metadata.worker.use_grpc",
        "metadata.worker.cwd",
      ],
    ],
    [
      withMetadata({
        worker: { worker_id: "../../etc", config: { worker_id: "a/b", schema_definition: 1 } },
      }),
      [
        "metadata.worker.config.worker_id",
        "metadata.worker.config.schema_definition",
        "metadata.worker.worker_id",
      ],
    ],
    [withMetadata({ priority: "high", tags: "a" }), ["metadata.priority", "metadata.tags"]],
    [
      withMetadata({
        restart: { max_attempts: 0, backoff_s: -1, on: ["exit", "rain"], retries: 1 },
      }),
      [
        "metadata.restart.max_attempts",
        "metadata.restart.backoff_s",
        "metadata.restart.on[1]",
        "metadata.restart.retries",
      ],
    ],
    [withMetadata({ backpressure: "slow" }), ["metadata.backpressure"]],
    [withMetadata({ backpressure: { policy: "slow", min_rate_hz: 0 } }), [
      "metadata.backpressure.policy",
      "metadata.backpressure.min_rate_hz",
    ]],
    [
      withMetadata({
        preflight: { files: [{ path: "x", sha256: "12" }, 3], modules: ["os; x"], gpu: 1 },
      }),
      [
        "metadata.preflight.files[0].sha256",
        "metadata.preflight.files[1]",
        "metadata.preflight.modules[0]",
        "metadata.preflight.gpu",
      ],
    ],
    [withMetadata({ telemetry: { strict: "yes" } }), ["metadata.telemetry.strict"]],
    [withMetadata({ heartbeat_timeout_seconds: 0, handshake_timeout_seconds: "60" }), [
      "metadata.heartbeat_timeout_seconds",
      "metadata.handshake_timeout_seconds",
    ]],
    [withMetadata({ sandbox: "docker" }), ["metadata.sandbox"]],
    [withMetadata({ umask: 22 }), ["metadata.umask"]],
    [withMetadata({ umask: "rw" }), ["metadata.umask"]],
    [withMetadata({ webhook: "ftp://x" }), ["metadata.webhook"]],
    [withMetadata({ webhook: { url: "nowhere", key: "k" } }), [
      "metadata.webhook.url",
      "metadata.webhook.key",
    ]],
  ];
  for (const [config, expected] of cases) {
    assert.deepEqual(paths(config).sort(), [...expected].sort(), JSON.stringify(config));
  }
});

Deno.test("config: in the nested shape the paths are those of what was sent", () => {
  const config = {
    metadata: { worker: { module: "m" } },
    payload: { resources: { gpus: { requested: 99 } }, colour: "red", metadata: {} },
  };
  assert.deepEqual(paths(config).sort(), [
    "metadata.run_name",
    "payload.colour",
    "payload.metadata",
    "payload.resources.gpus.requested",
  ]);
});

Deno.test("config: a violation says what is expected and what was found", () => {
  const messages = violationsOf(
    JSON.stringify({ ...good, extra: 1, resources: { cpus: 0, gpus: {} } }),
  );
  assert.deepEqual(messages.find((v) => v.path === "resources.cpus"), {
    path: "resources.cpus",
    message: "must be an integer of at least 1, not 0",
  });
  assert.match(
    messages.find((v) => v.path === "resources.gpus.requested")!.message,
    /^is missing; .* 0 to 8$/,
  );
  assert.ok(
    !messages.some((v) => v.path === "resources.memory_mb"),
    "a run need not ask for limits",
  );
  assert.match(
    messages.find((v) => v.path === "extra")!.message,
    /is not known; known here: .*run_name/,
  );
  const misspelt = violationsOf(JSON.stringify({ ...good, runname: "x" })).find((v) =>
    v.path === "runname"
  );
  assert.match(misspelt!.message, /^is not known\. Did you mean run_name\?$/);
});

Deno.test("config: all violations come in one error, joined by semicolons", () => {
  assert.throws(() => readConfig("{}"), (error: Error & { code?: string }) => {
    assert.equal(error.message.split("; ").filter((part) => part.includes("is missing")).length, 5);
    return error.code === "invalid_argument";
  });
});

Deno.test("config: names are measured in characters, not in UTF-16 units", () => {
  assert.deepEqual(paths({ ...good, run_name: "😀".repeat(120) }), []);
  assert.deepEqual(paths({ ...good, run_name: "😀".repeat(121) }), ["run_name"]);
});

Deno.test("config: a draft TrainRunConfig of the original's design is explained in one violation, not in one for each field", () => {
  const draft = {
    schema_version: "2025-10-14",
    run_id: "r",
    env_id: "CartPole-v1",
    seed: 1,
    algorithm: "ppo",
    overrides: {},
  };
  const [found, ...others] = violationsOf(JSON.stringify(draft));
  assert.deepEqual([found?.path, others], ["$", []]);
  assert.match(
    found!.message,
    /draft TrainRunConfig \(env_id, overrides, algorithm\).*entry_point.*metadata\.worker\.config/,
  );
});

Deno.test("config: a schema_version of another major is refused before anything else is looked at", () => {
  for (const version of [2, "2", "2.0", "17.3", "0.9"]) {
    const found = violationsOf(JSON.stringify({ schema_version: version, surprise: true }));
    assert.deepEqual(found.map((v) => v.path), ["schema_version"], String(version));
    assert.match(found[0]!.message, /this mosaic reads version 1/);
  }
  for (const version of [1, "1", "1.0", "1.7", "2025-10-14"]) {
    assert.deepEqual(paths({ ...good, schema_version: version }), []);
  }
  for (const version of ["one", true, 1.5, ""]) {
    assert.deepEqual(paths({ ...good, schema_version: version }), ["schema_version"]);
  }
});

Deno.test("config: the version is no part of the digest", () => {
  const digest = (config: unknown) => readConfig(JSON.stringify(config)).digest;
  assert.equal(digest({ schema_version: "1.0", ...good }), digest(good));
});

Deno.test("config: the checked-in JSON Schema is the one that the code has", () => {
  const file = new URL("../../schema/train-run-config.v1.json", import.meta.url);
  assert.deepEqual(JSON.parse(Deno.readTextFileSync(file)), publishedSchema());
});
