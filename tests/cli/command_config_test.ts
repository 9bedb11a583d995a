import { strict as assert } from "node:assert";
import {
  commandConfig,
  environmentOf,
  inheritedFrom,
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
  assert.deepEqual(environmentOf(["A=1", "B=x=y", "HOME", "E="], env), { A: "1", B: "x=y", HOME: "/me", E: "" });
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
  assert.deepEqual(full["schedule"], { max_steps: 10, max_duration_seconds: 91, stall_timeout_seconds: 1.5 });
  const least = (nonce: string) => commandConfig(["x"], { env: () => undefined, cwd: "/", nonce });
  assert.deepEqual(violationsOf(JSON.stringify(least("1"))), []);
  assert.notDeepEqual(least("1"), least("2"));
});

Deno.test("run: keeps the variables by which programs and libraries are found, tells what it leaves out, and asks for no limits", () => {
  const env = { PATH: "/venv/bin:/bin", PYTHONPATH: "/p", OMP_NUM_THREADS: "2", WANDB_PROJECT: "w", TERM: "xterm" };
  const more = { HOME: "/me", MOSAIC_STATE_DIR: "/s", CUDA_VISIBLE_DEVICES: "3", SSH_TTY: "t", PWD: "/here" };
  const { inherited, leftOut } = inheritedFrom({ ...env, ...more }, false);
  assert.deepEqual(inherited, { OMP_NUM_THREADS: "2", PATH: "/venv/bin:/bin", PYTHONPATH: "/p" });
  assert.deepEqual(leftOut, ["WANDB_PROJECT"]);
  assert.deepEqual(inheritedFrom({ ...env, ...more }, true), {
    inherited: { ...env, HOME: "/me", SSH_TTY: "t" },
    leftOut: [],
  });
  const config = commandConfig(["x"], { env: () => "1", cwd: "/", nonce: "1", inherited, umask: "022" }, ["PATH=/o"]);
  assert.deepEqual(violationsOf(JSON.stringify(config)), []);
  assert.deepEqual(config.environment, { ...inherited, PATH: "/o" });
  assert.equal((config.metadata as { umask: string }).umask, "022");
  assert.deepEqual(config.resources, { gpus: { requested: 0, mandatory: false } });
});
