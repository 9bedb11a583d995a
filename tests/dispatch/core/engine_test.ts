import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { workerToken } from "../../../src/base/session_tokens.ts";
import { MosaicError } from "../../../src/base/errors.ts";
import { configOf } from "../../harness/configs.ts";
import { until } from "../../harness/wait.ts";
import { EngineFixture } from "../../harness/engine.ts";

const command = ["/bin/true"];
const rejected = (code: string, text: RegExp) => (e: unknown) =>
  e instanceof MosaicError && e.code === code && text.test(e.message);
/** As a damaged disk or somebody's hand would. */
function setState(f: EngineFixture, runId: string, state: string): void {
  const db = new DatabaseSync(f.layout.registryDb);
  db.prepare("UPDATE runs SET state = ? WHERE run_id = ?").run(state, runId);
  db.close();
}
const filesIn = (directory: string) => [...Deno.readDirSync(directory)].map((entry) => entry.name);

Deno.test("submit: the same config is one run while it lives and a new one when it has ended", async () => {
  await using f = EngineFixture.start();
  const config = configOf({ command });
  const first = f.engine.submit(config);
  assert.deepEqual(f.engine.submit(config), first);
  const proxy = await f.connect(first.runId);
  proxy.exit();
  await f.state(first.runId, "TERMINATED");
  const second = f.engine.submit(config);
  assert.notEqual(second.runId, first.runId);
  assert.equal(second.digest, first.digest);
});

Deno.test("submit: a run id that another config has is refused", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  assert.throws(
    () => f.engine.submit(configOf({ command }), runId),
    rejected("already_exists", /taken by a run/),
  );
});

Deno.test("submit: what is rejected leaves no row and no file", async () => {
  await using f = EngineFixture.start({ gpuCount: 1, bounds: { maxQueue: 0 } });
  const gpus = { requested: 2, mandatory: true };
  assert.throws(
    () => f.engine.submit(configOf({ command, gpus })),
    rejected("resource_exhausted", /this host has 1/),
  );
  assert.throws(
    () => f.engine.submit(configOf({ command })),
    rejected("resource_exhausted", /queue is full/),
  );
  assert.throws(() => f.engine.submit("{}"), rejected("invalid_argument", /run_name/));
  assert.deepEqual(filesIn(f.layout.configs), []);
  assert.equal(f.registry.count({}), 0);
});

Deno.test("a run: started, registered, executing, terminated, each with its event", async () => {
  await using f = EngineFixture.start({ gpuCount: 2 });
  const { runId } = f.engine.submit(configOf({ command, gpus: { requested: 1 } }));
  const proxy = await f.connect(runId);
  assert.equal(f.row(runId).state, "READY");
  assert.deepEqual(f.row(runId).gpuSlots, [0]);
  await proxy.steps(7);
  assert.equal(f.row(runId).state, "EXECUTING");
  assert.equal(f.engine.detail(f.row(runId)).telemetry.steps, 7);
  proxy.exit();
  const row = await f.state(runId, "TERMINATED");
  assert.equal(row.outcome, "succeeded");
  assert.equal(row.exitCode, 0);
  assert.deepEqual(f.registry.gpus.slots().map((slot) => slot.runId), [null, null]);
  assert.deepEqual(f.eventKinds(runId), ["queued", "started", "completed"]);
  assert.deepEqual(f.registry.transitions(runId).map((t) => t.to), [
    "INIT",
    "HANDSHAKE",
    "READY",
    "EXECUTING",
    "TERMINATED",
  ]);
});

Deno.test("a run: its exit is not taken before its journal is stored", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  assert.throws(() => proxy.exit({ finalPosition: 5 }), rejected("aborted", /before the journal/));
  assert.equal(f.row(runId).state, "READY");
});

Deno.test("a run: one that said run_failed and exits with 0 has failed", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.event("run_failed", { error: "no such opening" });
  proxy.exit();
  assert.equal((await f.state(runId, "FAULTED")).reason, "run_failed: no such opening");
  assert.deepEqual(f.eventKinds(runId), ["queued", "started", "run_failed", "failed"]);
});

