/**
 * What a worker puts in the place of its run's files hangs nobody, redirects nobody, and is
 * believed by nobody.
 */
import assert from "node:assert/strict";
import { isAlive, processRef } from "../../src/os/processes/identity.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { hasBubblewrap } from "../harness/bubblewrap.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { mosaic } from "../system/machine/cli.ts";

/** Where the record of the first attempt's exit is, and where older versions have it. */
const RECORDS = '"$MOSAIC_RUN_DIR/.mosaic/exit-1.json" "$MOSAIC_RUN_DIR/exit.json"';
const STEP = `echo '{"event_type":"step","step_index":0}'`;

/** Shell text that waits for a file of the test's. */
class Gate {
  readonly #path: string;
  readonly wait: string;

  constructor(daemon: TestDaemon, name: string) {
    this.#path = `${daemon.stateDir}/${name}-${crypto.randomUUID()}`;
    this.wait = `while [ ! -e ${this.#path} ]; do sleep 0.05; done`;
  }
  open(): void {
    Deno.writeTextFileSync(this.#path, "");
  }
}

const scriptOf = (...lines: string[]) => ["/bin/sh", "-c", lines.join("\n")];
const stored = (daemon: TestDaemon, run: string, count: number) =>
  untilSteps(daemon, run, count, true);
const gpuOwner = async (daemon: TestDaemon) =>
  (await daemon.client.unary(Mosaic.method.getHost, {})).gpus.map(({ runId }) => runId);

/**
 * The daemon and the runs' proxies are killed, so that only files tell the next ones how the
 * workers ended.
 */
async function killAll(daemon: TestDaemon, ...runs: string[]): Promise<void> {
  const shown = await Promise.all(runs.map((run) => getRun(daemon, run)));
  const proxies = shown.map(({ proxyPid }) => processRef(Number(proxyPid))!);
  await daemon.kill9();
  for (const proxy of proxies) signalProcess(proxy, "SIGKILL");
  await until(() => !proxies.some(isAlive), { what: "the proxies to be dead" });
}

const OBSTACLES: { name: string; put: string }[] = [
  {
    name: "a FIFO at exit.json.tmp",
    put: `for f in ${RECORDS}; do rm -f "$f.tmp"; mkfifo "$f.tmp"; done`,
  },
  { name: "a directory at exit.json", put: `for f in ${RECORDS}; do mkdir -p "$f/deep"; done` },
  { name: "a FIFO at exit.json", put: `for f in ${RECORDS}; do rm -f "$f.tmp"; mkfifo "$f"; done` },
  {
    name: "a link at exit.json",
    put: `for f in ${RECORDS}; do rm -f "$f.tmp"; ln -s "$0" "$f"; done`,
  },
];

const FORGED = `{"code":0,"signal":"","ended_at":null}`;

/** A run with each obstacle, all at the same time, each with a GPU. */
async function runEach(
  daemon: TestDaemon,
  scriptFor: (put: string) => string[],
): Promise<string[]> {
  const forged = `${daemon.stateDir}/forged.json`;
  Deno.writeTextFileSync(forged, FORGED);
  const runs: string[] = [];
  for (const { put } of OBSTACLES) {
    const command = [...scriptOf(...scriptFor(put)), forged];
    runs.push(await submit(daemon, configOf({ command, gpus: { requested: 1 } })));
  }
  return runs;
}
const GPUS = String(OBSTACLES.length);
const ALL_FREE = OBSTACLES.map(() => "");

Deno.test("exit record: what a worker puts in its place is none, and the run ends with its worker's status", async (t) => {
  await using daemon = await TestDaemon.start({ gpus: GPUS });
  const runs = await runEach(daemon, (put) => [put, STEP, "exit 7"]);
  for (const [i, { name }] of OBSTACLES.entries()) {
    await t.step(name, async () => {
      const ended = await untilState(daemon, runs[i]!, "FAULTED");
      assert.deepEqual([ended.exitCode, ended.telemetry?.steps], [7, 1n], ended.reason);
    });
  }
  assert.deepEqual(await gpuOwner(daemon), ALL_FREE);
});

Deno.test("exit record: none, and nobody left who saw the end: the run ends, its GPU is free, its files go", async (t) => {
  await using daemon = await TestDaemon.start({ gpus: GPUS });
  const gate = new Gate(daemon, "gate");
  const runs = await runEach(daemon, (put) => [put, STEP, gate.wait, put, "exit 7"]);
  for (const run of runs) await stored(daemon, run, 1);
  assert.deepEqual((await gpuOwner(daemon)).sort(), runs.toSorted());
  const workers = await Promise.all(
    runs.map(async (run) => processRef(Number((await getRun(daemon, run)).workerPid))!),
  );
  await killAll(daemon, ...runs);
  gate.open();
  await until(() => !workers.some(isAlive), { what: "the wrappers to have ended" });
  await daemon.restart();
  for (const [i, { name }] of OBSTACLES.entries()) {
    await t.step(name, async () => {
      const run = runs[i]!;
      const ended = await untilState(daemon, run, "FAULTED");
      // The wrapper puts its own record in the place of what it can put away.
      assert.ok(
        ended.reason === "worker_lost" || ended.exitCode === 7,
        `${ended.reason} ${ended.exitCode}`,
      );
      assert.ok(!(await gpuOwner(daemon)).includes(run));
      await daemon.client.unary(Mosaic.method.deleteRun, { run, forever: true });
      assert.throws(
        () => Deno.lstatSync(daemon.layout.runDir("custom_scripts", run)),
        Deno.errors.NotFound,
      );
    });
  }
  assert.deepEqual(await gpuOwner(daemon), ALL_FREE);
});

const SECRET = "a-token-of-the-daemon";

const IN_THE_WAY = [
  { name: "FIFO", put: 'rm "$LOG"; mkfifo "$LOG"' },
  { name: "link to tokens.json", put: 'ln -sf "$0" "$LOG"' },
  { name: "directory", put: 'rm "$LOG"; mkdir "$LOG"' },
  {
    name: "link in the place of logs/",
    put: 'mv "${LOG%/*}" "${LOG%/*}.old"; ln -s "${0%/*}" "${LOG%/*}"',
  },
];

Deno.test("logs: what a worker puts in their place hangs nobody and hands out nothing, and the run goes on", async (t) => {
  await using planned = await PlannedDaemon.start();
  const { daemon } = planned;
  const tokens = daemon.layout.tokensFile;
  Deno.writeTextFileSync(tokens, SECRET);
  // For the link in the place of the directory: what would be found there.
  Deno.writeTextFileSync(`${daemon.layout.trainer}/worker.stderr.log`, SECRET);
  for (const { name, put } of IN_THE_WAY) {
    await t.step(name, async () => {
      const gate = new Gate(daemon, "gate");
      const command = [
        ...scriptOf(
          'LOG="$MOSAIC_RUN_DIR/logs/worker.stderr.log"',
          STEP,
          put,
          'touch "$MOSAIC_RUN_DIR/put"',
          gate.wait,
          "exit 0",
        ),
        tokens,
      ];
      const run = await submit(daemon, configOf({ command }));
      const done = `${daemon.layout.runDir("custom_scripts", run)}/put`;
      await until(() => readTextIfThere(done) !== undefined, {
        what: "the worker to have put it there",
      });

      const said = await mosaic(["logs", run, "--stderr", "--target", daemon.target]);
      assert.notEqual(said.code, 0, said.out);
      assert.ok(!(said.out + said.err).includes(SECRET));
      assert.match(said.err, /not a regular file/);
      for (const query of ["from=0", "from=-1000", "before=1000", "q=token"]) {
        const response = await fetch(`http://${daemon.http}/api/runs/${run}/logs/stderr?${query}`);
        const text = await response.text();
        assert.equal(response.status, 403, text);
        assert.ok(!text.includes(SECRET));
      }
      gate.open();
      assert.equal((await untilState(daemon, run, "TERMINATED")).exitCode, 0);
      await daemon.client.unary(Mosaic.method.deleteRun, { run, forever: true });
      assert.equal(Deno.readTextFileSync(tokens), SECRET, "what the link led to is left alone");
    });
  }
});

/**
 * Changes between a file and a link to the secret, and between a directory and a link to the
 * secret's, without a pause.
 */
const FLIPPER = `
const [secret, start, gate] = Deno.args;
const dir = Deno.env.get("MOSAIC_RUN_DIR") + "/checkpoints";
Deno.mkdirSync(dir + "/inner", { recursive: true });
for (const name of ["/model.pt", "/inner/tokens.json"]) Deno.writeTextFileSync(dir + name, "x".repeat(4000));
for (const path of ["checkpoints/model.pt", "checkpoints/inner/tokens.json"]) {
  console.log(JSON.stringify({ event: "artifact", kind: "model", path }));
}
const exists = (path) => { try { Deno.statSync(path); return true; } catch { return false; } };
while (!exists(start)) await new Promise((resolve) => setTimeout(resolve, 20));
for (let i = 0; ; i++) {
  Deno.symlinkSync(secret, dir + "/link.tmp");
  Deno.renameSync(dir + "/link.tmp", dir + "/model.pt");
  Deno.renameSync(dir + "/inner", dir + "/kept");
  Deno.symlinkSync(secret.slice(0, secret.lastIndexOf("/")), dir + "/inner");
  Deno.writeTextFileSync(dir + "/file.tmp", "x".repeat(4000));
  Deno.renameSync(dir + "/file.tmp", dir + "/model.pt");
  Deno.removeSync(dir + "/inner");
  Deno.renameSync(dir + "/kept", dir + "/inner");
  if (i % 1000 === 0 && exists(gate)) break;
}`;

/** Without the checks, one of the first thirty is answered with the secret. */
const REQUESTS = LONG_TESTS ? 400 : 100;

Deno.test("artifacts: however fast a worker changes files and directories for links, nothing outside is handed out", async () => {
  await using planned = await PlannedDaemon.start();
  const { daemon } = planned;
  const tokens = daemon.layout.tokensFile;
  Deno.writeTextFileSync(tokens, SECRET);
  const [start, gate] = [`${daemon.stateDir}/start`, `${daemon.stateDir}/gate`];
  const source = `${daemon.stateDir}/flipper.js`;
  Deno.writeTextFileSync(source, FLIPPER);
  const command = [
    Deno.execPath(),
    "run",
    "-A",
    "--no-check",
    "--no-config",
    source,
    tokens,
    start,
    gate,
  ];
  const run = await submit(daemon, configOf({ command }));
  const paths = ["checkpoints/model.pt", "checkpoints/inner/tokens.json"];
  const answers = { given: 0, refused: 0 };
  await until(async () => {
    const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run });
    return paths.every((path) => artifacts.some((a) => a.path === path));
  }, { what: "both to be recorded" });
  Deno.writeTextFileSync(start, "");
  for (let i = 0; i < REQUESTS; i++) {
    const response = await fetch(`http://${daemon.http}/api/runs/${run}/artifacts/${paths[i % 2]}`);
    const text = await response.text();
    assert.ok(!text.includes(SECRET), `request ${i} was answered with the secret`);
    answers[response.ok ? "given" : "refused"]++;
  }
  assert.ok(answers.given > 0, JSON.stringify(answers));
  Deno.writeTextFileSync(gate, "");
  await untilState(daemon, run, "TERMINATED");
});

