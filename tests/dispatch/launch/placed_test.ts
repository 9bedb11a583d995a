/**
 * Runs that an engine places, with a scripted one: what it does wrong must not make a second
 * worker, nor lose a run.
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { MosaicError } from "../../../src/base/errors.ts";
import type { Order } from "../../../src/dispatch/launch/engine/launcher.ts";
import { migrate, MIGRATIONS } from "../../../src/registry/migrations.ts";
import { configOf } from "../../harness/configs.ts";
import { EngineFixture, PlayedProxy } from "../../harness/engine.ts";
import { type ScriptedJob, ScriptedLauncher } from "../../harness/scripted_launcher.ts";
import { until } from "../../harness/wait.ts";
import { conformance } from "./conformance.ts";

const queryMs = { least: 10, most: 50 };
const options = (engine: ScriptedLauncher) => ({ launchers: [engine], queryMs });
const config = (metadata: Record<string, unknown> = {}) =>
  configOf({
    command: ["/bin/true"],
    gpus: { requested: 2, mandatory: true },
    metadata: { launcher: "slurm", worker: { script: "/bin/true" }, ...metadata },
  });

const jobOf = (engine: ScriptedLauncher, runId: string, tries = ""): Promise<ScriptedJob> =>
  until(() => engine.jobs.find(({ name }) => name === `mosaic-${runId}-1${tries}`), {
    what: "the job",
  });

function hello(f: EngineFixture, job: ScriptedJob, attempt = 1): PlayedProxy {
  const proxy = new PlayedProxy();
  const { runId } = job.order.files.directory.match(/(?<runId>[^/]+)$/)!.groups!;
  const place = { host: "n1", job: job.job, gpus: ["0", "1"] };
  const process = { pid: 1, identity: "other-boot/1" };
  proxy.session = f.engine.openProxy(
    { runId: runId!, attempt, proxy: process, worker: null, place },
    proxy,
  );
  return proxy;
}
const refused = (text: RegExp) => (error: unknown) =>
  error instanceof MosaicError && error.code === "failed_precondition" && text.test(error.message);

Deno.test("a placed run waits as INIT with the engine's reason, takes no local place, and runs to its end", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ ...options(engine), maxRuns: 1 });
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  await until(() => f.engine.detail(f.row(runId)).waitingFor === "job 1: Resources", {
    what: "the engine's reason",
    state: () => f.engine.detail(f.row(runId)).waitingFor,
  });
  const local = f.engine.submit(configOf({ command: ["/bin/true"] }));
  await f.connect(local.runId);

  engine.run(job);
  const proxy = hello(f, job);
  assert.equal(f.row(runId).state, "READY");
  const { nodes, gpus, phase } = f.row(runId).placement!;
  assert.deepEqual({ nodes, gpus, phase }, { nodes: ["n1"], gpus: ["0", "1"], phase: "running" });
  await proxy.steps(3);
  proxy.exit();
  await f.state(runId, "TERMINATED");
  engine.end(job, "finished");
  await until(
    () => f.row(runId).placement?.end === "finished" && f.row(runId).placement?.phase === "ended",
    {
      what: "the job's end to be recorded",
    },
  );
  const ended = f.registry.eventsSince(0, { runId, limit: 100 }).find(({ kind }) =>
    kind === "completed"
  )!;
  const { job: told, nodes: where } = JSON.parse(ended.dataJson);
  assert.deepEqual([told, where], ["1", ["n1"]], "the history says where each attempt was");
});

Deno.test("a daemon whose workers have a user of their own places no run: the engine would run it as the daemon's", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({
    ...options(engine),
    isRoot: true,
    workerUser: { first: 60000, last: 60010 },
  });
  assert.throws(
    () => f.engine.submit(config()),
    refused(/this daemon's --worker-user cannot hold there/),
  );
  assert.deepEqual([engine.jobs.length, f.registry.live().length], [0, 0]);
});

Deno.test("the intent is on record before the engine is asked, and the next daemon finds the job by its name", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  engine.late = "socket timed out";
  const { runId } = f.engine.submit(config());
  await jobOf(engine, runId);
  await f.engine.close();
  assert.deepEqual(f.registry.openPlacements().map(({ phase, job }) => ({ phase, job })), [{
    phase: "intended",
    job: null,
  }]);
  engine.silent = engine.late = undefined;
  await using next = f.successor(0, options(engine));
  await until(() => next.row(runId).placement?.job === "1", { what: "the job to be found" });
  assert.equal(engine.jobs.length, 1);
});

Deno.test("a run that waits for its engine keeps the defaults of the daemon that took it", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({
    ...options(engine),
    slurm: { partition: "gpu", lease_seconds: 600 },
  });
  engine.silent = "no controller";
  const { runId } = f.engine.submit(config({ slurm: { account: "lab" } }));
  await f.engine.close();
  engine.silent = undefined;
  await using _next = f.successor(0, {
    ...options(engine),
    slurm: { partition: "other", qos: "low" },
  });
  const { slurm } = (await jobOf(engine, runId)).order.plan;
  assert.deepEqual(slurm.fields, { account: "lab", lease_seconds: 600, partition: "gpu" });
  assert.equal(slurm.leaseSeconds, 600);
});

Deno.test("a run that an earlier version has taken without defaults gets those of the daemon that goes on with it", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  engine.silent = "no controller";
  const { runId } = f.engine.submit(config({ slurm: { account: "lab" } }));
  await f.engine.close();
  const db = new DatabaseSync(f.layout.registryDb);
  db.prepare("INSERT INTO slurm_defaults_due VALUES (?)").run(runId);
  db.close();
  engine.silent = undefined;
  await using _next = f.successor(0, {
    ...options(engine),
    slurm: { partition: "gpu", account: "other" },
  });
  assert.deepEqual((await jobOf(engine, runId)).order.plan.slurm.fields, {
    account: "lab",
    partition: "gpu",
  });
});

Deno.test("a run of an earlier version that is imported gets the defaults of the daemon that may place it again", async () => {
  await using f = EngineFixture.start({
    ...options(new ScriptedLauncher()),
    slurm: { partition: "gpu", account: "other" },
  });
  const path = `${f.layout.imports}/moved/registry.db`;
  Deno.mkdirSync(`${f.layout.imports}/moved`, { recursive: true });
  const old = new DatabaseSync(path);
  migrate(old, path, MIGRATIONS.slice(0, 6));
  const runId = "01HZZZZZZZZZZZZZZZZZZZZZZZ";
  old.prepare(
    `INSERT INTO runs (run_id, name, digest, state, attempt, max_attempts, priority, tags, base_dir,
    gpus_requested, gpus_mandatory, created_at, updated_at, worker_id, agent_id, config_json)
    VALUES (?, 'old', 'd', 'FAULTED', 1, 1, 0, '[]', 'runs', 0, 0, 1, 1, '', '', ?)`,
  )
    .run(runId, '{"metadata":{"launcher":"slurm","slurm":{"account":"lab"}}}');
  old.close();
  const { configJson } = await f.engine.importRun("moved");
  assert.deepEqual(JSON.parse(configJson).metadata.slurm, { account: "lab", partition: "gpu" });
});

Deno.test("two jobs of one name: the placement's own is admitted, the other refused and ended", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  const twin = engine.make(job.order);
  engine.run(job);
  engine.run(twin, "n2");
  const proxy = hello(f, job);
  assert.throws(() => hello(f, twin), refused(/it is served by job 1, and this is job 2/));
  await until(() => twin.state.t === "ended", { what: "the twin to be ended" });
  assert.equal(job.state.t, "running");
  proxy.exit();
  await f.state(runId, "TERMINATED");
});

Deno.test("a job that the engine forgets before it has started is given to it again; should it come back, it is ended", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const { runId } = f.engine.submit(config());
  const lost = await jobOf(engine, runId);
  await until(() => f.row(runId).placement?.phase === "queued", { what: "the job to be known" });
  engine.forget(lost);
  // Its id is given out again.
  engine.next = 1;
  const again = await jobOf(engine, runId, ".2");
  assert.equal(again.job, lost.job);
  engine.jobs.push(lost);
  engine.run(lost);
  await until(() => lost.state.t === "ended", { what: "the forgotten job to be ended" });
  engine.run(again);
  hello(f, again).exit();
  await f.state(runId, "TERMINATED");
});

Deno.test("a job that the engine names no more, and whose end its accounting knows, is not given to it again", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  await until(() => f.row(runId).placement?.phase === "queued", { what: "the job to be known" });
  engine.account(job, "job_cancelled");
  await f.state(runId, "CANCELLED");
  assert.equal(f.row(runId).reason, "job_cancelled");
  assert.match(f.row(runId).hint ?? "", /Somebody ended the job/);
  assert.deepEqual(engine.jobs, []);
});

Deno.test("cancelled while it is queued, a job is ended first; one that starts all the same is refused", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  await until(() => f.row(runId).placement?.phase === "queued", { what: "the job to be known" });
  engine.silent = "no controller";
  engine.stop = () => Promise.reject(new Error("no controller"));
  assert.notEqual(f.engine.cancel(runId).state, "CANCELLED");
  engine.run(job);
  assert.throws(() => hello(f, job), refused(/being stopped/));
  engine.silent = undefined;
  engine.end(job, "finished");
  assert.equal((await f.state(runId, "CANCELLED")).reason, "user_cancel");
});

Deno.test("a cancelled run's proxy is told first, then the job is ended", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ ...options(engine), graceSeconds: 0.05 });
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  f.engine.cancel(runId);
  assert.equal(proxy.stops.length, 1);
  assert.equal(engine.stops.length, 0);
  proxy.exit({ code: null, signal: "SIGTERM" });
  await f.state(runId, "CANCELLED");
  assert.equal(job.state.t, "ended");
});

for (
  const [kind, state, reason] of [
    ["time_limit", "FAULTED", "time_limit"],
    ["preempted", "FAULTED", "preempted"],
    ["out_of_memory", "FAULTED", "out_of_memory"],
    ["job_cancelled", "CANCELLED", "job_cancelled"],
    ["finished", "FAULTED", "signal_SIGTERM"],
  ] as const
) {
  Deno.test(`a signal waits for the engine's word: ${kind} is ${reason}`, async () => {
    const engine = new ScriptedLauncher();
    await using f = EngineFixture.start(options(engine));
    const { runId } = f.engine.submit(config());
    const job = await jobOf(engine, runId);
    engine.run(job);
    hello(f, job).exit({ code: null, signal: "SIGTERM" });
    const { queries } = engine;
    await until(() => engine.queries > queries + 2, { what: "further queries" });
    assert.equal(f.row(runId).state, "READY");
    engine.end(job, kind);
    const ended = await f.state(runId, state);
    assert.equal(ended.reason, reason);
    assert.notEqual(ended.hint, null, "with a hint");
  });
}

Deno.test("a doubtful end ends nothing while the proxy is connected, nor without proof when it is not", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const { runId } = f.engine.submit(config({ restart: { max_attempts: 2, backoff_s: 0 } }));
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  engine.end(job, "node_fail", false);
  await until(() => /doubtful: .*may run on/.test(f.row(runId).placement?.waitingFor ?? ""), {
    what: "the doubt",
  });
  await proxy.steps(5);
  assert.equal(f.row(runId).state, "EXECUTING");
  proxy.close();
  const { queries } = engine;
  await until(() => engine.queries > queries + 5, { what: "further queries" });
  assert.equal(f.row(runId).state, "EXECUTING");
  const back = hello(f, job);
  back.exit();
  await f.state(runId, "TERMINATED");
});

Deno.test("an engine that rejects a job fails the run with its words; one that is silent makes it wait", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  engine.silent = "no controller";
  const { runId } = f.engine.submit(config());
  await until(
    () =>
      f.engine.detail(f.row(runId)).waitingFor === "slurm, which does not answer: no controller",
    {
      what: "the reason",
    },
  );
  engine.silent = undefined;
  engine.rejects = "invalid partition";
  assert.equal((await f.state(runId, "FAULTED")).reason, "slurm_rejected: invalid partition");
});

Deno.test("an engine that answers and takes no job makes its run wait, with its words, until it takes it", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  engine.takesNone = "too many jobs";
  const { runId } = f.engine.submit(config());
  const waitingFor = () => f.engine.detail(f.row(runId)).waitingFor;
  const said = "slurm to take the job: too many jobs";
  await until(() => waitingFor() === said, { what: "the reason", state: waitingFor });
  const { queries } = engine;
  await until(() => engine.queries > queries + 3, { what: "further queries" });
  assert.equal(waitingFor(), said, "an answer about all jobs does not take it back");
  engine.takesNone = undefined;
  const job = await jobOf(engine, runId);
  await until(() => waitingFor() === "job 1: Resources", {
    what: "the engine's reason",
    state: waitingFor,
  });
  engine.run(job);
  hello(f, job).exit();
  await f.state(runId, "TERMINATED");
});

Deno.test("of an engine that does not answer, not every waiting run asks", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ launchers: [engine], queryMs: { least: 50, most: 50 } });
  engine.silent = "no controller";
  const runs = Array.from({ length: 40 }, () => f.engine.submit(config()).runId);
  await until(() => engine.queries > 0, { what: "a first query" });
  const { launches } = engine;
  const rounds = engine.queries - launches;
  await until(() => engine.queries - engine.launches >= rounds + 5, { what: "five rounds" });
  // Four are asked for at a time.
  assert.ok(
    engine.launches - launches <= 6 * 4,
    `${engine.launches - launches} questions in five rounds`,
  );
  engine.silent = undefined;
  for (const runId of runs) await jobOf(engine, runId);
});

Deno.test("a job that ends before its proxy has said hello is tried again, three times", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const { runId } = f.engine.submit(config());
  for (const tries of ["", ".2", ".3"]) {
    const job = await jobOf(engine, runId, tries);
    engine.end(job, "finished");
  }
  assert.match((await f.state(runId, "FAULTED")).reason!, /^spawn_failed/);
});

Deno.test("the scripted engine keeps a launcher's promises", async () => {
  const launcher = new ScriptedLauncher();
  const order = (name: string) => ({ name }) as Order;
  await conformance({
    launcher,
    order,
    run: ({ job }) => launcher.run(launcher.jobs.find((one) => one.job === job)!),
  });
});

Deno.test("a run that is not due is not given to the engine: its predecessor ends first, or its time comes", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const first = f.engine.submit(configOf({ command: ["/bin/true"] })).runId;
  const after = f.engine.submit(config({ queue: { after: [first] } })).runId;
  const cancelled =
    f.engine.submit(config({ queue: { after: [`${first}:failed`], after_never: "cancel" } })).runId;
  const later = f.engine.submit(config({ queue: { begin: "+500ms" } })).runId;
  const waits = (runId: string) => f.engine.detail(f.row(runId)).waitingFor;
  await until(() => /to end well/.test(waits(after)) && /its time to begin/.test(waits(later)), {
    what: "the reasons",
    state: () => [waits(after), waits(later)],
  });
  assert.deepEqual(engine.jobs, []);
  await jobOf(engine, later);
  (await f.connect(first)).exit();
  await jobOf(engine, after);
  assert.match((await f.state(cancelled, "CANCELLED")).reason!, /^dependency_never_satisfied/);
  assert.equal(engine.jobs.length, 2);
});

Deno.test("a deadline that passes in the engine's queue fails the run, also when the daemon dies after the decision", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start(options(engine));
  const first = f.engine.submit(config({ queue: { deadline: "+400ms" } })).runId;
  const second = f.engine.submit(config()).runId;
  await jobOf(engine, second);
  const row = await f.state(first, "FAULTED");
  assert.deepEqual([row.reason, row.startedAt], ["deadline_passed", null]);
  // The decision is committed, and nothing was asked of the engine.
  await f.engine.close();
  f.registry.update(second, { faultRequested: "deadline_passed" });
  await using next = f.successor(0, options(engine));
  assert.equal((await next.state(second, "FAULTED")).reason, "deadline_passed");
  assert.deepEqual(engine.jobs.filter(({ state }) => state.t !== "ended"), []);
});
