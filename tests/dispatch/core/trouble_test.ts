/**
 * Requests that come while a run is just ending or going, and a registry that cannot be written for
 * a while.
 */
import { gpuPool } from "../../harness/gpus.ts";
import assert from "node:assert/strict";
import { EMPTY_EPISODE } from "../../../src/gen/records/record_types.ts";
import { DatabaseSync } from "node:sqlite";
import { planOf } from "../../../src/config/plan.ts";
import { Supervisor } from "../../../src/dispatch/attempt/supervisor.ts";
import { hosts } from "../../../src/dispatch/launch/hosts.ts";
import { MosaicError } from "../../../src/base/errors.ts";
import { RunFiles } from "../../../src/base/layout.ts";
import { createLogger } from "../../../src/base/log.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { groupAlive, signalGroup, signalProcess } from "../../../src/os/processes/signals.ts";
import type { DiskUsage } from "../../../src/registry/retention/disk_usage.ts";
import type { Registry } from "../../../src/registry/registry.ts";
import { configOf } from "../../harness/configs.ts";
import { until } from "../../harness/wait.ts";
import { EngineFixture } from "../../harness/engine.ts";

const command = ["/bin/true"];

/** Until it is given back, nothing can be written by the method. */
function withoutSpace(registry: Registry, method: "apply" | "update"): Disposable {
  Object.defineProperty(registry, method, {
    configurable: true,
    value: () => {
      throw new MosaicError("unavailable", "the disk is full");
    },
  });
  return { [Symbol.dispose]: () => void Reflect.deleteProperty(registry, method) };
}

Deno.test("cancel: what comes while the rest of a failed worker's group ends counts, and no attempt follows", async () => {
  await using f = EngineFixture.start({ graceSeconds: 600 });
  const metadata = { restart: { max_attempts: 2, backoff_s: 0 } };
  const { runId } = f.engine.submit(configOf({ command, metadata }));
  const stubborn = new Deno.Command("/bin/sh", {
    args: ["-c", "trap '' TERM; echo ready; exec sleep 600"],
    stdin: "null",
    stdout: "piped",
    detached: true,
  }).spawn();
  await stubborn.stdout.getReader().read();
  const worker = processRef(stubborn.pid)!;
  try {
    const proxy = await f.connect(runId);
    const { baseDir, workerId } = f.row(runId);
    const files = new RunFiles(f.layout.runDir(baseDir, runId), workerId);
    Deno.writeTextFileSync(files.workerFile(1), JSON.stringify(worker));
    proxy.exit({ code: 1 });
    assert.ok(groupAlive(worker));
    assert.equal(f.row(runId).state, "READY");
    f.engine.cancel(runId, { graceSeconds: 0 });
    const row = await f.state(runId, "CANCELLED");
    assert.equal(row.exitCode, 1);
    assert.ok(!groupAlive(worker));
  } finally {
    signalGroup(worker, "SIGKILL");
    await stubborn.status;
  }
});

Deno.test("delete: a run whose files are going cannot begin anew", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(10);
  proxy.exit();
  const deletion = f.engine.delete(runId, true);
  assert.throws(() => f.engine.retry(runId), /is being deleted/);
  await assert.rejects(f.engine.reset(runId, ""), /is being deleted/);
  // Whoever asks again waits for the same deletion.
  await f.engine.delete(runId, true);
  await deletion;
  assert.equal(f.registry.get(runId), undefined);
});

Deno.test("delete: a run that has just ended goes whole, what is still being made of its files included", async () => {
  const said: string[] = [];
  await using f = EngineFixture.start({
    log: createLogger({ sinks: [(line) => said.push(line)] }),
  });
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  const directory = f.layout.runDir(f.row(runId).baseDir, runId);
  Deno.mkdirSync(`${directory}/checkpoints`, { recursive: true });
  for (let i = 0; i < 1000; i++) Deno.writeTextFileSync(`${directory}/checkpoints/${i}`, "x");
  proxy.exit();
  await f.engine.delete(runId, true);
  await f.engine.close();
  assert.throws(() => Deno.statSync(directory), Deno.errors.NotFound);
  assert.deepEqual(said.filter((line) => line.includes("artifacts")), []);
});

/**
 * Until it is given back, a look at the disk takes ten seconds of the clock that says how long it
 * is kept.
 */
function costlyLooks({ telemetry }: EngineFixture): Disposable {
  const clock = performance.now.bind(performance);
  const bytesOfRuns = telemetry.bytesOfRuns.bind(telemetry);
  let ahead = 0;
  performance.now = () => clock() + ahead;
  telemetry.bytesOfRuns = () => {
    ahead += 10_000;
    return bytesOfRuns();
  };
  return { [Symbol.dispose]: () => void (performance.now = clock) };
}

