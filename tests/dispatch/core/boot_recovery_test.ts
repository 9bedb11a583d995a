/** What the next daemon does, by the point at which the one before it died. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../../../src/base/errors.ts";
import { RunFiles } from "../../../src/base/layout.ts";
import { processRef } from "../../../src/os/processes/identity.ts";
import { configOf } from "../../harness/configs.ts";
import { until } from "../../harness/wait.ts";
import { EngineFixture, PlayedProxy } from "../../harness/engine.ts";

const command = ["/bin/true"];
const gpus = { requested: 1, mandatory: true };

/** A daemon that dispatches nothing, so that a test can write what a crash would have left. */
const idle = () => EngineFixture.start({ gpuCount: 2, maxRuns: 0 });

function filesOf(f: EngineFixture, runId: string): RunFiles {
  const row = f.row(runId);
  const files = new RunFiles(f.layout.runDir(row.baseDir, runId), row.workerId);
  Deno.mkdirSync(files.control, { recursive: true });
  Deno.mkdirSync(files.logs, { recursive: true });
  return files;
}

Deno.test("crash after the GPUs were claimed: the run starts with the slots it holds", async () => {
  await using f = idle();
  const { runId } = f.engine.submit(configOf({ command, gpus }));
  f.registry.gpus.claim(runId, [1]);
  await f.engine.close();
  await using next = f.successor(2);
  await next.connect(runId);
  assert.deepEqual(next.row(runId).gpuSlots, [1]);
});

Deno.test("crash after the transition and before the proxy: the attempt begins anew", async () => {
  await using f = idle();
  const { runId } = f.engine.submit(configOf({ command, gpus }));
  f.registry.gpus.claim(runId, [0]);
  f.registry.apply(runId, { type: "spawned" });
  await f.engine.close();
  await using next = f.successor(2);
  await next.connect(runId);
  assert.equal(next.row(runId).attempt, 1);
  assert.deepEqual(next.registry.transitions(runId).map((t) => t.event), [
    "submit",
    "spawned",
    "requeued",
    "spawned",
    "registered",
  ]);
  assert.deepEqual(next.row(runId).gpuSlots.length, 1);
});

Deno.test("crash after the worker was started: a new proxy attaches, and no second worker is started", async () => {
  await using f = idle();
  const { runId } = f.engine.submit(configOf({ command }));
  f.registry.apply(runId, { type: "spawned" }, {
    proxy: { pid: 999_999_999, identity: "of an earlier boot" },
  });
  const worker = JSON.stringify({ pid: 999_999_998, identity: "of an earlier boot" });
  Deno.writeTextFileSync(filesOf(f, runId).workerFile(1), worker);
  await f.engine.close();
  await using next = f.successor(2);
  const proxy = await next.connect(runId);
  assert.deepEqual(next.proxies.started.map((s) => s.proxy.attach), [true]);
  proxy.exit({ code: null, lost: true });
  assert.equal((await next.state(runId, "FAULTED")).reason, "worker_lost");
});

Deno.test("crash between a failure and its next attempt: the attempt follows", async () => {
  await using f = idle();
  const metadata = { restart: { max_attempts: 2, backoff_s: 0 } };
  const { runId } = f.engine.submit(configOf({ command, metadata }));
  f.registry.apply(runId, { type: "spawned" });
  f.registry.apply(runId, { type: "failed", reason: "exit_code_1" });
  await f.engine.close();
  await using next = f.successor(2);
  await next.connect(runId, 2);
});

Deno.test("crash between a failure and its next attempt: the attempt follows however many runs have failed since", async () => {
  await using f = idle();
  const metadata = { restart: { max_attempts: 2, backoff_s: 0 } };
  const { runId } = f.engine.submit(configOf({ command, metadata }));
  f.registry.apply(runId, { type: "failed", reason: "exit_code_1" });
  const {
    name,
    digest,
    priority,
    tags,
    baseDir,
    configJson,
    gpusRequested,
    gpusMandatory,
    workerId,
    agentId,
  } = f.row(
    runId,
  );
  const alike = {
    name,
    digest,
    priority,
    tags,
    baseDir,
    configJson,
    gpusRequested,
    gpusMandatory,
    workerId,
    agentId,
  };
  for (let i = 0; i < 1001; i++) {
    const later = `Z${String(i).padStart(25, "0")}`;
    f.registry.insert({ ...alike, runId: later, maxAttempts: 1, owner: "" });
    f.registry.apply(later, { type: "failed", reason: "exit_code_1" });
  }
  await f.engine.close();
  await using next = f.successor(2);
  await next.connect(runId, 2);
});

