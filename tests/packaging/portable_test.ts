/**
 * The portable executable: it unpacks itself once, safely, wherever it is dropped, and is then all
 * that mosaic is.
 */
import assert from "node:assert/strict";
import { buildMosaic, type Ended, start } from "../harness/built.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { RunFiles } from "../../src/base/layout.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { configOf, countingWorker } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { killProcessesOf, processesOf } from "../harness/processes.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { NAMESPACE, sign } from "../../scripts/compile/sign.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

const directory = Deno.makeTempDirSync();
const built = `${directory}/built/mosaic`;
/** Unpacked once, used by everything that is not about unpacking. */
const shared = `${directory}/shared-cache`;

function freshDir(name: string): string {
  const path = `${directory}/${name}`;
  Deno.mkdirSync(path, { recursive: true });
  return path;
}

function namesIn(path: string): string[] {
  return [...Deno.readDirSync(path)].map((e) => e.name).sort();
}

/** As the stub does it when a copy is unpacked: what it holds now is right. */
function recordContents(copy: string): void {
  const states = "stat -c '%u %g %f %s %Z' app deno app/*.js";
  const args = [
    "-c",
    `cd "$0" && { head -n 1 contents && ${states}; } >new && mv new contents`,
    copy,
  ];
  assert.ok(new Deno.Command("/bin/sh", { args }).outputSync().success);
}

const mosaic = (...args: string[]): Promise<Ended> =>
  start(built, args, { MOSAIC_CACHE_DIR: shared, HOME: directory, TMPDIR: directory });

