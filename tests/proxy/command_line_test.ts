import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import { parseProxyArguments } from "../../src/proxy/start/arguments.ts";
import { findProgram } from "../../src/proxy/worker/program.ts";
import { until } from "../harness/wait.ts";
import { inScene, numbers, printSteps, RUN } from "./scene.ts";

Deno.test("proxy arguments: the original's, with their defaults", () => {
  const args = parseProxyArguments(["--run-id", RUN, "--", "python", "-m", "w", "--attach"]);
  assert.deepEqual([args.target, args.agentId, args.workerId, args.attempt], [
    "127.0.0.1:8055",
    "agent_1",
    "",
    1,
  ]);
  assert.deepEqual(args.command, ["python", "-m", "w", "--attach"]);
  assert.equal(args.attach, false);
});

Deno.test("proxy arguments: sizes and intervals", () => {
  const parse = (...more: string[]) => parseProxyArguments(["--run-id", RUN, ...more, "--", "x"]);
  assert.equal(parse("--max-backlog", "10GiB").maxBacklogBytes, 10 * 2 ** 30);
  assert.equal(parse("--max-backlog", "500M").maxBacklogBytes, 500 * 2 ** 20);
  assert.equal(parse("--max-backlog", "4096").maxBacklogBytes, 4096);
  assert.equal(parse("--heartbeat-interval", "0.5").heartbeatIntervalS, 0.5);
});

Deno.test("proxy arguments: what is wrong is named", async (t) => {
  const wrong: [string[], RegExp][] = [
    [["--run-id", RUN], /no command after --/],
    [["--run-id", RUN, "--"], /no command after --/],
    [["--", "x"], /--run-id is missing/],
    [["--run-id", "../x", "--", "x"], /\.\.\/x is no run id/],
    [["--run-id", RUN, "--target", "nowhere", "--", "x"], /called at "nowhere": it is no address/],
    [["--run-id", RUN, "--attempt", "0", "--", "x"], /--attempt 0/],
    [["--run-id", RUN, "--max-backlog", "much", "--", "x"], /--max-backlog much/],
    [["--run-id", RUN, "--heartbeat-interval", "-1", "--", "x"], /heartbeat-interval/],
    [["--run-id", RUN, "--nonsense", "--", "x"], /--nonsense/],
  ];
  for (const [args, message] of wrong) {
    await t.step(args.join(" "), () => {
      assert.throws(
        () => parseProxyArguments(args),
        (e) => e instanceof MosaicError && message.test(e.message),
      );
    });
  }
});

Deno.test("program: found by PATH, by path, relative to the working directory", () => {
  assert.deepEqual(findProgram("sh", "/", "/nowhere:/bin"), { path: "/bin/sh" });
  assert.deepEqual(findProgram("/bin/sh", "/", ""), { path: "/bin/sh" });
  assert.deepEqual(findProgram("./sh", "/bin", ""), { path: "/bin/./sh" });
  assert.deepEqual(findProgram("bin/sh", "/", "/usr/bin"), { path: "//bin/sh" });
  assert("error" in findProgram("", "/", "/bin"));
  assert("error" in findProgram("/etc", "/", "/bin"), "a directory");
  assert("error" in findProgram("/etc/passwd/x", "/", "/bin"));
});

Deno.test("proxy: without a command it says so and leaves with 2", () =>
  inScene(async (scene) => {
    const proxy = scene.bare(["--target", scene.daemon.target, "--run-id", RUN]);
    assert.equal(await proxy.code(), 2);
    assert.match((await proxy.output).stderr, /mosaic proxy: there is no command after --/);
  }));