Deno.test("crash between a request and its end: a waiting run that was cancelled is not started", async () => {
  await using f = idle();
  const { runId } = f.engine.submit(configOf({ command }));
  f.registry.update(runId, { cancelRequestedAt: Date.now(), cancelReason: "user_cancel" });
  await f.engine.close();
  await using next = f.successor(2);
  assert.equal(next.row(runId).state, "CANCELLED");
  assert.deepEqual(next.proxies.started, []);
});

Deno.test("proxies that end before they start anything are tried again a few times only", async () => {
  const launcher = {
    start(_: unknown, logFile: string) {
      Deno.writeTextFileSync(logFile, "it ends\n");
      const child = new Deno.Command("true", { stdin: "null" }).spawn();
      return { process: undefined, exited: child.status };
    },
  };
  await using f = EngineFixture.start({ launcher });
  const { runId } = f.engine.submit(configOf({ command }));
  const row = await f.state(runId, "FAULTED");
  assert.match(row.reason!, /^spawn_failed: the proxy ends/);
  assert.match(row.hint!, /proxy\.log/);
  await until(() => f.eventKinds(runId).includes("failed"), { what: "the failed event" });
});

Deno.test("a run that cannot be recovered is quarantined with the reason, and the others are recovered", async () => {
  await using f = idle();
  const [damaged, refused, whole] = [1, 2, 3].map(() =>
    f.engine.submit(configOf({ command })).runId
  ) as [
    string,
    string,
    string,
  ];
  for (const runId of [damaged, whole]) f.registry.apply(runId, { type: "spawned" });
  f.registry.update(refused, { cancelRequestedAt: Date.now() });
  await f.engine.close();
  const db = new DatabaseSync(f.layout.registryDb);
  db.prepare("UPDATE runs SET config_json = '{}' WHERE run_id = ?").run(damaged);
  db.exec(`CREATE TRIGGER refuse BEFORE UPDATE ON runs WHEN OLD.run_id = '${refused}'
    BEGIN SELECT RAISE(ABORT, 'not this run'); END`);
  await using next = f.successor(2);
  assert.equal(next.row(damaged).state, "FAULTED");
  assert.match(next.row(damaged).reason!, /^recovery_failed: the stored config is damaged/);
  assert.equal(next.row(refused).state, "INIT", "what cannot be written stays as it was");
  await next.connect(whole);
  assert.equal(next.row(whole).attempt, 1);
  db.close();
});

Deno.test("a run that is quarantined half recovered is served by no proxy, and nothing supervises it", async () => {
  await using f = idle();
  const { runId } = f.engine.submit(configOf({ command }));
  f.registry.apply(runId, { type: "spawned" });
  await f.engine.close();
  const { head } = f.telemetry;
  f.telemetry.head = () => {
    throw new MosaicError("internal", "a page of the store is damaged");
  };
  await using next = f.successor(2);
  f.telemetry.head = head;
  assert.match(next.row(runId).reason!, /^recovery_failed: /);
  const hello = {
    runId,
    attempt: 1,
    workerId: "",
    agentId: "",
    proxy: processRef(Deno.pid)!,
    worker: null,
    version: "1",
  };
  assert.throws(() => next.engine.openProxy(hello, new PlayedProxy()), /no proxy can serve it/);
});