const bubblewrap = hasBubblewrap();
if (!bubblewrap) console.log("SKIPPED: bubblewrap is not usable here");

Deno.test({
  name: "sandbox: a worker can neither forge its exit record nor truncate its journal by its name",
  ignore: !bubblewrap,
  fn: async () => {
    await using daemon = await TestDaemon.start();
    // In the run's directory, which a sandboxed worker shares with the test.
    const forge = `printf '{"code":0,"signal":"","ended_at":null}'`;
    const script = [
      STEP,
      `for f in ${RECORDS}; do ${forge} >"$f"; rm -rf "$f.tmp"; ${forge} >"$f.tmp"; done`,
      'for f in "$MOSAIC_RUN_DIR"/logs/*; do true >"$f"; rm -f "$f"; mv "$f" "$f.away"; done',
      'mv "$MOSAIC_RUN_DIR/logs" "$MOSAIC_RUN_DIR/.mosaic" "$MOSAIC_RUN_DIR/elsewhere"',
      STEP,
      'while [ ! -e "$MOSAIC_RUN_DIR/gate" ]; do sleep 0.05; done',
      STEP,
      "exit 7",
    ];
    const command = scriptOf(...script);
    const run = await submit(daemon, configOf({ command, metadata: { sandbox: "bubblewrap" } }));
    await stored(daemon, run, 2);
    // Another proxy takes over, and believes what it finds on disk.
    const before = (await getRun(daemon, run)).proxyPid;
    await killAll(daemon, run);
    await daemon.restart();
    const taken = await until(async () => {
      const now = await getRun(daemon, run);
      return now.outcome !== "" || now.proxyPid !== before ? now : undefined;
    }, { what: "another proxy" });
    assert.equal(taken.outcome, "", `${taken.state} ${taken.reason}: the worker still runs`);
    Deno.writeTextFileSync(`${daemon.layout.runDir("custom_scripts", run)}/gate`, "");
    const ended = await untilState(daemon, run, "FAULTED");
    assert.equal(ended.exitCode, 7, ended.reason);
    assert.equal((await steps(daemon, run)).length, 3);
  },
});

Deno.test({
  name:
    "sandbox: what a module does when it is imported before the start is confined as the worker is",
  ignore: !bubblewrap,
  fn: async () => {
    await using daemon = await TestDaemon.start();
    // Not below the private /tmp of a sandbox.
    const place = Deno.makeTempDirSync({ dir: Deno.cwd(), prefix: ".module-" });
    try {
      // A shell that stands for a Python: it is what the imports are asked of.
      const python = `${place}/python3`;
      Deno.writeTextFileSync(python, `#!/bin/sh\ntouch "${place}/escaped"; echo "{}"\n`, {
        mode: 0o755,
      });
      const metadata = { sandbox: "bubblewrap", preflight: { modules: ["anything"] } };
      const config = JSON.parse(configOf({ command: ["/bin/true"], metadata }));
      config.metadata.worker = { ...config.metadata.worker, python };
      const run = await submit(daemon, JSON.stringify(config));
      await untilState(daemon, run, "TERMINATED");
      assert.deepEqual([...Deno.readDirSync(place)].map(({ name }) => name), ["python3"]);
    } finally {
      Deno.removeSync(place, { recursive: true });
    }
  },
});
