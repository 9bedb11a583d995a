import assert from "node:assert/strict";
import { nextShare, slices } from "../../src/proxy/worker/duty_cycle.ts";
import { isOverBacklog } from "../../src/proxy/state/backlog.ts";
import type { ControlRecord, Event } from "../../src/proxy/state/events_and_effects.ts";
import { RunFiles } from "../../src/base/layout.ts";
import { Journal } from "../../src/journal/journal.ts";
import { JournalFile } from "../../src/journal/journal_file.ts";
import type { Logger } from "../../src/base/log.ts";
import { EventQueue } from "../../src/proxy/state/queue.ts";
import { ProxyLoop } from "../../src/proxy/run_proxy.ts";
import { WorkerHandle } from "../../src/proxy/worker/worker_handle.ts";
import { processRef } from "../../src/os/processes/identity.ts";
import { signalGroup } from "../../src/os/processes/signals.ts";
import { until } from "../harness/wait.ts";
import { inertEdges, SETTINGS } from "./inert_edges.ts";
import { inScene, type Scene } from "./scene.ts";

/**
 * The state letters of the worker's group: T is stopped, D (here) a shell whose child was stopped
 * right after vfork.
 */
function states(scene: Scene): string[] {
  return scene.group().map(stateOf).filter((state) => state !== undefined);
}

function stateOf(pid: number): string | undefined {
  try {
    const stat = Deno.readTextFileSync(`/proc/${pid}/stat`);
    return stat.slice(stat.lastIndexOf(")") + 2)[0];
  } catch {
    return undefined;
  }
}

function stopped(scene: Scene): boolean {
  const all = states(scene);
  return all.includes("T") && all.every(isStopped);
}

function isStopped(state: string | undefined): boolean {
  return state === "T" || state === "D";
}

/** As if an earlier proxy had left it, perhaps of an earlier version. */
function keep(scene: Scene, kept: ControlRecord, name = "control-1.json"): void {
  Deno.writeTextFileSync(`${scene.files.control}/${name}`, JSON.stringify(kept));
}

const TICKER = `trap 'exit 0' TERM; i=0
  while :; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i}"; i=$((i+1)); sleep 0.02; done`;

Deno.test("control: a pause stops the worker's group, a resume continues it, both are reported", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const proxy = scene.shell(TICKER);
    await until(() => daemon.steps.length > 5, { what: "steps" });
    daemon.control({ paused: true, maxRateHz: 0 });
    await until(() => daemon.applied.at(-1)?.paused && stopped(scene), {
      what: "the pause in force",
    });
    daemon.control({ paused: false, maxRateHz: 0 });
    await until(() => daemon.applied.at(-1)?.paused === false && !stopped(scene), {
      what: "the resume in force",
    });
    const before = daemon.steps.length;
    await until(() => daemon.steps.length > before + 5, { what: "more steps" });
    daemon.tell({ case: "stop", value: { graceSeconds: 60 } });
    assert.equal(await proxy.code(), 0);
  }));

Deno.test("control: a worker in a session of its own is paused, held over by another proxy, and goes on", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const first = scene.proxy(["setsid", "sh", "-c", `echo $$ >worker; ${TICKER}`]);
    await until(() => daemon.steps.length > 5, { what: "steps" });
    const worker = Number(Deno.readTextFileSync(`${scene.directory}/worker`));
    assert(!scene.group().includes(worker));
    daemon.control({ paused: true, maxRateHz: 0 });
    await until(() => isStopped(stateOf(worker)), { what: "the worker to be stopped" });
    await first.kill();
    const second = scene.proxy([], { args: ["--attach"] });
    const before = daemon.applied.length;
    await until(() => daemon.applied.length > before, { what: "the second proxy" });
    assert(isStopped(stateOf(worker)));
    daemon.control({ paused: false, maxRateHz: 0 });
    const seen = daemon.steps.length;
    await until(() => daemon.steps.length > seen + 5, { what: "more steps" });
    daemon.tell({ case: "stop", value: { graceSeconds: 60 } });
    assert.equal(await second.code(), 0);
  }));