Deno.test("cancel: a waiting run ends at once, a running one when its proxy reports the end; both only once", async () => {
  await using f = EngineFixture.start({ maxRuns: 1 });
  const { runId: running } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(running);
  const { runId: waiting } = f.engine.submit(configOf({ command }));
  await until(() => f.engine.detail(f.row(waiting)).queuePosition === 1, {
    what: "a place in the queue",
  });
  assert.equal(f.engine.cancel(waiting).state, "CANCELLED");
  assert.equal(f.engine.cancel(waiting).reason, "user_cancel");

  const requested = f.engine.cancel(running, { graceSeconds: 2 });
  assert.equal(requested.state, "READY");
  assert.notEqual(requested.cancelRequestedAt, null);
  f.engine.cancel(running, { graceSeconds: 2 });
  assert.equal(proxy.stops.length, 1);
  assert.ok(proxy.stops[0]! <= 2);
  proxy.exit({ code: null, signal: "SIGTERM" });
  const row = await f.state(running, "CANCELLED");
  assert.equal(row.outcome, "canceled");
  assert.equal(row.reason, "user_cancel");
});

Deno.test("cancel: while the proxy is starting no worker is started any more", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  await f.state(runId, "HANDSHAKE");
  f.engine.cancel(runId);
  assert.equal((await f.state(runId, "CANCELLED")).exitCode, null);
  const [started] = f.proxies.started;
  // A wrapper that is late finds its place taken.
  assert.deepEqual(filesIn(`${started!.proxy.runDir}/.mosaic`).toSorted(), [
    "proxy-1.json",
    "worker-1.json",
  ]);
});

Deno.test("GPUs: a run waits for them, says so, and starts when they are free", async () => {
  await using f = EngineFixture.start({ gpuCount: 1 });
  const gpus = { requested: 1, mandatory: true };
  const { runId: first } = f.engine.submit(configOf({ command, gpus }));
  const proxy = await f.connect(first);
  const { runId: second } = f.engine.submit(configOf({ command, gpus }));
  const why = `1 GPU (0 free, 1 with ${f.row(first).name} ${first})`;
  await until(() => f.engine.detail(f.row(second)).waitingFor === why, {
    what: "the reason it waits",
  });
  proxy.exit();
  await f.connect(second);
  assert.deepEqual(f.row(second).gpuSlots, [0]);
  assert.deepEqual(f.row(first).gpuSlots, []);
});

Deno.test("restart: a failed attempt is followed by the next, from the newest checkpoint", async () => {
  await using f = EngineFixture.start();
  const metadata = { restart: { max_attempts: 2, backoff_s: 0 } };
  const { runId } = f.engine.submit(configOf({ command, metadata }));
  const first = await f.connect(runId);
  await first.event("checkpoint_saved", { checkpoint_path: "/c/1", step: 10 });
  await first.event("checkpoint_saved", { path: "/c/2", step: 20 });
  first.exit({ code: 3 });
  const second = await f.connect(runId, 2);
  assert.equal(f.row(runId).resumeFrom, "/c/2");
  second.exit({ code: 4 });
  assert.equal((await f.state(runId, "FAULTED", 2)).reason, "exit_code_4");
  assert.deepEqual(f.eventKinds(runId), [
    "queued",
    "started",
    "checkpoint_saved",
    "checkpoint_saved",
    "faulted",
    "queued",
    "started",
    "failed",
  ]);
});

Deno.test("retry and reset: an ended run begins anew from its checkpoint, or from where one says", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const first = await f.connect(runId);
  assert.throws(
    () => f.engine.retry(runId),
    rejected("failed_precondition", /only a run that has ended/),
  );
  await first.event("checkpoint_saved", { path: "/c/1" });
  first.exit({ code: 1 });
  await f.state(runId, "FAULTED");
  assert.equal(f.engine.retry(runId).resumeFrom, "/c/1");
  const second = await f.connect(runId, 2);
  const reset = f.engine.reset(runId, "");
  assert.equal(second.stops.length, 1);
  second.exit({ code: null, signal: "SIGTERM" });
  assert.equal((await reset).attempt, 3);
  assert.equal(f.row(runId).resumeFrom, null);
  assert.ok(f.registry.transitions(runId).some((t) => t.to === "FAULTED" && t.reason === "reset"));
});

Deno.test("retry and reset: an imported run is refused another attempt, and stays as it is", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(
    configOf({ command: ["mosaic:import-worker", "/nowhere/progress.csv"] }),
  );
  const proxy = await f.connect(runId);
  const refused = rejected("failed_precondition", /is imported and has one attempt/);
  await assert.rejects(f.engine.reset(runId, ""), refused);
  assert.equal(proxy.stops.length, 0);
  proxy.exit();
  const ended = await f.state(runId, "TERMINATED");
  assert.throws(() => f.engine.retry(runId), refused);
  await assert.rejects(f.engine.reset(runId, ""), refused);
  assert.deepEqual(f.row(runId), ended);
});

