/** What ran, from the command line to the store and back, with real repositories and real runs. */
import { strict as assert } from "node:assert";
import { testWithDaemon } from "../harness/shared_daemon.ts";
import { submit, untilState } from "../harness/runs.ts";
import { configOf } from "../harness/configs.ts";
import { until } from "../harness/wait.ts";
import { LEARNER, repository } from "./repository.ts";
import { json, mosaic } from "./verbs.ts";

function learner() {
  const repo = repository();
  repo.write("learn.sh", LEARNER);
  repo.write("target.sh", "OPTIMUM=3.0\n");
  Deno.chmodSync(`${repo.directory}/learn.sh`, 0o755);
  repo.git("add", ".");
  repo.git("commit", "-qm", "first");
  return repo;
}

testWithDaemon("reproduction", { gpus: "1" }, [
  ["code is recorded at the submission and at the start; two runs are compared", async (daemon) => {
    await using repo = learner();
    repo.write("target.sh", "OPTIMUM=2.0\n");
    const command = ["./learn.sh", "--lr", "0.1", "--seed"];
    const start = async (seed: string, ...options: string[]) =>
      (await mosaic(daemon, ["run", "--cwd", repo.directory, ...options, "--", ...command, seed])).out.trim();
    const first = await start("1");
    await untilState(daemon, first, "TERMINATED");
    repo.write("target.sh", "OPTIMUM=2.5\n");
    const second = await start("2", "--name", "second");
    await untilState(daemon, second, "TERMINATED");

    const shown = await json(daemon, ["show", first, "--code"]);
    const [submitted] = shown.records;
    assert.deepEqual(shown.command, [`${repo.directory}/learn.sh`, "--lr", "0.1", "--seed", "1"]);
    assert.equal(submitted.attempt, 0);
    assert.equal(submitted.code.git.commit, repo.git("rev-parse", "HEAD"));
    assert.deepEqual(submitted.code.git.files.map(({ path }: { path: string }) => path), ["target.sh"]);
    assert.match(
      (await mosaic(daemon, ["show", first, "--code"])).out,
      /commit +[0-9a-f]{40}\n[^]*modified +target\.sh\n/,
    );
    assert.match((await mosaic(daemon, ["show", first, "--diff"])).out, /^-OPTIMUM=3\.0\n\+OPTIMUM=2\.0$/m);

    const { code, parameters, packages, patch } = await json(daemon, ["diff", first, "second", "--patch"]);
    assert.deepEqual(parameters, [{ name: "seed", a: "1", b: "2" }]);
    assert.deepEqual(code.map(({ name }: { name: string }) => name), ["target.sh"]);
    assert.deepEqual(packages, []);
    assert.deepEqual(patch, ["target.sh", "< +OPTIMUM=2.0", "> +OPTIMUM=2.5"]);
    const text = (await mosaic(daemon, ["diff", first, second])).out;
    assert.deepEqual(text.match(/^(?:Command|Parameters|Code)$/gm), ["Command", "Parameters", "Code"]);
  }],

  ["files that change while a run waits are named when it starts", async (daemon) => {
    await using repo = learner();
    const holder = await submit(
      daemon,
      configOf({ name: "holder", command: ["/bin/sleep", "600"], gpus: { requested: 1, mandatory: true } }),
    );
    await untilState(daemon, holder, "READY");
    const script = "./learn.sh --lr 0.1 --seed 1; sleep 600";
    const { out } = await mosaic(daemon, [
      "run",
      "--gpus",
      "1",
      "--cwd",
      repo.directory,
      "--",
      "/bin/sh",
      "-c",
      script,
    ]);
    const run = out.trim();
    assert.equal((await json(daemon, ["show", run])).code_changed, null);
    repo.write("target.sh", "OPTIMUM=9.0\n");
    repo.write("results.csv", "an output of another run\n");
    await mosaic(daemon, ["cancel", holder]);
    await until(async () => (await json(daemon, ["show", run])).code_changed === "target.sh", {
      what: "the changed file",
    });
    assert.match((await mosaic(daemon, ["list"])).out, /target\.sh changed since submission/);
    const events = await json(daemon, ["events", run, "--kind", "code_changed"]);
    assert.deepEqual(events.map(({ data }: { data: unknown }) => data), [{ files: ["target.sh"] }]);
    const attempts = (await json(daemon, ["show", run, "--code"])).records;
    assert.deepEqual(attempts.map(({ attempt }: { attempt: number }) => attempt), [0, 1]);
    await mosaic(daemon, ["cancel", run]);
    await untilState(daemon, run, "CANCELLED");
    await mosaic(daemon, ["delete", run]);
  }],

  ["with --code off nothing is recorded", async (daemon) => {
    await using repo = learner();
    const options = ["run", "--code", "off", "--cwd", repo.directory];
    const { out } = await mosaic(daemon, [...options, "--", "./learn.sh", "--lr", "0.1", "--seed", "1"]);
    await untilState(daemon, out.trim(), "TERMINATED");
    assert.deepEqual((await json(daemon, ["show", out.trim(), "--code"])).records, []);
    assert.match((await mosaic(daemon, ["show", out.trim(), "--code"])).out, /^Nothing is recorded/);
  }],
]);