Deno.test("control: what could not be signalled for want of a descriptor is signalled when there is one again", async () => {
  const child = new Deno.Command("sleep", { args: ["600"], stdin: "null", detached: true }).spawn();
  const warned: unknown[] = [];
  const log = { warn: (...what: unknown[]) => void warned.push(what) } as unknown as Logger;
  const directory = Deno.makeTempDirSync();
  const files = new RunFiles(directory, "w1");
  for (const needed of [files.logs, files.control]) Deno.mkdirSync(needed, { recursive: true });
  Deno.writeTextFileSync(
    files.workerFile(1),
    JSON.stringify({ ...processRef(child.pid)!, exit: "control" }),
  );
  const journal = new Journal(new JournalFile(files.stdout(1)));
  const queue = new EventQueue<Event>();
  const worker = new WorkerHandle({ files, attempt: 1, start: undefined }, journal, queue, log);
  const edges = inertEdges();
  edges.worker.signal = (signal, outside) => worker.signal(signal, outside);
  let started: Promise<void> | undefined;
  edges.worker.start = () => started = worker.start();
  let connects = 0;
  edges.delivery.connect = () => Promise.resolve(void connects++);
  const loop = new ProxyLoop(SETTINGS, queue, edges);
  const run = loop.run();
  const read = Deno.readTextFileSync;
  const without = (what: () => void) => {
    const before = warned.length;
    Deno.readTextFileSync = () => {
      throw new Error("Too many open files (os error 24)");
    };
    try {
      what();
    } finally {
      Deno.readTextFileSync = read;
    }
    assert.equal(warned.length, before + 1);
  };
  const holdForDisk = (on: boolean) =>
    queue.put({ tag: "free_space_measured", enough: !on, text: "free space" });
  try {
    await until(() => connects > 0, { what: "the worker to be taken over" });
    without(() => holdForDisk(true));
    await until(() => stateOf(child.pid) === "T", { what: "the worker to be stopped" });
    without(() => holdForDisk(false));
    await until(() => stateOf(child.pid) !== "T", { what: "the worker to go on" });
    // Nothing is tried any more once the worker is to end.
    without(() => holdForDisk(true));
    queue.put({ tag: "worker_exited", end: { exit: undefined, stderrTail: [] } });
  } finally {
    child.kill("SIGKILL");
    await child.status;
    await started;
    queue.close();
    await run;
    journal.close();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("control: a pause outlives the proxy, and a stop reaches a paused worker", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const first = scene.shell(TICKER);
    await until(() => daemon.steps.length > 2, { what: "steps" });
    daemon.control({ paused: true, maxRateHz: 0 });
    await until(() => stopped(scene), { what: "the pause" });
    await first.kill();
    await daemon.stop();
    const second = scene.proxy([], { args: ["--attach"] });
    await until(
      () => Deno.readTextFileSync(scene.files.proxyLog).includes("delivery interrupted"),
      {
        what: "the second proxy",
      },
    );
    assert(stopped(scene), "the daemon is away, and the worker stays paused");
    daemon.start();
    scene.announce();
    await until(() => daemon.hellos.length > 1 && daemon.applied.at(-1)?.paused, {
      what: "the pause is reported",
    });
    daemon.tell({ case: "stop", value: { graceSeconds: 60 } });
    assert.equal(await second.code(), 0);
  }));

/** Writes down what it is asked and answers; ends when it is asked to resume. */
const ANSWERING = `while read -r line; do echo "$line" >>said; case $line in
  *pause*) echo '{"event":"paused","payload":{}}';;
  *resume*) echo '{"event":"resumed","payload":{}}'; exit 0;; esac; done`;

Deno.test("control: a worker that reads its input is asked to pause, and its answer counts", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const proxy = scene.shell(
      ANSWERING,
      { start: { supportsPause: true } },
    );
    await until(() => daemon.applied.length > 0, { what: "the proxy" });
    assert.equal(daemon.applied.at(-1)!.paused, false);
    daemon.control({ paused: true, maxRateHz: 0 });
    await until(() => daemon.applied.at(-1)!.paused, { what: "the answer" });
    assert(!stopped(scene));
    daemon.control({ paused: false, maxRateHz: 0 });
    assert.equal(await proxy.code(), 0);
    const said = Deno.readTextFileSync(`${scene.directory}/said`);
    assert.equal(said, '{"control":"pause"}\n{"control":"resume"}\n');
    assert.deepEqual(daemon.events.map((e) => e.kind), ["paused", "resumed"]);
  }));

Deno.test("control: a worker that has paused when asked is not asked again by another proxy, and stays paused", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const first = scene.shell(
      ANSWERING,
      { start: { supportsPause: true } },
    );
    await until(() => daemon.applied.length > 0, { what: "the proxy" });
    daemon.control({ paused: true, maxRateHz: 0 });
    await until(() => daemon.applied.at(-1)!.paused, { what: "the answer" });
    await first.kill();
    const before = daemon.applied.length;
    const second = scene.proxy([], { start: { supportsPause: true }, args: ["--attach"] });
    await until(() => daemon.applied.length > before, { what: "the second proxy" });
    daemon.control({ paused: false, maxRateHz: 0 });
    assert.equal(await second.code(), 0);
    assert.equal(daemon.applied[before]!.paused, true, "it is told as paused from the beginning");
    const said = Deno.readTextFileSync(`${scene.directory}/said`);
    assert.equal(said, '{"control":"pause"}\n{"control":"resume"}\n');
  }));