Deno.test("reset: a checkpoint that is an artifact is found in the run's directory; any other path is the worker's business", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  (await f.connect(runId)).exit({ code: 0 });
  await f.state(runId, "TERMINATED");
  const file = { kind: "checkpoint", bytes: 1, sha256: "", step: null, windowId: "", at: 1 };
  f.registry.putArtifact({ runId, path: "checkpoints/5/weights.pt", ...file });
  const from = async (path: string) => {
    const { resumeFrom, attempt } = await f.engine.reset(runId, path);
    f.engine.cancel(runId);
    await f.state(runId, "CANCELLED", attempt);
    return resumeFrom;
  };
  const directory = f.engine.detail(f.row(runId)).directory;
  assert.equal(await from("checkpoints/5/weights.pt"), `${directory}/checkpoints/5/weights.pt`);
  assert.equal(await from("checkpoints/5"), `${directory}/checkpoints/5`);
  assert.equal(await from("checkpoints/6"), "checkpoints/6");
  assert.equal(await from("/elsewhere/7.pt"), "/elsewhere/7.pt");
});

Deno.test("preflight: a failing check faults the run before anything is started", async () => {
  await using f = EngineFixture.start();
  const metadata = { preflight: { files: ["/no/such/file"] } };
  const { runId } = f.engine.submit(configOf({ command, metadata }));
  assert.match((await f.state(runId, "FAULTED")).reason!, /^preflight: .*\/no\/such\/file/);
  assert.deepEqual(f.proxies.started, []);
});

Deno.test("limits: a run that goes beyond max_steps is stopped, and its reason says so", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command, schedule: { max_steps: 10 } }));
  const proxy = await f.connect(runId);
  await proxy.steps(11);
  await until(() => proxy.stops.length > 0, { what: "the proxy to be told to stop" });
  proxy.exit({ code: null, signal: "SIGTERM" });
  assert.equal((await f.state(runId, "FAULTED")).reason, "max_steps");
});

Deno.test("pause, resume, throttle: what is wanted reaches the proxy, and the state follows what it says is in force", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(1);
  assert.equal(f.engine.pause(runId).state, "EXECUTING");
  f.engine.throttle(runId, 50);
  assert.deepEqual(proxy.desired.at(-1), { paused: true, maxRateHz: 50, workerHears: false });
  proxy.session.controlApplied({ paused: true, maxRateHz: 50, selfPaused: "" });
  assert.equal(f.row(runId).state, "PAUSED");
  f.engine.resume(runId);
  proxy.session.controlApplied({ paused: false, maxRateHz: 50, selfPaused: "" });
  assert.equal(f.row(runId).state, "EXECUTING");
  assert.throws(() => f.engine.throttle(runId, -1), rejected("invalid_argument", /max_rate_hz/));
});

Deno.test("register: the proxy and the worker may both, and neither undoes the other", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(1);
  const request = {
    runId,
    workerId: "",
    workerKind: "cleanrl",
    protoVersion: "MOSAIC/1.0",
    schemaId: "cleanrl.ppo",
    schemaVersion: 1,
    supportsPause: true,
    supportsCheckpoint: false,
  };
  // Not the proxy's own: a worker that registers could take the delivery over with it.
  const token = workerToken(f.row(runId).sessionToken!);
  assert.deepEqual(f.engine.registerWorker(request), {
    acceptedVersion: "MOSAIC/1.0",
    sessionToken: token,
  });
  f.engine.registerWorker({ ...request, workerKind: "telemetry_proxy", supportsPause: false });
  const { state, workerKind, supportsPause } = f.row(runId);
  assert.deepEqual({ state, workerKind, supportsPause }, {
    state: "EXECUTING",
    workerKind: "cleanrl",
    supportsPause: true,
  });
  assert.throws(
    () => f.engine.registerWorker({ ...request, protoVersion: "MOSAIC/2.0" }),
    rejected("failed_precondition", /MOSAIC\/2\.0.*MOSAIC\/1\.0/),
  );
});

