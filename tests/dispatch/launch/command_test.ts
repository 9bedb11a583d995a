import assert from "node:assert/strict";
import { workerCommand } from "../../../src/dispatch/launch/local/command.ts";
import { cleanPath, hostEnvironment } from "../../../src/os/processes/environment.ts";
import { contextWith, hostWith, planWith, RUN_ID } from "../plans.ts";

const argvOf = (
  parts: Parameters<typeof planWith>[0],
  context: Parameters<typeof contextWith>[0] = {},
) => workerCommand(planWith(parts), contextWith(context)).argv;

Deno.test("command: without module and script the entry point is run with its arguments and nothing is added", () => {
  assert.deepEqual(
    argvOf({ entry_point: "/bin/sh", arguments: ["-c", "exit 3"] }, {
      workerConfigPath: "/w.json",
    }),
    ["/bin/sh", "-c", "exit 3"],
  );
});

Deno.test("command: the built-in demo worker is mosaic itself", () => {
  assert.deepEqual(
    argvOf({ entry_point: "mosaic:demo-worker", arguments: ["--episodes", "3"] }),
    ["/opt/mosaic", "demo-worker", "--episodes", "3"],
  );
});

Deno.test("command: a module gets its arguments, its config, the daemon's address and its id", () => {
  const worker = {
    module: "m.cli",
    arguments: ["--dry-run"],
    worker_id: "w-1",
    config: { algo: "ppo" },
  };
  assert.deepEqual(argvOf({ metadata: { worker } }, { workerConfigPath: "/c/worker.json" }), [
    ...["python3", "-m", "m.cli", "--dry-run", "--config", "/c/worker.json"],
    ...["--grpc", "--grpc-target", "127.0.0.1:41000", "--worker-id", "w-1"],
  ]);
});

Deno.test("command: a script is run as it is, with the same flags", () => {
  const worker = { script: "/bin/bash", arguments: ["train.sh"], use_grpc: false };
  assert.deepEqual(argvOf({ metadata: { worker } }), ["/bin/bash", "train.sh"]);
});

Deno.test("command: flags that the config gives are not given twice", () => {
  const given = ["--config=/mine.json", "--grpc", "--grpc-target", "host:1", "--worker-id", "mine"];
  const worker = { module: "m", arguments: given, worker_id: "w" };
  assert.deepEqual(argvOf({ metadata: { worker } }, { workerConfigPath: "/c.json" }), [
    "python3",
    "-m",
    "m",
    ...given,
  ]);
});

Deno.test("command: only the usual gRPC address is replaced by the daemon's own", () => {
  const target = (grpc_target: string) =>
    argvOf({ metadata: { worker: { module: "m", grpc_target } } }).at(-1);
  assert.equal(target("127.0.0.1:50055"), "127.0.0.1:41000");
  assert.equal(target(""), "127.0.0.1:41000");
  assert.equal(target("gpu-box:50055"), "gpu-box:50055");
});

Deno.test("command: without a gRPC listener a worker is told of none, unless its config names one", () => {
  const argv = (grpc_target: string) =>
    argvOf({ metadata: { worker: { module: "m", grpc_target } } }, { listenTarget: "" }).slice(-3);
  assert.ok(!argv("").some((argument) => argument.startsWith("--grpc")), argv("").join(" "));
  assert.deepEqual(argv("gpu-box:50055"), ["--grpc", "--grpc-target", "gpu-box:50055"]);
});

Deno.test("command: a path to a Python in entry_point is the interpreter, as the original's forms mean it", () => {
  const of = (entry_point: string, worker: Record<string, unknown> = {}) =>
    workerCommand(
      planWith({ entry_point, metadata: { worker: { module: "m", ...worker } } }),
      contextWith(),
    ).python;
  assert.deepEqual(of("/home/u/venv/bin/python3.11"), ["/home/u/venv/bin/python3.11"]);
  assert.deepEqual(of("/home/u/venv/bin/python", { python: "/opt/py" }), ["/opt/py"]);
  assert.deepEqual(of("python"), ["python3"]);
  assert.deepEqual(of("/bin/bash"), ["python3"]);
});

Deno.test("command: the interpreter is the config's, else uv's, else the virtual environment's, else python3", () => {
  const python = (worker: Record<string, unknown>, host: Parameters<typeof hostWith>[0]) =>
    workerCommand(
      planWith({ metadata: { worker: { module: "m", ...worker } } }),
      contextWith({ host: hostWith(host) }),
    )
      .python;
  const uv = {
    files: ["/project/uv.lock", "/venv/bin/python"],
    programs: ["uv"],
    env: { VIRTUAL_ENV: "/venv" },
  };
  assert.deepEqual(python({ python: "/opt/py" }, uv), ["/opt/py"]);
  assert.deepEqual(python({}, uv), ["/usr/bin/uv", "run", "--project", "/project", "python"]);
  assert.deepEqual(python({}, { ...uv, programs: [] }), ["/venv/bin/python"]);
  assert.deepEqual(python({ cwd: "/elsewhere" }, uv), ["/venv/bin/python"]);
  assert.deepEqual(python({}, { env: { VIRTUAL_ENV: "/gone" } }), ["python3"]);
  assert.deepEqual(python({}, {}), ["python3"]);
});

