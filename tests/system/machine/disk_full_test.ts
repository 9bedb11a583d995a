/**
 * Disks that are full: of the registry, of the telemetry store, of the journals. No daemon is
 * restarted in here.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { ANSWER_TIMEOUT_MS } from "../../../src/proxy/state/reconnect.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { LONG_TESTS } from "../../harness/long.ts";
import { getRun, records, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { submitBy } from "./cli.ts";
import { diskTest } from "./small_disk.ts";
import { events, SteppedWorker } from "./workers.ts";

diskTest(
  "registry's disk full: a submission is refused with the reason and its own exit code; with room it is taken",
  async (stage) => {
    const disk = stage.disk(stage.layout.trainer, "8m");
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir });
    const worker = new SteppedWorker(stage.stateDir, [50]);
    const configs = () => [...Deno.readDirSync(stage.layout.configs)].map(({ name }) => name);
    disk.fill();
    const refused = await submitBy(daemon, worker.config());
    assert.equal(refused.code, 3, refused.err);
    assert.match(refused.err, /cannot write .*disk is full[^]*Free space/);
    assert.equal(refused.out, "");
    assert.deepEqual(configs(), [], "nothing is left of what was refused");
    disk.free();
    const taken = await submitBy(daemon, worker.config());
    assert.equal(taken.code, 0, taken.err);
    await worker.assertWhole(daemon, taken.out.trim());
  },
);

diskTest(
  "registry's disk full: a run's end is entered all the same, and its GPU is free again",
  async (stage) => {
    // Only the registry is on it.
    const disk = stage.disk(stage.layout.trainer, "8m");
    stage.disk(stage.layout.baseDir("custom_scripts"), "8m");
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir, gpus: "1" });
    const worker = new SteppedWorker(stage.stateDir, [50, 50]);
    const run = await submit(daemon, worker.config({ gpus: { requested: 1, mandatory: true } }));
    await untilSteps(daemon, run, 50);
    disk.fill();
    worker.open();
    await worker.assertWhole(daemon, run);
    const { gpus } = await daemon.client.unary(Mosaic.method.getHost, {});
    assert.equal(gpus[0]!.runId, "", "its GPU is free again");
  },
);

/**
 * Prints 100 steps, waits for a file, prints 3000 events of 1 KB (which are stored as they are),
 * waits, prints 100 steps.
 */
const TALKER = `steps() { while [ $i -lt $1 ]; do
  printf '{"event_type":"step","step_index":%d,"reward":1}\\n' $i; i=$((i + 1))
done; }
gate() { while [ ! -e "$1" ]; do sleep 0.05; done; }
pad=$(printf '%1000s' '' | tr ' ' x); i=0; steps 100; gate "$1"; n=0
while [ $n -lt 3000 ]; do printf '{"event_type":"metrics","data":{"note":"%s"}}\\n' "$pad"; n=$((n + 1)); done
gate "$2"; steps 200`;

diskTest(
  "telemetry's disk full: workers are held at once, what they printed waits in the journal, and is stored once there is room",
  async (stage) => {
    const disk = stage.disk(`${stage.stateDir}/telemetry`, "24m");
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir });
    const gates = ["filled", "held"].map((name) => `${stage.stateDir}/${name}`);
    const run = await submit(
      daemon,
      configOf({ command: ["/bin/sh", "-c", TALKER, "sh", ...gates] }),
    );
    await untilSteps(daemon, run, 100);
    disk.fill();
    Deno.writeTextFileSync(gates[0]!, "");
    const log = () =>
      readTextIfThere(`${stage.layout.runDir("custom_scripts", run)}/logs/proxy.log`) ?? "";
    await until(() => log().includes("worker held: the daemon's disk is full"), {
      what: "the worker to be held",
    });
    Deno.writeTextFileSync(gates[1]!, "");
    await until(() => daemon.output().includes("disk is full"), { what: "the daemon to say why" });
    const held = await untilState(daemon, run, "PAUSED");
    assert.deepEqual([
      held.reason,
      /^free space on the disk of the telemetry database/.test(held.waitingFor),
    ], [
      "store",
      true,
    ]);
    assert.equal((await steps(daemon, run)).length, 100);
    assert.doesNotMatch(log(), /delivery interrupted/);
    disk.free();
    const { telemetry } = await untilState(daemon, run, "TERMINATED");
    assert.deepEqual([telemetry?.steps, telemetry?.events], [200n, 3000n]);
    assert.deepEqual((await steps(daemon, run)).map((step) => step.step_index), [
      ...Array(200).keys(),
    ]);
  },
);

