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
      (await mosaic(daemon, ["run", "--cwd", repo.directory, ...options, "--", ...command, seed]))
        .out.trim();
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
    assert.deepEqual(submitted.code.git.files.map(({ path }: { path: string }) => path), [
      "target.sh",
    ]);
    assert.match(
      (await mosaic(daemon, ["show", first, "--code"])).out,
      /commit +[0-9a-f]{40}\n[^]*modified +target\.sh\n/,
    );
    assert.match(
      (await mosaic(daemon, ["show", first, "--diff"])).out,
      /^-OPTIMUM=3\.0\n\+OPTIMUM=2\.0$/m,
    );

    const { code, parameters, packages, patch } = await json(daemon, [
      "diff",
      first,
      "second",
      "--patch",
    ]);
    assert.deepEqual(parameters, [{ name: "seed", a: "1", b: "2" }]);
    assert.deepEqual(code.map(({ name }: { name: string }) => name), ["target.sh"]);
    assert.deepEqual(packages, []);
    assert.deepEqual(patch, ["target.sh", "< +OPTIMUM=2.0", "> +OPTIMUM=2.5"]);
    const directory = Deno.makeTempDirSync();
    await mosaic(daemon, ["export", first, "--format", "jsonl", "--out", directory]);
    assert.equal(
      JSON.parse(Deno.readTextFileSync(`${directory}/code.json`))[0].code.git.branch,
      "main",
    );
    assert.match(Deno.readTextFileSync(`${directory}/code.patch`), /^\+OPTIMUM=2\.0$/m);
    await mosaic(daemon, ["report", first, second, "--out", `${directory}/report.html`]);
    const page = Deno.readTextFileSync(`${directory}/report.html`);
    assert.ok(
      page.includes("Code and environment") && page.includes(repo.git("rev-parse", "HEAD")),
    );
    Deno.removeSync(directory, { recursive: true });
    const text = (await mosaic(daemon, ["diff", first, second])).out;
    assert.deepEqual(text.match(/^(?:Command|Parameters|Code)$/gm), [
      "Command",
      "Parameters",
      "Code",
    ]);
  }],

  ["files that change while a run waits are named when it starts", async (daemon) => {
    await using repo = learner();
    const holder = await submit(
      daemon,
      configOf({
        name: "holder",
        command: ["/bin/sleep", "600"],
        gpus: { requested: 1, mandatory: true },
      }),
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
    await mosaic(daemon, ["delete", "--forever", run]);
  }],

  [
    "rerun --at-commit gives the same curve to the bit after the code was edited; rerun gives another",
    async (daemon) => {
      await using repo = learner();
      repo.write("target.sh", "OPTIMUM=2.0\n");
      repo.write("extra.sh", "# untracked\n");
      const words = ["./learn.sh", "--lr", "0.3", "--seed", "11"];
      const { out } = await mosaic(daemon, [
        "run",
        "--cwd",
        repo.directory,
        "--name",
        "original",
        "--",
        ...words,
      ]);
      const original = out.trim();
      await untilState(daemon, original, "TERMINATED");
      repo.git("add", ".");
      repo.write("learn.sh", LEARNER.replace("(rand() - 0.5)", "(rand() - 0.4)"));
      repo.git("commit", "-qam", "another learner");
      repo.write("target.sh", "OPTIMUM=7.0\n");

      const logs = async (run: string) => (await mosaic(daemon, ["logs", run])).out;
      const curve = await logs(original);
      const again = await mosaic(daemon, ["rerun", original, "--at-commit"]);
      const repeated = again.out.trim();
      const shown = await untilState(daemon, repeated, "TERMINATED");
      assert.equal(await logs(repeated), curve);
      const points = async (run: string) =>
        (await json(daemon, ["metrics", run, "--points", "w"])).map((
          { value }: { value: number },
        ) => value);
      assert.equal((await points(original)).length, 12);
      assert.deepEqual(await points(repeated), await points(original));
      assert.equal(Deno.readTextFileSync(`${shown.directory}/code/extra.sh`), "# untracked\n");
      const { code, command } = await json(daemon, ["diff", original, repeated]);
      assert.deepEqual([code, command.length], [[], 1], "only the path of the program differs");
      // A run that was itself repeated.
      const twice = (await mosaic(daemon, [
        "rerun",
        repeated,
        "--at-commit",
        "--seed",
        "12",
        "--set",
        "lr=0.3",
      ])).out
        .trim();
      await untilState(daemon, twice, "TERMINATED");
      assert.notEqual(await logs(twice), curve);
      await mosaic(daemon, ["delete", "--forever", repeated]);
      assert.throws(() => Deno.statSync(`${shown.directory}/code`), Deno.errors.NotFound);
      const thrice = (await mosaic(daemon, ["rerun", twice, "--at-commit", "--seed", "11"])).out
        .trim();
      await untilState(daemon, thrice, "TERMINATED");
      assert.equal(await logs(thrice), curve);

      const now = await mosaic(daemon, ["rerun", original]);
      assert.match(
        now.err,
        /the code is not the one that ran \(commit [0-9a-f]{9}\.\.[0-9a-f]{9}.*\); --at-commit/,
      );
      await untilState(daemon, now.out.trim(), "TERMINATED");
      assert.notEqual(await logs(now.out.trim()), curve);
      // What a rerun cannot do, it says.
      const unknown = await mosaic(daemon, ["rerun", original, "--set", "le=1"], [2]);
      assert.match(unknown.err, /no parameter "le".*Did you mean lr\?/);
      await using other = repository();
      other.write("a", "");
      other.git("add", ".");
      other.git("commit", "-qm", "other");
      const elsewhere = await mosaic(daemon, [
        "rerun",
        original,
        "--at-commit",
        "--repository",
        other.directory,
      ], [6]);
      assert.match(elsewhere.err, /commit [0-9a-f]{40} is not in the repository/);
      const left = [...Deno.readDirSync(daemon.layout.baseDir("custom_scripts"))].map(({ name }) =>
        name
      );
      const runs = (await json(daemon, ["list"])).map(({ run_id }: { run_id: string }) => run_id);
      assert.deepEqual(
        left.filter((name) => !runs.includes(name)),
        [],
        "a refused run leaves no copy",
      );
    },
  ],

  [
    "secrets: a rerun has them from the working tree, or says that they are masked",
    async (daemon) => {
      await using repo = learner();
      const secret =
        'OPTIMUM=2.0\nAPI_KEY="0123456789abcdef"; test $API_KEY = 0123456789abcdef || exit 9\n';
      repo.write("target.sh", secret);
      const { out } = await mosaic(daemon, [
        "run",
        "--cwd",
        repo.directory,
        "--",
        "./learn.sh",
        "--lr",
        "0.3",
        "--seed",
        "1",
      ]);
      await untilState(daemon, out.trim(), "TERMINATED");
      const again = (await mosaic(daemon, ["rerun", out.trim(), "--at-commit"])).out.trim();
      await untilState(daemon, again, "TERMINATED");
      repo.write("target.sh", "OPTIMUM=1.0\n");
      const refused = await mosaic(daemon, ["rerun", out.trim(), "--at-commit"], [6]);
      assert.match(
        refused.err,
        /not all of the code that ran can be had again: secrets were masked in target\.sh/,
      );
      const partly = (await mosaic(daemon, ["rerun", out.trim(), "--at-commit", "--incomplete"]))
        .out.trim();
      await untilState(daemon, partly, "FAULTED");
    },
  ],

  [
    "--snapshot: edits while the run waits do not matter; data outside of the repository's files stays where it is",
    async (daemon) => {
      await using repo = learner();
      repo.write(".gitignore", "data/\n");
      repo.write("data/numbers.txt", "1\n");
      repo.write("module.sh", "STEP=new\n");
      repo.git("add", ".gitignore");
      repo.git("commit", "-qm", "ignore");
      const holder = await submit(
        daemon,
        configOf({
          name: "holder",
          command: ["/bin/sleep", "600"],
          gpus: { requested: 1, mandatory: true },
        }),
      );
      await untilState(daemon, holder, "READY");
      const script =
        `. ./module.sh; echo "{\\"type\\":\\"note\\",\\"step\\":\\"$STEP\\"}"; cat ./learn.sh | cksum; cat "$1"; pwd`;
      const { out, err } = await mosaic(daemon, [
        ...["run", "--snapshot", "--gpus", "1", "--cwd", repo.directory, "--"],
        ...[
          "/bin/sh",
          "-c",
          script,
          `${repo.directory}/learn.sh`,
          `${repo.directory}/data/numbers.txt`,
        ],
      ]);
      const run = out.trim();
      const before = LEARNER;
      repo.write("module.sh", "STEP=edited\n");
      repo.write("learn.sh", "edited\n");
      await mosaic(daemon, ["cancel", holder]);
      const { directory } = await untilState(daemon, run, "TERMINATED");
      const lines = (await mosaic(daemon, ["logs", run])).out.trim().split("\n");
      assert.match(lines[0]!, /"step":"new"/);
      assert.equal(Deno.readTextFileSync(`${directory}/code/learn.sh`), before);
      assert.deepEqual(lines.slice(2), ["1", `${directory}/code`]);
      assert.equal(err, "");
      const detail = await json(daemon, ["show", run]);
      assert.equal(detail.code_changed, null);
      assert.equal(detail.config.metadata.worker.arguments[2], `${directory}/code/learn.sh`);
      assert.equal(
        (await json(daemon, ["show", run, "--code"])).records[0].code.git.root,
        repo.directory,
      );
      await mosaic(daemon, ["delete", "--forever", run]);
      assert.throws(() => Deno.statSync(directory), Deno.errors.NotFound);

      // A config is submitted in the same way.
      const config = `${daemon.stateDir}/snapshot.json`;
      const dry = [
        "run",
        "--dry-run",
        "--cwd",
        repo.directory,
        "--",
        "/bin/sh",
        "-c",
        "cat module.sh; pwd",
      ];
      Deno.writeTextFileSync(config, (await mosaic(daemon, dry)).out);
      const given = (await mosaic(daemon, ["submit", "--snapshot", config])).out.trim();
      const ended = await untilState(daemon, given, "TERMINATED");
      assert.equal(
        (await mosaic(daemon, ["logs", given])).out,
        `STEP=edited\n${ended.directory}/code\n`,
      );
      const bare = `${daemon.stateDir}/bare.json`;
      Deno.writeTextFileSync(bare, configOf({ name: "bare", command: ["/bin/true"] }));
      assert.match(
        (await mosaic(daemon, ["submit", "--snapshot", bare], [2])).err,
        /no metadata\.worker\.cwd/,
      );
      const outside = await mosaic(daemon, ["run", "--snapshot", "--cwd", "/", "--", "/bin/true"], [
        6,
      ]);
      assert.match(outside.err, /there is no git repository at \//);
    },
  ],

  ["with --code off nothing is recorded", async (daemon) => {
    await using repo = learner();
    const options = ["run", "--code", "off", "--cwd", repo.directory];
    const { out } = await mosaic(daemon, [
      ...options,
      "--",
      "./learn.sh",
      "--lr",
      "0.1",
      "--seed",
      "1",
    ]);
    await untilState(daemon, out.trim(), "TERMINATED");
    assert.deepEqual((await json(daemon, ["show", out.trim(), "--code"])).records, []);
    assert.match(
      (await mosaic(daemon, ["show", out.trim(), "--code"])).out,
      /^Nothing is recorded/,
    );
  }],
]);