Deno.test("command: the working directory is the config's, else the daemon's", () => {
  assert.equal(workerCommand(planWith({}), contextWith()).cwd, "/project");
  assert.equal(
    workerCommand(planWith({ metadata: { worker: { cwd: "/w" } } }), contextWith()).cwd,
    "/w",
  );
});

Deno.test("environment: what mosaic says is always there, and the config cannot change it", () => {
  const environment = { RUN_ID: "forged", MOSAIC_ATTEMPT: "9", OWN: "1" };
  const { env } = workerCommand(
    planWith({ environment }),
    contextWith({
      attempt: 2,
      resumeFrom: "/ckpt/7.pt",
      gpuSlots: [1, 3],
      workerConfigPath: "/c.json",
    }),
  );
  const directory = `/srv/mosaic/trainer/runs/${RUN_ID}`;
  assert.deepEqual(env, {
    PATH: "/usr/bin",
    PYTHONUNBUFFERED: "1",
    OWN: "1",
    RUN_ID,
    WORKER_ID: "worker",
    MOSAIC_RUN_ID: RUN_ID,
    MOSAIC_RUN_DIR: directory,
    MOSAIC_CHECKPOINT_DIR: `${directory}/checkpoints`,
    MOSAIC_ATTEMPT: "2",
    MOSAIC_RESUME_FROM: "/ckpt/7.pt",
    CUDA_VISIBLE_DEVICES: "1,3",
    MOSAIC_GPU_SLOTS: "1,3",
    TRAINER_WORKER_CONFIG_PATH: "/c.json",
  });
});

Deno.test("environment: Python's output is not buffered, unless the daemon's environment or the config says otherwise", () => {
  const of = (environment: Record<string, string>, env: Record<string, string>) =>
    workerCommand(planWith({ environment }), contextWith({ host: hostWith({ env }) })).env
      .PYTHONUNBUFFERED;
  assert.equal(of({}, {}), "1");
  assert.equal(of({}, { PYTHONUNBUFFERED: "" }), "");
  assert.equal(of({ PYTHONUNBUFFERED: "" }, {}), "");
});

Deno.test("environment: of the daemon's only the allow-list and what MOSAIC_WORKER_ENV names is passed on", () => {
  const host = hostWith({
    env: {
      HOME: "/home/u",
      LC_TIME: "C",
      CONDA_PREFIX: "/conda",
      OMP_NUM_THREADS: "2",
      https_proxy: "http://proxy:3128",
      CUDA_HOME: "/cuda",
      CUDA_VISIBLE_DEVICES: "7",
      AWS_SECRET_ACCESS_KEY: "secret",
      MOSAIC_TOKEN: "secret",
      WANDB_API_KEY: "named",
      EXACT: "named",
      EXACTLY: "not named",
      MOSAIC_WORKER_ENV: "WANDB_*, EXACT",
    },
  });
  const { env } = workerCommand(planWith({}), contextWith({ host }));
  const passed = Object.keys(env).filter((name) => name in host.env).sort();
  assert.deepEqual(passed, [
    ...[
      "CONDA_PREFIX",
      "CUDA_HOME",
      "CUDA_VISIBLE_DEVICES",
      "EXACT",
      "HOME",
      "LC_TIME",
      "OMP_NUM_THREADS",
      "PATH",
    ],
    ...["WANDB_API_KEY", "https_proxy"],
  ]);
  assert.equal(env.CUDA_VISIBLE_DEVICES, "");
});

Deno.test("environment: the directory that the runtime puts into PATH is taken out", () => {
  assert.equal(cleanPath("/home/u/.cache/deno/node_compat_bin:/usr/bin:/bin"), "/usr/bin:/bin");
  assert.equal(cleanPath("/usr/bin"), "/usr/bin");
});

Deno.test("environment: what the portable executable sets for its runtime is taken out, what was there before put back", () => {
  const stub = { MOSAIC_EXECUTABLE: "/m", DENO_DIR: "/cache/of/mosaic", MOSAIC_PLANNED: "-A" };
  assert.deepEqual(
    hostEnvironment({
      A: "1",
      ...stub,
      MOSAIC_OUTER_DENO_DIR: "",
      DENO_NO_UPDATE_CHECK: "mosaic",
      MALLOC_ARENA_MAX: "02",
    }),
    {
      A: "1",
    },
  );
  assert.deepEqual(
    hostEnvironment({
      ...stub,
      MOSAIC_OUTER_DENO_DIR: "/mine",
      DENO_NO_UPDATE_CHECK: "1",
      MALLOC_ARENA_MAX: "2",
    }),
    {
      DENO_DIR: "/mine",
      DENO_NO_UPDATE_CHECK: "1",
      MALLOC_ARENA_MAX: "2",
    },
  );
  const source = { DENO_DIR: "/mine", MOSAIC_STATE_DIR: "/s" };
  assert.deepEqual(hostEnvironment(source), source);
});