Deno.test("sessions: a newer proxy replaces the older, whose words no longer count", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const older = await f.connect(runId);
  await older.steps(3);
  const newer = await f.connect(runId);
  await assert.rejects(() => older.steps(1), rejected("aborted", /replaced this one/));
  await newer.steps(2);
  assert.equal(f.telemetry.head(runId, "steps"), 5);
});

Deno.test("delete: an ended run goes with its files and telemetry, a living one stays", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await assert.rejects(
    f.engine.delete(runId, true),
    rejected("failed_precondition", /cannot be deleted/),
  );
  await proxy.steps(5);
  proxy.exit();
  await f.state(runId, "TERMINATED");
  const { freedBytes } = await f.engine.delete(runId, true);
  assert.ok(freedBytes > 0);
  assert.equal(f.registry.get(runId), undefined);
  assert.equal(f.telemetry.head(runId, "steps"), 0);
  assert.deepEqual(filesIn(f.layout.configs), []);
});

Deno.test("delete: into the trash ends those who follow the run, and keeps its records; the trash can be removed", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await assert.rejects(
    f.engine.delete(runId, false),
    rejected("failed_precondition", /cannot be deleted/),
  );
  await proxy.steps(5);
  proxy.exit();
  await f.state(runId, "TERMINATED");
  using followed = f.telemetry.follow(runId);
  const { until: keptUntil, freedBytes } = await f.engine.delete(runId, false);
  assert.deepEqual([freedBytes, followed.deleted.aborted], [0, true]);
  assert.ok(keptUntil! > Date.now());
  assert.throws(() => f.engine.retry(runId), rejected("not_found", /there is no run/));
  await assert.rejects(f.engine.delete(runId, false), rejected("not_found", /there is no run/));
  await f.engine.close();
  await using next = f.successor();
  assert.equal(next.registry.get(runId), undefined);
  assert.equal(next.engine.restore(runId).state, "TERMINATED");
  assert.equal(next.telemetry.head(runId, "steps"), 5);
  await next.engine.delete(runId, false);
  assert.ok((await next.engine.delete(runId, true)).freedBytes > 0);
  assert.equal(next.registry.known(runId), undefined);
});

Deno.test("delete: one that was cut short is finished by the next daemon; who asks twice gets the same answer", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(3);
  proxy.exit();
  await f.state(runId, "TERMINATED");
  // A daemon that was killed here has noted that it deletes, and removed the files.
  f.registry.beginDelete(runId);
  // What is still being made of the run's files is made first.
  await f.engine.close();
  await Deno.remove(f.layout.runDir(f.row(runId).baseDir, runId), { recursive: true });
  await using next = f.successor();
  await until(() => next.registry.get(runId) === undefined, {
    what: "the deletion to be finished",
  });
  assert.equal(next.telemetry.head(runId, "steps"), 0);
  assert.deepEqual(next.registry.beingDeleted(), []);

  const second = next.engine.submit(configOf({ command }));
  (await next.connect(second.runId)).exit();
  await next.state(second.runId, "TERMINATED");
  const both = await Promise.all([
    next.engine.delete(second.runId, true),
    next.engine.delete(second.runId, true),
  ]);
  assert.deepEqual(both[0], both[1]);
});

Deno.test("delete: a run whose state cannot be read, or whose processes live, stays with its files", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  const config = f.layout.configFile(runId);
  for (
    const [state, why] of [["FLYING", /state in the registry cannot be read/], [
      "FAULTED",
      /still supervised/,
    ]] as const
  ) {
    setState(f, runId, state);
    await assert.rejects(f.engine.delete(runId, true), rejected("failed_precondition", why));
    assert.ok(Deno.statSync(config).isFile);
  }
  setState(f, runId, "FLYING");
  proxy.exit();
  await until(() => f.row(runId).damaged.length === 0, { what: "the end to be entered" });
  assert.equal(f.row(runId).state, "TERMINATED");
  await f.engine.delete(runId, true);
  assert.equal(f.registry.get(runId), undefined);
});

