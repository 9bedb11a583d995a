/**
 * Nodes that come back, and jobs that an engine suspends: no second worker beside the first, and no
 * verdict on a stopped one.
 */
import assert from "node:assert/strict";
import { RunFiles } from "../../../src/base/layout.ts";
import { sightingsOf } from "../../../src/dispatch/launch/slurm/squeue.ts";
import { settled } from "../../../src/dispatch/launch/placed/placement_state.ts";
import { configOf } from "../../harness/configs.ts";
import { EngineFixture, PlayedProxy } from "../../harness/engine.ts";
import { type ScriptedJob, ScriptedLauncher } from "../../harness/scripted_launcher.ts";
import { until } from "../../harness/wait.ts";

const queryMs = { least: 10, most: 50 };
const config = (metadata: Record<string, unknown> = {}) =>
  configOf({
    command: ["/bin/true"],
    metadata: { launcher: "slurm", worker: { script: "/bin/true" }, ...metadata },
  });
const RESTART = { restart: { max_attempts: 3, backoff_s: 0, on: ["infrastructure"] } };

const jobOf = (engine: ScriptedLauncher, runId: string, attempt = 1): Promise<ScriptedJob> =>
  until(() => engine.jobs.find(({ name }) => name === `mosaic-${runId}-${attempt}`), {
    what: `job ${attempt}`,
  });

function hello(f: EngineFixture, job: ScriptedJob, attempt = 1): PlayedProxy {
  const proxy = new PlayedProxy();
  const runId = job.order.files.directory.split("/").at(-1)!;
  const place = { host: "n1", job: job.job, gpus: [] };
  const process = { pid: 1, identity: "other-boot/1" };
  proxy.session = f.engine.openProxy(
    { runId, attempt, proxy: process, worker: null, place },
    proxy,
  );
  return proxy;
}

/** The lock that a living proxy holds. */
function lockOf(job: ScriptedJob, attempt: number): Disposable {
  const files: RunFiles = job.order.files;
  const file = Deno.openSync(files.proxyLock(attempt), { read: true, write: true, create: true });
  file.lockSync(true);
  return { [Symbol.dispose]: () => file.close() };
}

/** The proxy on this host delivers the rest of an attempt whose job is gone. */
async function delivered(f: EngineFixture, runId: string): Promise<void> {
  const proxy = await f.connect(runId);
  proxy.exit({ code: null, lost: true });
}

async function asked(engine: ScriptedLauncher, more = 6): Promise<void> {
  const { queries } = engine;
  await until(() => engine.queries > queries + more, { what: "further queries" });
}

Deno.test("a node that answers again proves nothing yet: its engine may still be ending the worker", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ launchers: [engine], queryMs, settleMs: 1500 });
  const { runId } = f.engine.submit(config(RESTART));
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  await proxy.steps(3);
  proxy.close();
  engine.end(job, "node_fail");
  await until(() => /answers again only just/.test(f.row(runId).placement?.waitingFor ?? ""), {
    what: "the doubt",
  });
  await asked(engine);
  assert.deepEqual(
    [f.row(runId).attempt, f.proxies.started.length],
    [1, 0],
    "no second attempt beside the first",
  );
  await delivered(f, runId);
  await f.state(runId, "INIT", 2);
});

Deno.test("while the proxy of an attempt lives, no proof of its engine begins another", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ launchers: [engine], queryMs, settleMs: 0 });
  const { runId } = f.engine.submit(config(RESTART));
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  await proxy.steps(3);
  {
    using _ = lockOf(job, 1);
    proxy.close();
    engine.end(job, "node_fail");
    await asked(engine);
    assert.deepEqual([f.row(runId).attempt, f.proxies.started.length], [1, 0]);
  }
  await delivered(f, runId);
  await f.state(runId, "INIT", 2);
});