Deno.test("portable executable", async (t) => {
  freshDir("built");
  await buildMosaic(built);
  try {
    await t.step("four first starts at once all answer, and one copy is left", async () => {
      const all = await Promise.all(Array.from({ length: 4 }, () => mosaic("--version")));
      for (const one of all) {
        assert.equal(one.code, 0, one.stderr);
        assert.match(one.stdout, /^mosaic \d+\.\d+\.\d+ \(([0-9a-f]{12}(-dirty)?|unknown), deno /);
      }
      assert.equal(namesIn(shared).length, 1);
      assert.ok(!namesIn(directory).includes(".cache"), "and none where the next choice would be");
    });

    await t.step(
      "HOME is used when nothing else is named, and a name with spaces is fine",
      async () => {
        const home = freshDir("a home");
        const copy = `${freshDir("with space")}/my mosaic`;
        Deno.linkSync(built, copy);
        const one = await start(copy, ["--version"], { HOME: home });
        assert.equal(one.code, 0, one.stderr);
        assert.equal(namesIn(`${home}/.cache/mosaic`).length, 1);
      },
    );

    await t.step(
      "a cache that cannot be written is passed over; without HOME it unpacks below TMPDIR",
      async () => {
        const cache = `${freshDir("file-instead")}/cache`;
        Deno.writeTextFileSync(cache, "a file, not a directory");
        const tmp = freshDir("fallback");
        const one = await start(built, ["--version"], { MOSAIC_CACHE_DIR: cache, TMPDIR: tmp });
        assert.equal(one.code, 0, one.stderr);
        assert.equal(namesIn(tmp).length, 1);
      },
    );

    await t.step("an emptied or shortened copy in the cache is made anew", async () => {
      const [key] = namesIn(shared);
      Deno.truncateSync(`${shared}/${key}/deno`, 1000);
      Deno.truncateSync(`${shared}/${key}/app/main.js`, 0);
      const again = await mosaic("--version");
      assert.equal(again.code, 0, again.stderr);
      assert.match(again.stdout, /^mosaic /);
    });

    await t.step(
      "a file of the copy that was changed, its size as before, is noticed: the copy is made anew",
      async () => {
        const file = `${shared}/${namesIn(shared)[0]}/app/main.js`;
        const whole = Deno.readTextFileSync(file);
        // Times of change are compared in whole seconds, and the kernel's clock for them runs some
        // milliseconds behind.
        const secondOf = (path: string) => Math.floor(Deno.statSync(path).ctime!.getTime() / 1000);
        const probe = `${shared}/probe`;
        await until(() => {
          Deno.writeTextFileSync(probe, "");
          return secondOf(probe) > secondOf(file);
        }, { what: "another second of the kernel's" });
        Deno.removeSync(probe);
        Deno.writeTextFileSync(file, whole.replace(/[a-z]{8}/, "damaged!"));
        const again = await mosaic("--version");
        assert.equal(again.code, 0, again.stderr);
        assert.equal(Deno.readTextFileSync(file), whole);
      },
    );

    await t.step(
      "a version that is unpacked removes others of a month ago from which nothing runs",
      async () => {
        const cache = freshDir("many-versions");
        const version = (name: string, days: number) => {
          Deno.mkdirSync(`${cache}/${name}/app`, { recursive: true });
          Deno.copyFileSync("/bin/sleep", `${cache}/${name}/deno`);
          const then = new Date(Date.now() - days * 86_400_000);
          Deno.utimeSync(`${cache}/${name}`, then, then);
        };
        version("00000000000000aa", 40);
        version("00000000000000bb", 40);
        version("00000000000000cc", 2);
        Deno.mkdirSync(`${cache}/somebody-elses`);
        Deno.utimeSync(`${cache}/somebody-elses`, new Date(0), new Date(0));
        const runs = new Deno.Command(`${cache}/00000000000000bb/deno`, { args: ["60"] }).spawn();
        const one = await start(built, ["--version"], { MOSAIC_CACHE_DIR: cache });
        runs.kill("SIGKILL");
        await runs.status;
        assert.equal(one.code, 0, one.stderr);
        const left = namesIn(cache).filter((name) => name !== namesIn(shared)[0]);
        assert.deepEqual(left, ["00000000000000bb", "00000000000000cc", "somebody-elses"]);
      },
    );

    await t.step(
      "it needs the programs that docs/reference/packaging.md names, no others; what is missing is named",
      async () => {
        const row = Deno.readTextFileSync(`${ROOT}/docs/reference/packaging.md`).match(
          /^\| portable \|.*$/m,
        )![0];
        const needed = [...row.split("|")[3]!.matchAll(/`([a-z0-9/]+)`/g)].map(([, name]) =>
          name!.replace(/^.*\//, "")
        );
        assert.ok(needed.includes("mktemp"));
        const bin = freshDir("few-programs");
        const located = (name: string) =>
          new TextDecoder().decode(
            new Deno.Command("/bin/sh", { args: ["-c", 'command -v "$0"', name] }).outputSync()
              .stdout,
          );
        for (const name of needed) {
          Deno.symlinkSync(Deno.realPathSync(located(name).trim()), `${bin}/${name}`);
        }
        const run = (cache: string) =>
          start(built, ["--version"], { PATH: bin, MOSAIC_CACHE_DIR: freshDir(cache) });
        const enough = await run("few-programs-cache");
        assert.equal(enough.code, 0, enough.stderr);
        assert.equal(enough.stderr, "");
        Deno.removeSync(`${bin}/gzip`);
        Deno.removeSync(`${bin}/mktemp`);
        const lacking = await run("fewer-programs-cache");
        assert.equal(lacking.code, 4);
        assert.match(
          lacking.stderr,
          /^mosaic: unpacking needs programs that are not on the PATH: gzip mktemp \(/,
        );
      },
    );

    await t.step("a damaged executable says so and starts nothing", async () => {
      const copy = `${freshDir("damaged")}/mosaic`;
      Deno.copyFileSync(built, copy);
      Deno.truncateSync(copy, Math.floor(Deno.statSync(built).size * 0.2));
      const cache = freshDir("damaged-cache");
      const [tmp, home] = [freshDir("damaged-tmp"), freshDir("damaged-home")];
      const one = await start(copy, ["--version"], {
        MOSAIC_CACHE_DIR: cache,
        TMPDIR: tmp,
        HOME: home,
      });
      assert.equal(one.code, 4);
      assert.equal(one.stdout, "");
      assert.match(one.stderr, /damaged/);
      assert.deepEqual(namesIn(cache), []);
    });

    await t.step("exit codes and messages are the program's own", async () => {
      const wrong = await mosaic("no-such-verb");
      assert.equal(wrong.code, 2);
      assert.match(wrong.stderr, /no-such-verb/);
      const option = await mosaic("daemon", "--listen");
      assert.equal(option.code, 2);
      assert.match(option.stderr, /--listen/);
      const allow = await start(built, ["list"], {
        MOSAIC_CACHE_DIR: shared,
        HOME: directory,
        MOSAIC_ALLOW: "-A",
      });
      assert.equal(allow.code, 2);
      assert.match(allow.stderr, /MOSAIC_ALLOW/);
    });

    await t.step(
      "a command reads only the parts that it runs; a daemon has all in memory when it is ready",
      async () => {
        const cache = freshDir("parts");
        const environment = {
          MOSAIC_CACHE_DIR: cache,
          HOME: directory,
          MOSAIC_STATE_DIR: `${directory}/no-daemon`,
        };
        assert.equal((await start(built, ["--version"], environment)).code, 0);
        const copy = `${cache}/${namesIn(cache)[0]}`;
        await using daemon = await TestDaemon.start({
          stateDir: freshDir("parts-state"),
          program: [built],
          env: { MOSAIC_CACHE_DIR: cache, MOSAIC_PERMISSIONS: "" },
        });
        const others = namesIn(`${copy}/app`).filter((name) => /^(assets|doctor)-/.test(name));
        for (const name of others) Deno.removeSync(`${copy}/app/${name}`);
        const script = await fetch(`http://${daemon.http}/assets/main.js`);
        assert.match(await script.text(), /import/, daemon.output());
        // Who reads one of these waits for ever.
        const made = new Deno.Command("mkfifo", { args: others, cwd: `${copy}/app` }).outputSync();
        assert.ok(made.success);
        recordContents(copy);
        const list = await start("/usr/bin/timeout", ["60", built, "list"], environment);
        assert.equal(list.code, 3, list.stderr);
      },
    );

    await t.step(
      "only daemon and proxy are planned, and their help is not",
      async () => {
        // A first stage that cannot be started: whoever plans fails.
        const cache = freshDir("no-plan");
        const environment = { MOSAIC_CACHE_DIR: cache, HOME: directory };
        assert.equal((await start(built, ["--version"], environment)).code, 0);
        const stage = `${cache}/${namesIn(cache)[0]}/app/first_stage.js`;
        Deno.writeTextFileSync(stage, "throw 1;".padEnd(Deno.statSync(stage).size));
        recordContents(`${cache}/${namesIn(cache)[0]}`);
        for (
          const words of [["list", "--help"], ["daemon", "-h"], ["proxy", "--help"], [
            "help",
            "proxy",
          ]]
        ) {
          const help = await start(built, words, environment);
          assert.equal(help.code, 0, words.join(" ") + help.stderr);
          assert.match(help.stdout, /Usage: mosaic|^mosaic proxy/, words.join(" "));
        }
        assert.equal((await start(built, ["list"], environment)).code, 3, "there is no daemon");
        const planned = await start(
          built,
          ["proxy", "--run-id", "R", "--", "worker", "--help"],
          environment,
        );
        assert.notEqual(planned.code, 0);
        assert.doesNotMatch(planned.stdout, /Usage/);
      },
    );

    await t.step(
      "its checksums are right, and its bill of materials names every package with its digest",
      () => {
        const cwd = built.slice(0, built.lastIndexOf("/"));
        assert.ok(
          new Deno.Command("sha256sum", { args: ["-c", "mosaic.sha256"], cwd }).outputSync()
            .success,
        );
        const bom = JSON.parse(Deno.readTextFileSync(`${built}.cdx.json`));
        assert.deepEqual([bom.bomFormat, bom.specVersion], ["CycloneDX", "1.6"]);
        assert.ok(
          Deno.readTextFileSync(`${built}.sha256`).startsWith(
            bom.metadata.component.hashes[0].content,
          ),
        );
        const listed = new Map(bom.components.map((one: { name: string }) => [one.name, one]));
        assert.ok(listed.has("deno"));
        for (
          const specifier of Object.values(
            JSON.parse(Deno.readTextFileSync(`${ROOT}deno.json`)).imports,
          )
        ) {
          const [, name, version] = /^npm:(.+)@(.+)$/.exec(String(specifier))!;
          const component = listed.get(name!) as
            | { version: string; hashes: { content: string }[] }
            | undefined;
          assert.equal(component?.version, version, name!);
          assert.match(component!.hashes[0]!.content, /^[0-9a-f]{128}$/);
        }
      },
    );

    await t.step(
      "a signature is checked by ssh-keygen, and not that of another key or of other sums",
      () => {
        const ssh = (args: string[], stdin = "") => {
          const script = `printf %s "$0" | ssh-keygen "$@"`;
          return new Deno.Command("/bin/sh", { args: ["-c", script, stdin, ...args] }).outputSync()
            .success;
        };
        const keys = freshDir("keys");
        for (const name of ["release", "other"]) {
          assert.ok(ssh(["-q", "-t", "ed25519", "-N", "", "-f", `${keys}/${name}`]));
        }
        const signer = (name: string) => {
          Deno.writeTextFileSync(
            `${keys}/allowed`,
            `mosaic ${Deno.readTextFileSync(`${keys}/${name}.pub`)}`,
          );
        };
        sign(`${built}.sha256`, `${keys}/release`);
        const sums = Deno.readTextFileSync(`${built}.sha256`);
        const check = ["-Y", "verify", "-f", `${keys}/allowed`, "-I", "mosaic", "-n", NAMESPACE];
        const holds = (text: string) => ssh([...check, "-s", `${built}.sha256.sig`], text);
        signer("release");
        assert.ok(holds(sums));
        assert.ok(!holds(sums.replace(/^./, (first) => first === "0" ? "1" : "0")));
        signer("other");
        assert.ok(!holds(sums));
      },
    );

    await t.step("a second build is the same bytes", async () => {
      const again = `${freshDir("again")}/mosaic`;
      await buildMosaic(again);
      assert.equal(
        Deno.readTextFileSync(`${again}.sha256`),
        Deno.readTextFileSync(`${built}.sha256`),
      );
      Deno.removeSync(again);
    });

    await t.step(
      "it is daemon, proxy and client: submitted, carried out, read, under planned permissions",
      endToEnd,
    );
    await t.step(
      "every verb of the client does its work under the client's permissions",
      everyVerb,
    );
    await t.step(
      "an upgrade keeps live runs: the file is replaced, the daemon restarted, the run goes on",
      upgrade,
    );

    await t.step("workers get nothing of what it sets for its own runtime", workersEnvironment);

    await t.step("it runs the demo", async () => {
      const state = freshDir("demo-state");
      const demo = await mosaic(
        "demo",
        "--state-dir",
        state,
        "--steps",
        "500",
        "--step-delay-ms",
        "0",
      );
      assert.equal(demo.code, 0, demo.stdout + demo.stderr);
      assert.match(demo.stdout, /cartpole-small +Succeeded .*\ncartpole-large +Succeeded/);
    });
  } finally {
    await killProcessesOf(directory);
    Deno.removeSync(directory, { recursive: true });
  }
});

const daemonOfFile = (stateDir: string) =>
  TestDaemon.start({
    stateDir,
    program: [built],
    env: { MOSAIC_CACHE_DIR: shared, MOSAIC_PERMISSIONS: "" },
  });

async function endToEnd(): Promise<void> {
  await using daemon = await daemonOfFile(freshDir("state"));
  const config = `${daemon.stateDir}/config.json`;
  Deno.writeTextFileSync(
    config,
    configOf({ command: countingWorker({ steps: 30, everySeconds: 0.05 }) }),
  );
  const at = ["--state-dir", daemon.stateDir];
  const submitted = await mosaic("submit", config, ...at);
  assert.equal(submitted.code, 0, submitted.stderr + daemon.output());
  const id = submitted.stdout.trim();
  const running = await until(
    () => processesOf(daemon.stateDir).find((p) => p.command.includes("/main.js proxy --target")),
    {
      what: "the proxy",
    },
  );
  for (
    const { pid, command } of [
      running,
      processesOf(daemon.stateDir).find(({ pid }) => pid === daemon.pid)!,
    ]
  ) {
    assert.match(command, / --allow-run=\/bin\/sh /, `${pid}`);
    assert.doesNotMatch(command, / -A | --allow-(all|ffi)|--allow-write /);
  }
  const waited = await mosaic("wait", id, ...at);
  assert.equal(waited.code, 0, waited.stdout + waited.stderr);
  const shown = JSON.parse((await mosaic("show", id, "-o", "json", ...at)).stdout);
  assert.equal(shown.state, "TERMINATED");
  assert.equal(
    (await mosaic("steps", id, "-o", "jsonl", ...at)).stdout.trim().split("\n").length,
    30,
  );
}

async function everyVerb(): Promise<void> {
  const place = freshDir("verbs");
  await using daemon = await daemonOfFile(freshDir("verbs-state"));
  const config = `${place}/config.json`;
  Deno.writeTextFileSync(
    config,
    configOf({ name: "submitted", command: countingWorker({ steps: 5 }) }),
  );
  const tracked = freshDir("tracked");
  Deno.writeTextFileSync(`${tracked}/progress.csv`, "step,loss\n1,0.5\n2,0.25\n");
  const talks =
    'echo "{\\"event_type\\":\\"step\\",\\"episode\\":0,\\"step_index\\":0,\\"policy_loss\\":0.5,' +
    '\\"action\\":1,\\"observation\\":[0.5],\\"reset\\":{\\"observation\\":[0]}}"; test "$SEED" = 7';
  const sleeps = "while :; do echo '{}'; sleep 0.2; done";
  const cases: [words: string[], code?: number][] = [
    [["run", "-eSEED=7", "-fn", "one", "sh", "-c", talks]],
    [["run", "--env=SEED=7", "-fn", "two", "--cwd", place, "--", "sh", "-c", talks]],
    [["submit", config, "--follow"]],
    [["rerun", "submitted"]],
    [["diff", "one", "two"]],
    [["sweep", "-fn", "tried", "--grid", "x=1,2", "--", "sh", "-c", "exit 0", "{x}"]],
    [["sweep", "show", "tried"]],
    [["gpus"]],
    [["open"]],
    [["open", "one"]],
    [["usage"]],
    [["lineage", "one"]],
    [["artifact", "list"]],
    // It has no receivers.
    [["notify", "test"], 6],
    [["submit", "--check", config]],
    ...[["list"], ["ls"], ["show", "one"], ["wait", "one"], ["steps", "one"], ["episodes", "one"], [
      "metrics",
      "one",
    ]]
      .map((words): [string[]] => [words]),
    ...[
      ["events", "one"],
      ["logs", "one"],
      ["plot", "one"],
      ["compare", "one", "two"],
      ["status"],
      ["du"],
    ]
      .map((words): [string[]] => [words]),
    ...["jsonl", "csv", "parquet", "tensorboard", "minari"]
      .map((
        format,
      ): [string[]] => [["export", "one", "--format", format, "--out", `${place}/out`]]),
    [["export", "one", "--format", "mosaic", "--out", `${place}/one.mosaic`]],
    [["import", `${place}/one.mosaic`]],
    [["report", "one", "two", "--out", `${place}/report.html`]],
    [["skill"]],
    [["docs", "--out", `${place}/manual`]],
    [["mcp"]],
    [["completions", "bash"]],
    [["completions", "runs"]],
    [["permissions", "daemon"]],
    [["token", "rotate"]],
    [["doctor"]],
    [["observe", "one", `${tracked}/progress.csv`]],
    [["edit", "one", "--tag", "tried"]],
    [["note", "one", "tried"]],
    [["edit", "two", "--name", "second"]],
    [["edit", "second", "--name", "two"]],
    [["python-helper"]],
    [["ts-client"]],
    [["audit"]],
    [["sql", "SELECT count(*) FROM run_steps"]],
    [["backup", `${place}/backup`]],
    // A daemon runs.
    [["reindex", "one"], 6],
    [["retry", "one"]],
    [["watch", "two"]],
    [["top"], 2],
    [["run", "-n", "long", "--", "sh", "-c", sleeps]],
    ...[["pause", "long"], ["resume", "long"], ["throttle", "long", "--hz", "5"], [
      "retry",
      "long",
      "--from",
      "beginning",
    ]]
      .map((words): [string[]] => [words]),
    [["cancel", "long", "--wait"]],
    [["wait", "one"]],
    [["prune", "--keep-last", "2"]],
    [["delete", "one"]],
    [["restore", "one"]],
    [["delete", "--forever", "one"]],
    [["host", "list"]],
    [["demo-worker", "--episodes", "2"]],
    [["import", tracked]],
    [["import-worker", `${tracked}/progress.csv`]],
    // The last: it stops the daemon.
    [["down"]],
  ];
  const env = {
    MOSAIC_CACHE_DIR: shared,
    HOME: directory,
    TMPDIR: directory,
    PATH: Deno.env.get("PATH")!,
  };
  for (const [words, expected = 0] of cases) {
    const more = {
      MOSAIC_STATE_DIR: daemon.stateDir,
      MOSAIC_CHECKPOINT_DIR: `${place}/checkpoints`,
    };
    const { code, stdout, stderr } = await start(built, words, { ...env, ...more });
    assert.equal(code, expected, `${words.join(" ")}\n${stdout}${stderr}`);
    assert.doesNotMatch(stderr, /not permitted|defect/, words.join(" "));
  }
  // The demo has a test of its own.
  const tried = new Set([...cases.map(([[verb]]) => verb), "demo"]);
  // Older words run what the newer ones run.
  const untried = VERBS.filter(({ name, load, now }) =>
    load !== undefined && now === undefined && !tried.has(name)
  );
  assert.deepEqual(untried.map(({ name }) => name), []);
}

/**
 * Of a daemon's proxy and of one that stands alone; with a DENO_DIR of the user's own, and without.
 */
async function workersEnvironment(): Promise<void> {
  const stateDir = freshDir("environment-state");
  const show = ["/bin/sh", "-c", "env >&2"];
  const deno = (text: string) =>
    text.split("\n").filter((line) => /^(DENO|MOSAIC_(EXEC|OUTER|PLANNED))/.test(line));
  for (
    const [given, expected] of [[{}, []], [{ DENO_DIR: "/mine" }, ["DENO_DIR=/mine"]]] as const
  ) {
    // Where there is no node, the runtime puts itself in front of PATH as one, and says so.
    const env = { MOSAIC_CACHE_DIR: shared, HOME: directory, PATH: programsButNode(), ...given };
    {
      await using daemon = await TestDaemon.start({
        stateDir,
        program: ["env", "-i", ...pairs(env), built],
      });
      const id = await submit(daemon, configOf({ name: JSON.stringify(given), command: show }));
      await untilState(daemon, id, "TERMINATED", "FAULTED");
      const { stdout } = await mosaic("logs", id, "--stderr", "--state-dir", stateDir);
      assert.match(stdout, /^MOSAIC_RUN_ID=/m);
      assert.deepEqual(deno(stdout), expected);
    }
    const runDir = freshDir(`alone-${expected.length}`);
    // Nobody answers: it starts its worker all the same.
    const proxy = ["proxy", "--target", "127.0.0.1:9", "--daemon-wait", "0"];
    const words = [...proxy, "--run-id", "R", "--run-dir", runDir, "--", ...show];
    const alone = new Deno.Command(built, {
      args: words,
      env: { ...env, OWN: "1" },
      clearEnv: true,
      ...{ stdin: "null", stdout: "null", stderr: "null" },
    }).spawn();
    const errors = await until(() => {
      const text = readTextIfThere(new RunFiles(runDir, "").stderr(1)) ?? "";
      return /^OWN=1$/m.test(text) ? text : undefined;
    }, { what: "the worker's environment" });
    alone.kill("SIGKILL");
    await alone.status;
    assert.deepEqual(deno(errors), expected);
  }
}

function programsButNode(): string {
  const tools = `${directory}/tools`;
  try {
    Deno.mkdirSync(tools);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return tools;
    throw error;
  }
  for (const { name } of Deno.readDirSync("/usr/bin")) {
    if (name !== "node") Deno.symlinkSync(`/usr/bin/${name}`, `${tools}/${name}`);
  }
  return tools;
}

function pairs(env: Record<string, string>): string[] {
  return Object.entries(env).map(([name, value]) => `${name}=${value}`);
}

async function upgrade(): Promise<void> {
  const stateDir = freshDir("upgrade-state");
  let id: string;
  {
    await using old = await daemonOfFileKeeping(stateDir);
    id = await submit(
      old.daemon,
      configOf({ command: countingWorker({ steps: 60, everySeconds: 0.1 }) }),
    );
    await untilState(old.daemon, id, "EXECUTING");
    await old.daemon.stop();
  }
  // What a package manager does: another file under the old name.
  Deno.copyFileSync(built, `${built}.new`);
  Deno.renameSync(`${built}.new`, built);
  await using daemon = await daemonOfFile(stateDir);
  const ended = await untilState(daemon, id, "TERMINATED");
  assert.equal((await getRun(daemon, id)).outcome, "succeeded", JSON.stringify(ended.reason));
  assert.equal(
    (await mosaic("steps", id, "-o", "jsonl", "--state-dir", stateDir)).stdout.trim().split("\n")
      .length,
    60,
  );
}

/** Leaves the runs of the daemon alone. */
async function daemonOfFileKeeping(stateDir: string) {
  const daemon = await daemonOfFile(stateDir);
  return { daemon, [Symbol.asyncDispose]: () => daemon.stop().then(() => {}) };
}