Deno.test("control: a worker that was stopped since it did not answer stays stopped under another proxy", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const first = scene.shell(`trap 'exit 0' TERM; while :; do sleep 0.02; done`, {
      start: { supportsPause: true },
    });
    await until(() => daemon.applied.length > 0, { what: "the proxy" });
    await first.kill();
    signalGroup(scene.leader()!, "SIGSTOP");
    await until(() => stopped(scene), { what: "the worker to be stopped" });
    keep(scene, { paused: true, maxRateHz: 0, pausedBy: "signal" });
    daemon.control({ paused: true, maxRateHz: 0 });
    const before = daemon.applied.length;
    const second = scene.proxy([], { start: { supportsPause: true }, args: ["--attach"] });
    await until(() => daemon.applied.length > before, { what: "the second proxy" });
    assert.equal(daemon.applied[before]!.paused, true, "it is told as paused from the beginning");
    assert(stopped(scene));
    daemon.control({ paused: false, maxRateHz: 0 });
    await until(() => !stopped(scene), { what: "the worker to go on" });
    daemon.tell({ case: "stop", value: { graceSeconds: 60 } });
    assert.equal(await second.code(), 0);
  }));

Deno.test("control: a worker that may not have heard that it is to go on is told by another proxy", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const first = scene.shell(`read -r line; echo "$line" >said`, {
      start: { supportsPause: true },
    });
    await until(() => daemon.applied.length > 0, { what: "the proxy" });
    await first.kill();
    keep(scene, { paused: false, maxRateHz: 0, pausedBy: "message" }, "wish-1.json");
    assert.equal(
      await scene.proxy([], { start: { supportsPause: true }, args: ["--attach"] }).code(),
      0,
    );
    assert.equal(Deno.readTextFileSync(`${scene.directory}/said`), '{"control":"resume"}\n');
  }));

Deno.test("control: too much undelivered output holds the worker until it is delivered", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    daemon.silent = true;
    const proxy = scene.shell(
      `trap 'exit 0' TERM; while [ ! -e enough ]; do head -c 20000 /dev/zero | tr '\\0' x; echo; sleep 0.02; done`,
      { args: ["--max-backlog", "64k"] },
    );
    await until(() => daemon.applied.at(-1)?.selfPaused === "backlog" && stopped(scene), {
      what: "the worker is held",
    });
    Deno.writeTextFileSync(`${scene.directory}/enough`, "");
    daemon.silent = false;
    daemon.cut();
    assert.equal(await proxy.code(), 0);
    await until(() => daemon.applied.some((a, i) => i > 1 && a.selfPaused === ""), {
      what: "it says that it goes on",
    });
    assert.equal(daemon.position, scene.journal().length);
  }));

Deno.test("control: a rate limit slows the worker down and is lifted again", () =>
  inScene(async (scene) => {
    const { daemon } = scene;
    const busy = `trap 'exit 0' TERM; i=0
      while :; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i}"; i=$((i+1)); done`;
    const proxy = scene.shell(busy);
    await until(() => daemon.steps.length > 1000, { what: "steps" });
    daemon.control({ paused: false, maxRateHz: 50 });
    await until(() => daemon.applied.at(-1)?.maxRateHz === 50, { what: "the limit in force" });
    // Under the limit the group is found stopped more often than not.
    let seen = 0;
    await until(() => stopped(scene) && ++seen > 4, { what: "the worker to be held back" });
    daemon.control({ paused: false, maxRateHz: 0 });
    await until(() => daemon.applied.at(-1)?.maxRateHz === 0, { what: "the limit lifted" });
    const before = daemon.steps.length;
    await until(() => daemon.steps.length > before + 2000, { what: "many steps again" });
    daemon.tell({ case: "stop", value: { graceSeconds: 60 } });
    assert.equal(await proxy.code(), 0);
  }));

Deno.test("duty cycle: the share follows the measured rate, within bounds", () => {
  assert.equal(nextShare(1, 50, 100), 1, "slower than its limit: never stopped");
  assert.equal(nextShare(1, 400, 200), 0.5);
  assert.equal(nextShare(0.5, 100, 150), 0.75);
  assert.equal(nextShare(0.5, 1e6, 1), 0.25, "at most halved at once");
  assert.equal(nextShare(0.0002, 1e6, 1), 0.0002, "never nothing");
  assert.ok(nextShare(0.1, 0, 100) > 0.1, "without steps it is let run longer");
});

Deno.test("duty cycle: a period has at most 100 ms, unless that would be too short a run", () => {
  assert.deepEqual(slices(0.5), { runMs: 50, stopMs: 50 });
  assert.deepEqual(slices(0.01), { runMs: 1, stopMs: 99 });
  assert.deepEqual(slices(0.002), { runMs: 1, stopMs: 499 });
});

Deno.test("backlog: held from the limit on, until below half of it", () => {
  assert.deepEqual([0, 100, 101].map((bytes) => isOverBacklog(false, bytes, 100)), [
    false,
    false,
    true,
  ]);
  assert.deepEqual([101, 50, 49].map((bytes) => isOverBacklog(true, bytes, 100)), [
    true,
    true,
    false,
  ]);
});