Deno.test("cancelled while its node is away, then retried: the next attempt waits for the first one's proxy", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ launchers: [engine], queryMs });
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  await proxy.steps(3);
  proxy.close();
  {
    using _ = lockOf(job, 1);
    engine.end(job, "node_fail", false);
    f.engine.cancel(runId);
    await f.state(runId, "CANCELLED");
    f.engine.retry(runId);
    await until(
      () =>
        /the proxy of its attempt 1, which is alive/.test(f.engine.detail(f.row(runId)).waitingFor),
      {
        what: "the reason",
        state: () => f.engine.detail(f.row(runId)),
      },
    );
    assert.equal(engine.jobs.length, 1);
  }
  await jobOf(engine, runId, 2);
});

Deno.test("a job of an attempt that is over, which its engine has again, is ended", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ launchers: [engine], queryMs, settleMs: 0 });
  const { runId } = f.engine.submit(config(RESTART));
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  proxy.close();
  engine.end(job, "node_fail");
  await delivered(f, runId);
  const second = await jobOf(engine, runId, 2);
  engine.run(second, "n2");
  hello(f, second, 2);
  await asked(engine);
  job.state = { t: "running" };
  await until(() => job.state.t === "ended", { what: "the first job to be ended" });
  assert.equal(second.state.t, "running");
});

Deno.test("a suspended job is shown, and its limits of time wait; a silence counts only while the engine says it runs", async () => {
  const engine = new ScriptedLauncher();
  await using f = EngineFixture.start({ launchers: [engine], queryMs, heartbeatTimeoutSeconds: 1 });
  const { runId } = f.engine.submit(config());
  const job = await jobOf(engine, runId);
  engine.run(job);
  const proxy = hello(f, job);
  await proxy.steps(3);
  job.state = { t: "running", held: "suspended: by the test" };
  await until(() => f.row(runId).placement?.waitingFor === "suspended: by the test", {
    what: "the reason",
  });
  const since = performance.now();
  await until(() => performance.now() - since > 2500, { what: "more than the heartbeat timeout" });
  assert.equal(f.row(runId).state, "EXECUTING");
  // The engine says nothing of the job's present state.
  engine.silent = "no controller";
  await until(() => performance.now() - since > 5000, {
    what: "the same, of an engine that is away",
  });
  assert.equal(f.row(runId).state, "EXECUTING");
  engine.silent = undefined;
  engine.run(job);
  await until(() => f.row(runId).placement?.waitingFor === "", { what: "the job to run again" });
  await proxy.steps(6);
  assert.equal(f.row(runId).state, "EXECUTING");
  // It runs, and is silent.
  await until(() => f.row(runId).faultRequested === "heartbeat_timeout", { what: "the verdict" });
});

Deno.test("squeue: suspended, unknown and running states are told apart; an end with a silent node is no proof", () => {
  const of = (state: string, reason = "None", silent = new Set<string>()) =>
    sightingsOf(`1|mosaic-a-1|${state}|5|6|n1|${reason}`, silent)[0]!.state;
  for (const state of ["RUNNING", "COMPLETING", "CONFIGURING", "STAGE_OUT"]) {
    assert.deepEqual(of(state), { t: "running", held: undefined });
  }
  const held = (state: string, reason?: string) => {
    const found = of(state, reason);
    return found.t === "running" ? found.held : undefined;
  };
  assert.match(held("SUSPENDED", "Gang")!, /^suspended: .*SUSPENDED, Gang/);
  assert.match(held("STOPPED")!, /^suspended: /);
  assert.match(held("DREAMING")!, /does not know: DREAMING/);
  assert.equal(of("RESV_DEL_HOLD").t, "queued");
  for (const state of ["NODE_FAIL", "TIMEOUT", "PREEMPTED", "CANCELLED"]) {
    const end = of(state, "None", new Set(["n1"]));
    assert.ok(end.t === "ended" && !end.end.proven, state);
  }
  const timeout = {
    t: "ended",
    end: { kind: "time_limit", proven: true, text: "TIMEOUT" },
  } as const;
  assert.equal(
    settled(timeout, { since: 0, doubted: false }, 1, 100),
    timeout,
    "its node never was away",
  );
  assert.deepEqual(settled(timeout, { since: 0, doubted: true }, 1, 100), {
    t: "ended",
    end: { ...timeout.end, proven: false, recent: true },
  });
  assert.equal(settled(timeout, { since: 0, doubted: true }, 100, 100), timeout);
});