/**
 * What these processes have written, to whatever: a proxy that waits writes hardly anything but to
 * its connection.
 */
function writtenBy(pids: readonly number[]): number {
  const written = pids.map((pid) =>
    /^wchar: (\d+)/m.exec(Deno.readTextFileSync(`/proc/${pid}/io`))![1]
  );
  return written.reduce((sum, bytes) => sum + Number(bytes), 0);
}

/** The sockets that these processes have open; one that connects again has another. */
function socketsOf(pids: readonly number[]): string[] {
  const fds = pids.flatMap((pid) =>
    [...Deno.readDirSync(`/proc/${pid}/fd`)].map(({ name }) => `/proc/${pid}/fd/${name}`)
  );
  const opened = fds.map((fd) => {
    try {
      return Deno.readLinkSync(fd);
    } catch (error) {
      // Closed meanwhile.
      if (!(error instanceof Deno.errors.NotFound)) throw error;
      return "";
    }
  });
  return opened.filter((to) => to.startsWith("socket:")).sort();
}

diskTest(
  "telemetry's disk full for long: several proxies wait connected, send nothing twice, and all is stored once there is room",
  async (stage) => {
    const RUNS = LONG_TESTS ? 4 : 2;
    /** More is no heartbeat. */
    const SILENCE_BYTES = 20_000;
    // A record of 1 KB takes a page and a half: 14 MB a run, and as much again for the log and the
    // reserve.
    const disk = stage.disk(`${stage.stateDir}/telemetry`, `${32 * RUNS}m`);
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir });
    const gates = ["filled", "held"].map((name) => `${stage.stateDir}/${name}`);
    const config = () => configOf({ command: ["/bin/sh", "-c", TALKER, "sh", ...gates] });
    const runs = await Promise.all(Array.from({ length: RUNS }, () => submit(daemon, config())));
    for (const run of runs) await untilSteps(daemon, run, 100);
    const proxies = await Promise.all(
      runs.map(async (run) => Number((await getRun(daemon, run)).proxyPid)),
    );
    disk.fill();
    Deno.writeTextFileSync(gates[0]!, "");
    for (const run of runs) await untilState(daemon, run, "PAUSED");
    Deno.writeTextFileSync(gates[1]!, "");
    // Each proxy's window is sent, and unanswered. A connection that is given up is given up after
    // the timeout.
    let quiet = { bytes: -1, since: 0 };
    await until(() => {
      const bytes = writtenBy(proxies);
      if (bytes - quiet.bytes > 1000) quiet = { bytes, since: performance.now() };
      return performance.now() - quiet.since > 2000;
    }, { what: "the proxies to have sent what they may" });
    const before = {
      bytes: writtenBy(proxies),
      sockets: socketsOf(proxies),
      at: performance.now(),
    };
    assert.ok(
      before.bytes > RUNS * SILENCE_BYTES,
      `what they send is counted: ${before.bytes} bytes`,
    );
    assert.ok(before.sockets.length >= RUNS, before.sockets.join());
    // Whoever gives up a connection for an answer that does not come does so after the first.
    const timeouts = LONG_TESTS ? 2.2 : 1.2;
    const over = () => performance.now() - before.at > timeouts * ANSWER_TIMEOUT_MS;
    await until(over, { what: "the timeouts to pass", timeoutMs: 3 * ANSWER_TIMEOUT_MS });
    assert.deepEqual(socketsOf(proxies), before.sockets, "nobody has connected again");
    // Heartbeats; a batch has tens of kilobytes, and a window megabytes.
    const sent = writtenBy(proxies) - before.bytes;
    assert.ok(sent < RUNS * SILENCE_BYTES, `${sent} bytes of ${RUNS} proxies`);
    disk.free();
    for (const run of runs) {
      const { telemetry } = await untilState(daemon, run, "TERMINATED");
      assert.equal(telemetry?.steps, 200n);
      // Beside them there may be one of the proxy's own: the runs share a working directory.
      const events = (await records(daemon, run, "events")).filter(({ event }) =>
        event === "metrics"
      );
      assert.equal(events.length, 3000);
      assert.deepEqual((await steps(daemon, run)).map((step) => step.step_index), [
        ...Array(200).keys(),
      ]);
    }
  },
);