Deno.test("environment: frame viewers find the run by the variables of the original", () => {
  const env = (environment: Record<string, string>, metadata: Record<string, unknown> = {}) =>
    workerCommand(planWith({ environment, metadata }), contextWith()).env;
  assert.equal(env({ RAY_FASTLANE_ENABLED: "1" }).RAY_FASTLANE_RUN_ID, RUN_ID);
  assert.equal(env({ MOSAIC_FASTLANE_ENABLED: "1" }).XUANCE_RUN_ID, RUN_ID);
  assert.equal(env({}).XUANCE_RUN_ID, undefined);
  const viewed = env({}, { ui: { fastlane_only: true, fastlane_slot: 2 } });
  assert.deepEqual([
    viewed.GYM_GUI_FASTLANE_ONLY,
    viewed.GYM_GUI_FASTLANE_SLOT,
    viewed.XUANCE_RUN_ID,
  ], [
    "1",
    "2",
    RUN_ID,
  ]);
});

Deno.test("environment: a worker's spans join the run's trace where the daemon exports traces", () => {
  const traceparent = (env: Record<string, string>) =>
    workerCommand(planWith({}), contextWith({ host: hostWith({ env }) })).env.TRACEPARENT;
  assert.equal(traceparent({}), undefined);
  assert.match(
    traceparent({ OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" })!,
    /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/,
  );
});

Deno.test("sandbox: without bubblewrap on the host the run is refused with what to do", () => {
  const plan = planWith({ metadata: { sandbox: "bubblewrap" } });
  assert.throws(
    () => workerCommand(plan, contextWith()),
    (error: Error & { code?: string; hint?: string }) => {
      assert.match(error.hint!, /Install the package bubblewrap/);
      return error.code === "failed_precondition";
    },
  );
});

Deno.test("sandbox: the network is cut unless the config asks for it, and GPUs are there only for a run that has some", () => {
  const argv = (sandbox: unknown, gpuSlots: number[]) => {
    const plan = planWith({ entry_point: "train", metadata: { sandbox } });
    return workerCommand(plan, contextWith({ host: hostWith({ programs: ["bwrap"] }), gpuSlots }))
      .sandbox;
  };
  const closed = argv("bubblewrap", []);
  assert.equal(closed[0], "/usr/bin/bwrap");
  assert.equal(closed.at(-1), "--");
  assert.ok(closed.includes("--unshare-net"));
  assert.ok(!closed.includes("/dev/nvidia0"));
  const open = argv({ kind: "bubblewrap", network: true, writable: ["/srv/cache"] }, [0]);
  assert.ok(!open.includes("--unshare-net"));
  assert.ok(open.includes("/dev/nvidia0"));
  assert.ok(open.includes("/srv/cache"));
});

Deno.test("environment: the Python helper is the last on Python's path, where it is installed", () => {
  const files = ["/srv/mosaic/trainer/python-helper/mosaic.py"];
  const of = (environment: Record<string, string>, env: Record<string, string>, there = files) =>
    workerCommand(planWith({ environment }), contextWith({ host: hostWith({ env, files: there }) }))
      .env.PYTHONPATH;
  assert.equal(of({}, {}), "/srv/mosaic/trainer/python-helper");
  assert.equal(of({}, { PYTHONPATH: "/a" }), "/a:/srv/mosaic/trainer/python-helper");
  assert.equal(
    of({ PYTHONPATH: "/b" }, { PYTHONPATH: "/a" }),
    "/b:/srv/mosaic/trainer/python-helper",
  );
  assert.equal(of({}, {}, []), undefined);
});

Deno.test("environment: MLflow's clients find the daemon where a worker can reach it, unless the config names a server", () => {
  const of = (parts: Parameters<typeof planWith>[0], trackingAddress = "127.0.0.1:8055") =>
    workerCommand(
      planWith(parts),
      contextWith({ trackingAddress, host: hostWith({ programs: ["bwrap"] }) }),
    ).env
      .MLFLOW_TRACKING_URI;
  assert.equal(of({}), `http://127.0.0.1:8055/mlflow/${RUN_ID}`);
  assert.equal(of({ environment: { MLFLOW_TRACKING_URI: "file:./mlruns" } }), "file:./mlruns");
  assert.equal(of({}, ""), undefined);
  assert.equal(of({ metadata: { sandbox: { kind: "bubblewrap" } } }), undefined);
});
