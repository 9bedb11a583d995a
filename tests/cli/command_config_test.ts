import { strict as assert } from "node:assert";
import { inheritedFrom } from "../../src/cli/verb/caller_environment.ts";
import {
  commandConfig,
  environmentOf,
  nameOf,
  resolveProgram,
} from "../../src/cli/verb/command_config.ts";
import { violationsOf } from "../../src/config/config.ts";
import { LONGEST_RUN_NAME } from "../../src/base/run_name.ts";

Deno.test("run: the name comes from what is run", () => {
  for (
    const [words, name] of [
      [["python", "-u", "train.py", "--lr", "1"], "train"],
      [["/usr/bin/python3.11", "-m", "pkg.train"], "pkg"],
      [["./bin/train.sh"], "train.sh"],
      [["/bin/bash", "-lc", "python train.py"], "bash"],
      [["python", "-c", "print(1)"], "python"],
      [["bash", "-e", "train.sh"], "train"],
      [["node", "-e", "1"], "node"],
      [["python"], "python"],
      [["/usr/bin/env", "-i", "LR=1", "python3", "train.py"], "train"],
      [["env"], "env"],
      [["mosaic", "demo-worker"], "demo-worker"],
      [["/"], "/"],
    ] as const
  ) assert.equal(nameOf(words), name);
  assert.equal(nameOf([`/bin/${"é".repeat(300)}`]), "é".repeat(LONGEST_RUN_NAME));
});

Deno.test("run: a program is found as the caller's shell would find it", () => {
  const there = (path: string) => path === "/b/python" || path === "/c/python";
  assert.equal(resolveProgram("python", "/work", "/a:relative:/b:/c", there), "/b/python");
  assert.equal(resolveProgram("nope", "/work", "/a:/b", there), "nope");
  assert.equal(resolveProgram("./x/y", "/work", "/b", there), "/work/x/y");
  assert.equal(resolveProgram("/abs", "/work", "/b", there), "/abs");
});

Deno.test("run: variables are given or passed on", () => {
  const env = (name: string) => name === "HOME" ? "/me" : undefined;
  assert.deepEqual(environmentOf(["A=1", "B=x=y", "HOME", "E="], env), {
    A: "1",
    B: "x=y",
    HOME: "/me",
    E: "",
  });
  assert.throws(() => environmentOf(["NOPE"], env), /--env NOPE: it is not set here/);
  assert.throws(() => environmentOf(["=x"], env), /--env =x/);
});

Deno.test("run: every option makes a config that is valid, and each call's config is another", () => {
  const options = {
    name: "n",
    gpus: 2,
    env: () => undefined,
    tag: ["a"],
    priority: -3,
    cwd: "/work",
    maxSteps: 10,
    maxDuration: 90_500,
    stallTimeout: 1500,
    attempts: 3,
    backoff: 0.5,
    supportsPause: true,
    workerId: "w",
    nonce: "1",
  };
  const full = commandConfig(["/bin/echo", "-n", ""], options, ["A=1"]);
  assert.deepEqual(violationsOf(JSON.stringify(full)), []);
  assert.deepEqual(full["schedule"], {
    max_steps: 10,
    max_duration_seconds: 91,
    stall_timeout_seconds: 1.5,
  });
  const least = (nonce: string) => commandConfig(["x"], { env: () => undefined, cwd: "/", nonce });
  assert.deepEqual(violationsOf(JSON.stringify(least("1"))), []);
  assert.notDeepEqual(least("1"), least("2"));
});