Deno.test("GPU slots that cannot be entered keep back runs that want some, and no others", async () => {
  await using f = idle();
  const { runId: wantsOne } = f.engine.submit(configOf({ command, gpus }));
  const { runId: wantsNone } = f.engine.submit(configOf({ command }));
  await f.engine.close();
  const db = new DatabaseSync(f.layout.registryDb);
  db.exec(`CREATE TRIGGER full BEFORE UPDATE ON gpu_slots WHEN NEW.run_id IS NULL
    BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`);
  await using next = f.successor(2);
  await next.connect(wantsNone);
  assert.equal(next.row(wantsOne).state, "INIT");
  const { waitingFor } = next.engine.detail(next.row(wantsOne));
  assert.match(waitingFor, /^1 GPU \(.*cannot be entered/);
  db.exec("DROP TRIGGER full");
  db.close();
  await next.connect(wantsOne);
});

/** Until it is given back, nothing of the run can be read from the telemetry store. */
function unreadable(f: EngineFixture, runId: string): Disposable {
  const { summary } = f.telemetry;
  f.telemetry.summary = (id) => {
    if (id === runId) throw new MosaicError("unavailable", "the disk is full");
    return summary.call(f.telemetry, id);
  };
  return { [Symbol.dispose]: () => void (f.telemetry.summary = summary) };
}

Deno.test("a run that cannot be recovered yet keeps its place and its GPUs, and no other run back", async () => {
  await using f = EngineFixture.start({ gpuCount: 2 });
  const { runId } = f.engine.submit(configOf({ command, gpus }));
  const { runId: other } = f.engine.submit(configOf({ command }));
  for (const id of [runId, other]) await f.connect(id);
  await f.engine.close();
  const trouble = unreadable(f, runId);
  await using next = f.successor(2, { maxRuns: 3 });
  const { runId: begins } = next.engine.submit(configOf({ command, gpus }));
  await next.connect(begins);
  assert.notDeepEqual(next.row(begins).gpuSlots, next.row(runId).gpuSlots);
  const { runId: waits } = next.engine.submit(configOf({ command }));
  await until(
    () => next.engine.detail(next.row(waits)).waitingFor.startsWith("a place among the 3"),
    {
      what: "the fourth run to wait for a place",
    },
  );
  trouble[Symbol.dispose]();
  const proxy = await until(() => admitted(next, runId), { what: "its proxy to be let in" });
  proxy.exit();
  await next.state(runId, "TERMINATED");
  await next.connect(waits);
});

/** Undefined while the daemon sends the run's proxy away, to come again. */
function admitted(f: EngineFixture, runId: string): Promise<PlayedProxy | undefined> {
  return f.connect(runId).catch((error) => {
    if (error instanceof MosaicError && error.code === "unavailable") return undefined;
    throw error;
  });
}

Deno.test("a run that somebody cancels while it waits to be recovered is recovered once, and ends as cancelled", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  await f.connect(runId);
  await f.engine.close();
  const trouble = unreadable(f, runId);
  await using next = f.successor();
  assert.throws(() => next.engine.cancel(runId), /disk is full/);
  trouble[Symbol.dispose]();
  next.engine.cancel(runId);
  const proxy = await next.connect(runId);
  // The recovery that is tried again finds it recovered: the session stays the one that counts.
  const { runId: woken } = next.engine.submit(configOf({ command }));
  await next.connect(woken);
  proxy.exit({ code: null, signal: "SIGTERM" });
  await next.state(runId, "CANCELLED");
});

Deno.test("no room at the start: nothing is started, runs can be looked at, and all is recovered when there is free space", async () => {
  await using f = idle();
  const { runId: waiting } = f.engine.submit(configOf({ command, gpus }));
  const { runId: cancelled } = f.engine.submit(configOf({ command }));
  f.registry.update(cancelled, { cancelRequestedAt: Date.now() });
  await f.engine.close();
  const db = new DatabaseSync(f.layout.registryDb);
  for (const table of ["gpu_slots", "runs"]) {
    db.exec(`CREATE TRIGGER full_${table} BEFORE UPDATE ON ${table}
      BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END`);
  }
  await using next = f.successor(2);
  assert.deepEqual([next.row(waiting).state, next.row(cancelled).state], ["INIT", "INIT"]);
  assert.equal(next.engine.list({}, { limit: 10 }).total, 2);
  assert.equal(next.proxies.started.length, 0);
  db.exec("DROP TRIGGER full_gpu_slots; DROP TRIGGER full_runs");
  db.close();
  await next.connect(waiting);
  assert.equal(next.row(cancelled).state, "CANCELLED");
});