Deno.test("proxy: stand-alone it needs nothing but the daemon and the run's id, and may mirror the output", () =>
  inScene(async (scene) => {
    const stateDir = `${scene.directory}/state`;
    Deno.mkdirSync(stateDir);
    const script = `${printSteps(0, 20)}; echo trouble >&2; exit 3`;
    const env = { MOSAIC_STATE_DIR: stateDir, COLOUR: "blue" };
    const proxy = scene.bare(
      [
        "--target",
        scene.daemon.target,
        "--run-id",
        RUN,
        "--agent-id",
        "me",
        "--mirror",
        "--",
        "sh",
        "-c",
        script,
      ],
      { env, cwd: scene.directory },
    );
    assert.equal(await proxy.code(), 3);
    const { stdout, stderr } = await proxy.output;
    assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 20));
    assert.equal(scene.daemon.steps[0]!.agent, "me");
    const journal = `${stateDir}/trainer/runs/${RUN}/logs/worker.stdout.log`;
    assert.equal(stdout, Deno.readTextFileSync(journal).trimStart());
    assert.match(stderr, /^trouble$/m);
  }));

Deno.test("proxy: stand-alone its worker is told of the run, and nothing of what is the proxy's own", () =>
  inScene(async (scene) => {
    Deno.writeTextFileSync(`${scene.directory}/token`, "secret\n");
    const env = {
      MOSAIC_STATE_DIR: scene.directory,
      MOSAIC_TOKEN_FILE: `${scene.directory}/token`,
      MOSAIC_TLS_SERVER_NAME: "far",
      COLOUR: "blue",
    };
    const script =
      'env | cut -d= -f1 | grep -E "^(MOSAIC_|RUN_ID|COLOUR|DENO_)" | grep -Ev "^MOSAIC_(TEST_|BIN|CACHE_DIR)" | sort | tr "\\n" " "; exit 4';
    const args = [
      "--target",
      scene.daemon.target,
      "--run-id",
      RUN,
      "--mirror",
      "--",
      "sh",
      "-c",
      script,
    ];
    const proxy = scene.bare(args, { env });
    assert.equal(await proxy.code(), 4);
    assert.equal(
      (await proxy.output).stdout.trim(),
      "COLOUR MOSAIC_ATTEMPT MOSAIC_CHECKPOINT_DIR MOSAIC_RUN_DIR MOSAIC_RUN_ID RUN_ID",
    );
  }));

Deno.test("proxy: a token does not travel to another machine unencrypted, and nothing is started", () =>
  inScene(async (scene) => {
    Deno.writeTextFileSync(`${scene.directory}/token`, "secret\n");
    const args = [
      "--target",
      "192.0.2.1:5",
      "--run-id",
      RUN,
      "--token-file",
      `${scene.directory}/token`,
      "--",
    ];
    const proxy = scene.bare([...args, "touch", `${scene.directory}/started`], {
      env: { MOSAIC_STATE_DIR: scene.directory },
    });
    assert.equal(await proxy.code(), 70);
    assert.match(
      (await proxy.output).stderr,
      /the token would be sent to 192\.0\.2\.1:5 unencrypted/,
    );
    assert.throws(() => Deno.statSync(`${scene.directory}/started`));
  }));

Deno.test("proxy: where no state directory can be made it works in a temporary one", () =>
  inScene(async (scene) => {
    const temporary = `${scene.directory}/tmp`;
    Deno.mkdirSync(temporary);
    Deno.writeTextFileSync(`${scene.directory}/file`, "");
    const env = { MOSAIC_STATE_DIR: `${scene.directory}/file/state`, TMPDIR: temporary };
    const proxy = scene.bare([
      "--target",
      scene.daemon.target,
      "--run-id",
      RUN,
      "--",
      "echo",
      '{"type":"step"}',
    ], {
      env,
    });
    assert.equal(await proxy.code(), 0);
    assert.equal(scene.daemon.steps.length, 1);
    assert.match([...Deno.readDirSync(temporary)][0]!.name, new RegExp(`^mosaic-${RUN}-`));
  }));

Deno.test("proxy: its log stays in the run's directory and tells the life of the worker", () =>
  inScene(async (scene) => {
    assert.equal(await scene.shell("exit 1").code(), 1);
    const log = await until(() => Deno.readTextFileSync(scene.files.proxyLog), { what: "the log" });
    assert.match(log, /proxy started/);
    assert.match(log, /worker started/);
    assert.match(log, /worker has ended.*code=1/);
  }));