Deno.test("run: a variable is passed on as a shell does, unless it is a secret, of the session, or of every program", () => {
  const table: [name: string, value: string, becomes: "passed" | "named" | "silent"][] = [
    ["WANDB_MODE", "offline", "passed"],
    ["WANDB_DIR", "/scratch/wandb", "passed"],
    ["HF_TOKEN_PATH", "/scratch/hf/token", "passed"],
    // A key in base64 that looks like a path.
    ["S3_SECRET_KEY", "/K7MDENG/bPxRfiCYwJalrXUtnFEMIexampleKEY", "named"],
    ["HF_HOME", "/scratch/hf", "passed"],
    ["JAX_PLATFORMS", "cpu", "passed"],
    ["NCCL_DEBUG", "INFO", "passed"],
    ["MASTER_ADDR", "10.0.0.1", "passed"],
    ["XDG_CACHE_HOME", "/scratch/cache", "passed"],
    ["LD_LIBRARY_PATH", "/opt/lib", "passed"],
    ["TOKENIZERS_PARALLELISM", "false", "passed"],
    ["DATASET_URL", "s3://bucket/set", "passed"],
    ["GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json", "passed"],
    ["MAX_TOKEN", "512", "passed"],
    ["MY_FLAG", "", "passed"],
    ["WANDB_API_KEY", "0123456789abcdef", "named"],
    ["HF_TOKEN", "hf_x", "named"],
    ["AWS_SECRET_ACCESS_KEY", "abc", "named"],
    ["DB_PASSWORD", "12345678", "named"],
    ["DATABASE", "postgres://me:pass@host/db", "named"],
    ["SENTRY_DSN", "https://0123456789abcdef0123@o1.ingest.sentry.io/1", "named"],
    ["MY_PAT_OR_SO", "ghp_0123456789abcdef0123", "named"],
    ["LD_PRELOAD", "/x.so", "named"],
    ["LD_AUDIT", "/x.so", "named"],
    ["BASH_ENV", "/x.sh", "named"],
    ["BASH_FUNC_ls%%", "() { :; }", "named"],
    ["MLFLOW_TRACKING_URI", "http://other", "named"],
    ["HUGE", "x".repeat(20_000), "named"],
    ["http_proxy", "http://me:pass@proxy:3128", "silent"],
    ["SLURM_JOB_ID", "7", "silent"],
    ["TERM", "xterm", "silent"],
    ["SSH_AUTH_SOCK", "/tmp/ssh", "silent"],
    ["MOSAIC_TOKEN", "t", "silent"],
    ["CUDA_VISIBLE_DEVICES", "3", "silent"],
  ];
  const { inherited, leftOut } = inheritedFrom(Object.fromEntries(table), false);
  const found = table.map(([name, value]) => {
    const becomes = name in inherited ? "passed" : leftOut.includes(name) ? "named" : "silent";
    return [name, value, becomes];
  });
  assert.deepEqual(found, table);
  const worker = {
    MOSAIC_RUN_ID: "r",
    RUN_ID: "r",
    WORKER_ID: "w",
    MLFLOW_TRACKING_URI: "u",
    SEED: "1",
  };
  assert.deepEqual(inheritedFrom(worker, false), { inherited: { SEED: "1" }, leftOut: [] });
});

Deno.test("run: keeps the variables by which programs and libraries are found, tells what it leaves out, and asks for no limits", () => {
  const env = {
    PATH: "/venv/bin:/bin",
    PYTHONPATH: "/p",
    OMP_NUM_THREADS: "2",
    WANDB_API_KEY: "w",
    TERM: "xterm",
  };
  const more = {
    HOME: "/me",
    MOSAIC_STATE_DIR: "/s",
    CUDA_VISIBLE_DEVICES: "3",
    SSH_TTY: "t",
    PWD: "/here",
  };
  const { inherited, leftOut } = inheritedFrom({ ...env, ...more }, false);
  assert.deepEqual(inherited, { OMP_NUM_THREADS: "2", PATH: "/venv/bin:/bin", PYTHONPATH: "/p" });
  assert.deepEqual(leftOut, ["WANDB_API_KEY"]);
  assert.deepEqual(inheritedFrom({ ...env, ...more }, true), {
    inherited: { ...env, HOME: "/me", SSH_TTY: "t" },
    leftOut: [],
  });
  const config = commandConfig(["x"], {
    env: () => "1",
    cwd: "/",
    nonce: "1",
    inherited,
    umask: "022",
  }, ["PATH=/o"]);
  assert.deepEqual(violationsOf(JSON.stringify(config)), []);
  assert.deepEqual(config.environment, { ...inherited, PATH: "/o" });
  assert.equal((config.metadata as { umask: string }).umask, "022");
  assert.deepEqual(config.resources, { gpus: { requested: 0, mandatory: false } });
});