Deno.test("disk usage: a look is kept for who only shows it; who deletes by it gets one of its own", async () => {
  await using f = EngineFixture.start();
  using _ = costlyLooks(f);
  const { runId } = f.engine.submit(configOf({ command }));
  await f.connect(runId);
  const bytes = async (look: Promise<DiskUsage>) => (await look).byRun.get(runId) ?? 0;
  const before = await bytes(f.engine.diskUsage());
  Deno.writeTextFileSync(`${f.layout.runDir(f.row(runId).baseDir, runId)}/big`, "x".repeat(10_000));
  assert.equal(await bytes(f.engine.diskUsage()), before);
  assert.equal(await bytes(f.engine.diskUsageNow()), before + 10_000);
  assert.equal(await bytes(f.engine.diskUsage()), before + 10_000);
});

Deno.test("disk usage: what a deletion that failed has removed counts no more", async () => {
  await using f = EngineFixture.start();
  using _ = costlyLooks(f);
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  proxy.exit();
  await f.state(runId, "TERMINATED");
  assert.ok((await f.engine.diskUsage()).byRun.has(runId));
  f.telemetry.delete = () => Promise.reject(new MosaicError("unavailable", "the disk is full"));
  await assert.rejects(f.engine.delete(runId, true), /the disk is full/);
  assert.ok(!(await f.engine.diskUsage()).byRun.has(runId));
});

Deno.test("disk usage: what a run that has ended was not to keep counts no more", async () => {
  await using f = EngineFixture.start();
  using _ = costlyLooks(f);
  const config = { ...JSON.parse(configOf({ command })), artifacts: { persist_logs: false } };
  const { runId } = f.engine.submit(JSON.stringify(config));
  const proxy = await f.connect(runId);
  const logs = new RunFiles(f.layout.runDir(f.row(runId).baseDir, runId), "").logs;
  Deno.mkdirSync(logs, { recursive: true });
  Deno.writeTextFileSync(`${logs}/worker.stdout.log`, "x".repeat(1 << 20));
  const bytes = async () => (await f.engine.diskUsage()).byRun.get(runId) ?? 0;
  assert.ok(await bytes() > 1 << 20);
  proxy.exit();
  // Less than what a look is kept for.
  await until(async () => await bytes() < 1 << 20, {
    what: "the logs to be gone",
    timeoutMs: 30_000,
  });
});

Deno.test("cancel: a waiting run is cancelled whole or not at all", async () => {
  await using f = EngineFixture.start({ maxRuns: 0 });
  const { runId } = f.engine.submit(configOf({ command }));
  {
    using _ = withoutSpace(f.registry, "apply");
    assert.throws(() => f.engine.cancel(runId), /disk is full/);
  }
  assert.equal(f.row(runId).cancelRequestedAt, null);
  assert.equal(f.engine.cancel(runId).state, "CANCELLED");
});

Deno.test("a full disk: a run that ends meanwhile can be cancelled until its end is entered", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  {
    using _ = withoutSpace(f.registry, "apply");
    assert.throws(() => proxy.exit({ code: 1 }), /disk is full/);
    assert.equal(f.engine.cancel(runId).state, "READY");
  }
  assert.equal((await f.state(runId, "CANCELLED")).exitCode, 1);
});

Deno.test("a full disk: a run that ends meanwhile can be reset until its end is entered", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  {
    using _ = withoutSpace(f.registry, "apply");
    assert.throws(() => proxy.exit(), /disk is full/);
  }
  assert.equal((await f.engine.reset(runId, "")).attempt, 2);
});

/**
 * A run whose proxy is a process that says nothing, under a supervisor whose clock is the test's.
 */
async function silentRun(
  work: (
    run: { f: EngineFixture; runId: string; said: string[]; tickAt(now: number): void },
  ) => void,
): Promise<void> {
  await using f = EngineFixture.start({ maxRuns: 0 });
  const { runId } = f.engine.submit(configOf({ command }));
  const child = new Deno.Command("sleep", { args: ["600"], stdin: "null", stdout: "null" }).spawn();
  const proxy = processRef(child.pid)!;
  try {
    f.registry.apply(runId, { type: "spawned" });
    f.registry.apply(runId, { type: "registered" }, { proxy });
    let now = 0;
    const { local, hostOf } = hosts({
      ...{
        log: f.engine.log,
        layout: f.layout,
        launcher: f.proxies,
        gpus: gpuPool(0),
        proxyTarget: () => "",
        workerTarget: () => "",
        trackingAddress: () => "",
        maxBacklogBytes: 0,
      },
      ...{ graceSeconds: 5, handshakeTimeoutSeconds: 1e6, heartbeatTimeoutSeconds: 1 },
      launchers: [],
      placer: () => {
        throw new Error("nothing is placed here");
      },
    });
    const said: string[] = [];
    const supervisor = new Supervisor({
      ...{ registry: f.registry, telemetry: f.telemetry, layout: f.layout, hostOf },
      ...{ log: createLogger({ sinks: [(line) => said.push(line)] }), clock: () => now },
      ...{
        graceSeconds: 5,
        heartbeatTimeoutSeconds: 1,
        maxStarting: 1,
        maxUploadBytes: 1,
        placeFor: () => 1,
      },
      ...{ onFileNamed: () => {}, onFilesDue: () => {}, onEnded: () => {}, onChanged: () => {} },
    });
    assert.equal(hostOf(planOf(f.row(runId).configJson)), local);
    supervisor.adopt(f.row(runId));
    const tickAt = (at: number) => {
      now = at;
      supervisor.tick();
    };
    work({ f, runId, said, tickAt });
  } finally {
    signalProcess(proxy, "SIGKILL");
    await child.status;
  }
}