Deno.test("recovery: a run whose state cannot be read is quarantined, and its GPU is free", async () => {
  await using f = EngineFixture.start({ gpuCount: 1 });
  const { runId } = f.engine.submit(configOf({ command, gpus: { requested: 1 } }));
  await f.connect(runId);
  await f.engine.close();
  setState(f, runId, "FLYING");
  await using next = f.successor(1);
  const row = next.row(runId);
  assert.deepEqual(row.damaged, []);
  assert.equal(row.state, "FAULTED");
  assert.match(
    row.reason!,
    /^recovery_failed: the row of run \S+ in the registry is damaged \(state cannot be read\)$/,
  );
  assert.match(row.hint!, /doctor --repair/);
  assert.ok(row.finishedAt !== null);
  assert.equal(row.outcome, "failed");
  assert.deepEqual(next.registry.gpus.slots(), [{ slot: 0, runId: null, shares: [] }]);
  assert.equal(next.eventKinds(runId).at(-1), "failed");
  assert.deepEqual(next.registry.transitions(runId).map(({ from, to }) => [from, to]).at(-1), [
    null,
    "FAULTED",
  ]);
});

Deno.test("limits: a proxy that never registers ends the run with its reason", async () => {
  await using f = EngineFixture.start({ handshakeTimeoutSeconds: 0.1 });
  const { runId } = f.engine.submit(configOf({ command }));
  const row = await f.state(runId, "FAULTED");
  assert.equal(row.reason, "handshake_timeout");
  assert.match(row.hint!, /proxy\.log/);
});

Deno.test("limits: a run that gives no sign of life is stopped", async () => {
  await using f = EngineFixture.start({ heartbeatTimeoutSeconds: 0.1 });
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.steps(1);
  await until(() => proxy.stops.length > 0, { what: "the proxy to be told to stop" });
  proxy.exit({ code: null, signal: "SIGKILL" });
  assert.equal((await f.state(runId, "FAULTED")).reason, "heartbeat_timeout");
});

Deno.test("strict telemetry: a record that breaks the schema faults the run", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(
    configOf({ command, metadata: { telemetry: { strict: true } } }),
  );
  const proxy = await f.connect(runId);
  await proxy.batch({ steps: { n: 1 }, violations: { "step: reward must be number": 1 } });
  assert.equal(proxy.stops.length, 1);
  proxy.exit({ code: null, signal: "SIGTERM" });
  assert.equal(
    (await f.state(runId, "FAULTED")).reason,
    "telemetry_schema: step: reward must be number",
  );
});

Deno.test("a restarted daemon: what an earlier one stored and did not note is noted, once", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const proxy = await f.connect(runId);
  await proxy.event("checkpoint_saved", { path: "/c/1" });
  // What a crash between the two commits leaves: stored telemetry without its event.
  f.telemetry.ingest(runId, 1, {
    from: proxy.position,
    to: proxy.position + 1,
    steps: { n: 0 },
    episodes: [],
    events: [{ kind: "checkpoint_saved", dataJson: '{"path":"/c/2"}', tsNs: "" }],
    otherLines: 0,
    malformedLines: 0,
    violations: {},
  });
  await f.engine.close();
  await using next = f.successor();
  const later = await next.connect(runId);
  assert.equal(later.position, 101);
  assert.deepEqual(next.eventKinds(runId), [
    "queued",
    "started",
    "checkpoint_saved",
    "checkpoint_saved",
  ]);
});

Deno.test("a restarted daemon: cancellations and faults that were asked for are carried on", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ command }));
  const first = await f.connect(runId);
  await first.steps(1);
  f.engine.cancel(runId);
  await f.engine.close();
  await using next = f.successor();
  const proxy = await next.connect(runId);
  await until(() => proxy.stops.length === 1, { what: "the proxy to be told to stop" });
  proxy.exit({ code: null, signal: "SIGTERM" });
  await next.state(runId, "CANCELLED");
});

Deno.test("backpressure: a run that wants it is held while a reader has no credits", async () => {
  await using f = EngineFixture.start();
  const metadata = { backpressure: { policy: "pause", starved_seconds: 0.001 } };
  const { runId } = f.engine.submit(configOf({ command, metadata }));
  const proxy = await f.connect(runId);
  await proxy.steps(1);
  f.engine.readerStarved(runId, true);
  await until(() => proxy.desired.at(-1)?.paused === true, {
    what: "the proxy to be told to pause",
  });
  proxy.session.controlApplied({ paused: true, maxRateHz: 0, selfPaused: "" });
  assert.deepEqual([f.row(runId).state, f.row(runId).reason], ["PAUSED", "backpressure"]);
  f.engine.readerStarved(runId, false);
  await until(() => proxy.desired.at(-1)?.paused === false, {
    what: "the proxy to be told to go on",
  });
  proxy.session.controlApplied({ paused: false, maxRateHz: 0, selfPaused: "" });
  assert.equal(f.row(runId).state, "EXECUTING");
});