diskTest(
  "journals' disk nearly full: workers are held, new runs wait with the reason, and all go on once there is room",
  async (stage) => {
    const disk = stage.disk(stage.layout.baseDir("custom_scripts"), "16m");
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir });
    const first = new SteppedWorker(stage.stateDir, [50, 2000]);
    const run = await submit(daemon, first.config());
    await untilSteps(daemon, run, 50);
    disk.fill(100_000);
    await untilState(daemon, run, "PAUSED");
    assert.deepEqual((await events(daemon, run)).findLast(({ kind }) => kind === "paused")?.data, {
      reason: "disk",
    });
    first.open();

    const second = new SteppedWorker(stage.stateDir, [50]);
    const waiting = await submit(daemon, second.config());
    const why = await until(async () => (await getRun(daemon, waiting)).waitingFor, {
      what: "the second run to wait",
    });
    assert.match(
      why,
      /free space on the disk of .*custom_scripts \([\d.]+ MiB free, [\d.]+ MiB needed\)/,
    );
    disk.free();
    await first.assertWhole(daemon, run);
    await second.assertWhole(daemon, waiting);
    assert.equal((await getRun(daemon, waiting)).attempt, 1, "to wait is no failed attempt");
  },
);

diskTest(
  "journals' disk full to the last byte: a run that is to start waits, and starts once there is room",
  async (stage) => {
    const disk = stage.disk(stage.layout.baseDir("custom_scripts"), "4m");
    disk.fill();
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir, gpus: "1" });
    const worker = new SteppedWorker(stage.stateDir, [50]);
    const run = await submit(daemon, worker.config({ gpus: { requested: 1, mandatory: true } }));
    const why = await until(async () => (await getRun(daemon, run)).waitingFor, {
      what: "the run to wait",
    });
    assert.match(why, /free space on the disk/);
    assert.equal((await getRun(daemon, run)).state, "INIT");
    disk.free();
    await worker.assertWhole(daemon, run);
  },
);

diskTest(
  "disk full at the daemon's start: what is stored can be read, no run is taken, and work goes on once there is room",
  async (stage) => {
    const disks = [
      stage.disk(stage.layout.trainer, "8m"),
      stage.disk(`${stage.stateDir}/telemetry`, "8m"),
    ];
    stage.disk(stage.layout.baseDir("custom_scripts"), "16m");
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir, gpus: "1" });
    const ended = new SteppedWorker(stage.stateDir, [20]);
    const endedRun = await submit(daemon, ended.config());
    await ended.assertWhole(daemon, endedRun);
    const living = new SteppedWorker(stage.stateDir, [50, 50]);
    const run = await submit(daemon, living.config({ gpus: { requested: 1, mandatory: true } }));
    await untilSteps(daemon, run, 50);
    await daemon.stop();
    for (const disk of disks) disk.fill();

    const restarted = daemon.restart();
    const starts = () => daemon.output().split('"msg":"ready"').length - 1;
    const started = until(() => starts() === 2, {
      what: "the daemon to start",
      state: () => daemon.output().slice(-2000),
    });
    // The restart is complete only once daemon.json has room; if it fails before, the test fails
    // with its error.
    await Promise.race([started, restarted.then(() => started)]);
    assert.equal((await getRun(daemon, endedRun)).state, "TERMINATED");
    assert.equal((await steps(daemon, endedRun)).length, 20);
    await assert.rejects(submit(daemon, new SteppedWorker(stage.stateDir, [20]).config()), {
      code: "unavailable",
      message: /disk is full/,
    });
    living.open();
    for (const disk of disks) disk.free();
    await restarted;
    await living.assertWhole(daemon, run);
    const next = new SteppedWorker(stage.stateDir, [20]);
    await next.assertWhole(
      daemon,
      await submit(daemon, next.config({ gpus: { requested: 1, mandatory: true } })),
    );
  },
);