Deno.test("a full disk: a silence that could not be entered then does not count when there is room again", async () => {
  await silentRun(({ f, runId, said, tickAt }) => {
    {
      using _ = withoutSpace(f.registry, "update");
      tickAt(1001);
      assert.match(said.join(), /disk is full/);
    }
    tickAt(1500);
    assert.equal(f.row(runId).faultRequested, null);
    tickAt(2002);
    assert.equal(f.row(runId).faultRequested, "heartbeat_timeout");
  });
});

Deno.test("the daemon did not run for a while: that time is no silence of a run, and the log says so", async () => {
  await silentRun(({ f, runId, said, tickAt }) => {
    tickAt(500);
    tickAt(600_000);
    assert.equal(f.row(runId).faultRequested, null);
    assert.match(said.join(), /"seconds":600,.*the daemon did not run for a while/);
    said.length = 0;
    // What is left of its second, then it has been silent for as long as the daemon was awake.
    tickAt(600_400);
    tickAt(600_501);
    assert.equal(f.row(runId).faultRequested, "heartbeat_timeout");
    assert.doesNotMatch(said.join(), /did not run/);
  });
});

Deno.test("no process can be created and the registry cannot be written: the attempt begins anew", async () => {
  let broken: Disposable | undefined;
  let tries = 0;
  await using f = EngineFixture.start({
    launcher: {
      start(): never {
        if (tries++ === 0) broken = withoutSpace(f.registry, "apply");
        throw new Error("Resource temporarily unavailable (os error 11)");
      },
    },
  });
  const { runId } = f.engine.submit(configOf({ command }));
  await until(() => broken !== undefined, { what: "the first try" });
  assert.equal(f.row(runId).state, "HANDSHAKE");
  broken![Symbol.dispose]();
  await f.state(runId, "INIT");
  f.engine.cancel(runId);
});

Deno.test("a batch that the store refuses for its content: the rest of it is stored, an event says what was not, and the next one follows", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(2);
  const db = new DatabaseSync(f.layout.telemetryDb);
  db.exec(
    "CREATE TRIGGER refuse BEFORE INSERT ON episodes BEGIN SELECT RAISE(ABORT, 'no such episode'); END",
  );
  const episode = {
    ...EMPTY_EPISODE,
    ...{ episode: 1, totalReward: 1, steps: 1, terminated: true },
  };
  await proxy.batch({ steps: { n: 1, step: [2] }, episodes: [episode] });
  await proxy.steps(1);
  const { steps, episodes, journalPosition, violations } = f.telemetry.summary(runId);
  assert.deepEqual([steps, episodes, journalPosition], [4, 0, 300]);
  assert.deepEqual(violations, { "store: records were refused": 1 });
  const told = f.registry.eventsSince(0, { runId, limit: 100 }).filter(({ kind }) =>
    kind === "records_refused"
  );
  assert.deepEqual(told.map(({ dataJson }) => JSON.parse(dataJson)), [
    { from: 100, to: 200, records: 1, reason: "no such episode", telemetry_seq: 1 },
  ]);
  // Nothing at all is taken, the notice neither: the place in the log goes on all the same, and is
  // counted.
  for (const table of ["step_blocks", "worker_events"]) {
    db.exec(
      `CREATE TRIGGER refuse_${table} BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'nothing'); END`,
    );
  }
  await proxy.steps(3);
  assert.equal(f.telemetry.summary(runId).journalPosition, 400);
  assert.deepEqual(f.telemetry.summary(runId).violations, { "store: records were refused": 4 });
  db.exec(
    "DROP TRIGGER refuse; DROP TRIGGER refuse_step_blocks; DROP TRIGGER refuse_worker_events",
  );
  db.close();
  await proxy.steps(1);
  assert.equal(f.telemetry.summary(runId).steps, 5);
});

Deno.test("a batch that cannot be stored for want of memory is no refused one: nothing of it is passed over", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(2);
  const { deliver } = f.telemetry;
  f.telemetry.deliver = () => {
    throw Object.assign(new Error("out of memory"), { errcode: 7 });
  };
  await assert.rejects(() => proxy.steps(3), /out of memory/);
  f.telemetry.deliver = deliver;
  const { steps, journalPosition, violations } = f.telemetry.summary(runId);
  assert.deepEqual([steps, journalPosition, violations], [2, 100, {}]);
});
