/**
 * The daemon's part: each trial once, budgets, extensions, early stopping; on real databases, with
 * runs that the test plays.
 */
import { strict as assert } from "node:assert";
import { MosaicError } from "../../src/base/errors.ts";
import { GpuPool } from "../../src/dispatch/gpus/gpu_pool.ts";
import { parseGpuOption, visibleOf } from "../../src/os/gpus/gpu_option.ts";
import { createLogger } from "../../src/base/log.ts";
import type { LifecycleEvent } from "../../src/registry/lifecycle/lifecycle.ts";
import { Registry } from "../../src/registry/registry.ts";
import type { TrialOf } from "../../src/registry/sweeps/sweep_rows.ts";
import { atRung } from "../../src/sweeps/curve.ts";
import { checked, type SweepSpec } from "../../src/sweeps/spec.ts";
import { decide } from "../../src/sweeps/stopping.ts";
import { sweepSummary } from "../../src/sweeps/results/summary.ts";
import { originOf, trialCount, valuesAt } from "../../src/sweeps/points.ts";
import { successorOf, withSuccessor } from "../../src/sweeps/population.ts";
import { Sweeps } from "../../src/sweeps/sweeps.ts";
import { gridAxis, partFrom, stopOf, wholeAxis } from "../../src/sweeps/words.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { configOf } from "../harness/configs.ts";
import { EngineFixture } from "../harness/engine.ts";
import { FakeGpuTools } from "../harness/fake_gpu_tools.ts";
import { until } from "../harness/wait.ts";
import { hasCode, newRun } from "../registry/fixture.ts";
import { batch, withStore } from "../telemetry/harness.ts";

/**
 * A daemon's registry and telemetry, its sweeps, and runs that begin and end when the test says so.
 */
class Played implements AsyncDisposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "mosaic-sweeps-" });
  registry!: Registry;
  records!: TelemetryStore;
  sweeps!: Sweeps;
  readonly made: string[] = [];
  readonly cancelled: [run: string, reason: string][] = [];
  /** By run. */
  readonly checkpoints = new Map<string, string>();
  now: () => number = Date.now;
  /** What programs were told to do. */
  readonly told: string[] = [];
  /** Runs that cannot be paused. */
  readonly rigid = new Set<string>();
  /** Runs that can be neither cancelled nor retried. */
  readonly damaged = new Set<string>();
  /** Called before a trial is entered. */
  before: (trial: number) => void = () => {};
  #positions = new Map<string, number>();

  constructor() {
    this.open();
  }

  open(): void {
    this.registry = Registry.open(`${this.directory}/registry.db`, { now: () => this.now() });
    this.records = TelemetryStore.open(`${this.directory}/telemetry.sqlite`);
    this.sweeps = new Sweeps({
      registry: this.registry,
      records: this.records,
      log: createLogger({ sinks: [] }),
      parallel: () => 2,
      check: () => {},
      predecessor: (text) => `id of ${text}`,
      submit: (configJson, runId, _submitter, trial) => this.#submit(configJson, runId, trial),
      together: (work) => this.registry.together(work),
      cancel: (runId, reason) => {
        if (this.damaged.has(runId)) throw new MosaicError("failed_precondition", "damaged");
        this.cancelled.push([runId, reason]);
        if (this.registry.require(runId).outcome === null) {
          this.end(runId, { type: "cancelled", reason });
        }
      },
      canPause: (runId) => !this.rigid.has(runId) && this.registry.require(runId).outcome === null,
      checkpointOf: (runId) => this.checkpoints.get(runId),
      pause: (runId) => void this.told.push(`pause ${this.trialOf(runId)}`),
      resume: (runId) => void this.told.push(`resume ${this.trialOf(runId)}`),
      retry: (runId) => {
        if (this.damaged.has(runId)) throw new MosaicError("failed_precondition", "damaged");
        this.registry.apply(runId, { type: "retry", reason: "by hand" });
      },
    });
  }

  #submit(configJson: string, runId: string, trial: TrialOf): void {
    this.before(trial.trial);
    const name = `${trial.sweepId}-${trial.trial}`;
    this.registry.insert(newRun(0, { runId, name, digest: name, configJson }), null, [], trial);
    this.made.push(runId);
  }

  /** Another daemon on the same files. */
  async again(): Promise<void> {
    await this.close();
    this.open();
    this.sweeps.start();
  }

  begin(fields: Partial<SweepSpec>): string {
    const spec = checked({
      name: "s",
      config: { entry_point: "x", arguments: ["{a}"], environment: {} },
      pass: "templates",
      parts: [partFrom({ axes: [gridAxis("a=1..6")], space: [] })],
      budget: {},
      ...fields,
    });
    return this.sweeps.create(JSON.stringify(spec), "", false, "uid:1").sweepId;
  }

  trialOf(runId: string): number {
    return this.registry.sweeps.trialOf(runId)!.trial;
  }

  live(): string[] {
    return this.registry.sweeps.live().map(({ runId }) => runId);
  }

  end(runId: string, event: LifecycleEvent): void {
    if (this.registry.require(runId).state === "INIT" && event.type === "exited_ok") {
      this.registry.apply(runId, { type: "spawned" });
    }
    this.registry.apply(runId, event);
  }

  /** Stores points of `score`, in steps of ten. */
  report(runId: string, ...values: number[]): void {
    for (const value of values) {
      const from = this.#positions.get(runId) ?? 0;
      this.#positions.set(runId, from + 1);
      const dataJson = JSON.stringify({
        score: Number.isNaN(value) ? "NaN" : value,
        step: (from + 1) * 10,
      });
      this.records.ingest(
        runId,
        1,
        batch(from, from + 1, { events: [{ kind: "metrics", tsNs: "0", dataJson }] }),
      );
    }
  }

  row() {
    return this.registry.sweeps.resolve("s");
  }

  untilMade(count: number): Promise<unknown> {
    return until(() => this.made.length >= count, {
      what: `${count} trials`,
      state: () => this.made.length,
    });
  }

  untilState(state: string): Promise<unknown> {
    return until(() => this.row().state === state, {
      what: `the sweep to be ${state}`,
      state: () => this.row(),
    });
  }

  async close(): Promise<void> {
    await this.sweeps.close();
    this.registry.close();
    this.records.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("sweeps: trials follow each other as places become free, each once, across daemons and deleted runs", async () => {
  await using played = new Played();
  played.begin({});
  for (let ended = 0; ended < 6; ended++) {
    await played.untilMade(Math.min(6, ended + 2));
    const [runId] = played.live();
    played.end(
      runId!,
      ended % 2 === 0 ? { type: "exited_ok" } : { type: "failed", reason: "exit_code_1" },
    );
    if (ended === 1) played.registry.delete(runId!);
    await played.again();
  }
  await played.untilState("finished");
  assert.equal(new Set(played.made).size, 6);
  assert.deepEqual(played.registry.sweeps.counts(played.row().sweepId), {
    FAULTED: 2,
    TERMINATED: 3,
    deleted: 1,
  });
});

Deno.test("sweeps: a trial whose run cannot be entered is made later if the trouble passes, and refused if it is its own", async () => {
  await using played = new Played();
  let troubles = 2;
  played.before = (trial) => {
    if (trial === 1 && troubles-- > 0) throw new MosaicError("unavailable", "the disk is full");
    if (trial === 2) throw new MosaicError("invalid_argument", "gpus: too many");
  };
  const sweepId = played.begin({ max_parallel: 6 });
  await until(() => played.sweeps.troubleOf(sweepId) === "the disk is full", {
    what: "the trouble to be told",
  });
  await played.untilMade(5);
  await until(() => played.sweeps.troubleOf(sweepId) === undefined, {
    what: "the trouble to be over",
  });
  const trials = played.registry.sweeps.trials(played.row().sweepId, 0, 10);
  assert.deepEqual(trials.map(({ refusal }) => refusal), [
    null,
    null,
    "gpus: too many",
    null,
    null,
    null,
  ]);
  for (const runId of played.live()) played.end(runId, { type: "exited_ok" });
  await played.untilState("finished");
});

Deno.test("sweeps: the intent is the trial's row: a crash between it and its run is impossible, as both are one commit", async () => {
  await using played = new Played();
  const sweepId = played.begin({ max_parallel: 1 });
  await played.untilMade(1);
  const taken = played.made[0]!;
  const of = { sweepId, trial: 1 };
  // The run's insertion fails after the trial's number was counted, so neither is there.
  assert.throws(
    () => played.registry.insert(newRun(1, { runId: taken }), null, [], of),
    hasCode("already_exists"),
  );
  assert.throws(
    () => played.registry.insert(newRun(1), null, [], { sweepId, trial: 0 }),
    hasCode("failed_precondition"),
  );
  assert.equal(played.registry.get(newRun(1).runId), undefined);
  assert.equal(played.row().nextTrial, 1);
});

Deno.test("sweeps: trials with large configs live a few at a time, whatever max_parallel says", async () => {
  await using played = new Played();
  const environment = { A: "v".repeat(3_900_000) };
  played.begin({
    config: { entry_point: "x", arguments: ["{a}"], environment },
    max_parallel: 1000,
  });
  for (let made = 4; made <= 6; made++) {
    await played.untilMade(made);
    assert.equal(played.live().length, 4);
    played.end(played.live()[0]!, { type: "exited_ok" });
  }
  for (const runId of played.live()) played.end(runId, { type: "exited_ok" });
  await played.untilState("finished");
  assert.equal(played.made.length, 6);
});

Deno.test("sweeps: those that have not finished have a bound together, and a list follows what a sweep becomes", async () => {
  await using played = new Played();
  const rows = Array.from({ length: 3650 }, (_, i) => ({ a: `${i}${"v".repeat(1000)}` }));
  const begin = (name: string) =>
    played.begin({ name, max_parallel: 1, parts: [partFrom({ axes: [], space: [], rows })] });
  const ids = Array.from({ length: 9 }, (_, i) => begin(`s${i}`));
  assert.throws(() => begin("more"), hasCode("resource_exhausted", /more than 32 MiB of points/));
  const { sweeps } = played.registry;
  const extend = (id: string, more: Record<string, unknown>) =>
    played.sweeps.change(
      sweeps.get(id)!,
      "extend",
      JSON.stringify({ axes: [], space: [], ...more }),
    );
  assert.throws(() => extend(ids[0]!, { rows: rows.slice(0, 400) }), hasCode("resource_exhausted"));
  assert.equal(played.sweeps.outlineOf(sweeps.get(ids[1]!)!).max_parallel, 1);
  extend(ids[1]!, { max_parallel: 2 });
  assert.equal(played.sweeps.outlineOf(sweeps.get(ids[1]!)!).max_parallel, 2);
  await played.sweeps.change(sweeps.get(ids[0]!)!, "cancel", "");
  await until(() => sweeps.get(ids[0]!)!.state === "cancelled", { what: "one to be cancelled" });
  begin("more");
});

Deno.test("sweeps: what would make every list of sweeps fail is not stored: too many names, or more than can be read again", async () => {
  await using played = new Played();
  const names = (from: number) => Array.from({ length: 400 }, (_, i) => [`n${from + i}`, "x"]);
  const rows = (from: number) =>
    partFrom({ axes: [], space: [], rows: [Object.fromEntries(names(from))] });
  assert.throws(
    () => played.begin({ pass: "flags", parts: [rows(0), rows(400)] }),
    hasCode("invalid_argument", /800 parameters; it must have at most 500/),
  );
  played.begin({});
  const extend = (kib: number) => {
    const rows = Array.from({ length: kib }, (_, i) => ({ a: `${i}${"v".repeat(1000)}` }));
    return played.sweeps.change(
      played.row(),
      "extend",
      JSON.stringify({ axes: [], space: [], rows }),
    );
  };
  extend(2500);
  assert.throws(() => extend(2500), hasCode("invalid_argument", /more than 4 MiB/));
  assert.equal(played.sweeps.specOf(played.row()).name, "s");
  await played.again();
  assert.equal(played.sweeps.specOf(played.row()).name, "s");
  assert.throws(
    () => checked({ ...played.sweeps.specOf(played.row()), name: "a\x1b[2J" }),
    hasCode("invalid_argument", /control/),
  );
});

Deno.test("sweeps: pause, resume, cancel, retry and extend", async () => {
  await using played = new Played();
  const { sweeps } = played;
  played.begin({});
  await played.untilMade(2);
  sweeps.change(played.row(), "pause", "");
  played.end(played.made[0]!, { type: "failed", reason: "exit_code_1" });
  await played.again();
  sweeps.change(played.row(), "pause", "");
  assert.equal(played.made.length, 2);
  played.sweeps.change(played.row(), "resume", "");
  await played.untilMade(3);
  played.sweeps.change(played.row(), "cancel", "");
  await played.untilState("cancelled");
  assert.deepEqual(played.live(), []);
  assert.ok(played.cancelled.every(([, reason]) => reason === "sweep_cancelled"));
  played.sweeps.change(played.row(), "resume", "");
  await played.untilMade(5);
  for (let made = 5; made <= 6; made++) {
    await played.untilMade(made);
    for (const runId of played.live()) played.end(runId, { type: "exited_ok" });
  }
  await played.untilState("finished");
  assert.throws(
    () => played.sweeps.change(played.row(), "resume", ""),
    hasCode("failed_precondition", /finished/),
  );
  await played.sweeps.change(played.row(), "retry_failed", "");
  assert.deepEqual(played.live(), [played.made[0]]);
  const extend = (extension: Record<string, unknown>) =>
    played.sweeps.change(
      played.row(),
      "extend",
      JSON.stringify({ axes: [], space: [], ...extension }),
    );
  assert.throws(() => extend({ axes: 1 }), hasCode("invalid_argument", /axes/));
  assert.throws(
    () => extend({ seeds: wholeAxis("seed", "9") }),
    hasCode("invalid_argument", /seed does not reach/),
  );
  extend({ axes: [gridAxis("a=7..11")], max_parallel: 6 });
  await played.untilMade(11);
  assert.throws(
    () => played.sweeps.change(played.row(), "stop", ""),
    hasCode("invalid_argument", /action is "stop"/),
  );
});

Deno.test("sweeps: further seeds of one point are not stopped early, and later extensions neither repeat nor lose them", async () => {
  await using played = new Played();
  const parts = [
    partFrom({ axes: [gridAxis("a=1e-1,2")], space: [], seeds: wholeAxis("seed", "1..2") }),
  ];
  const config = { entry_point: "x", arguments: ["{a}", "{seed}"], environment: {} };
  const metric = { name: "score", goal: "max" } as const;
  played.begin({ config, parts, max_parallel: 9, metric, stop: stopOf("asha:min=10,max=90", {}) });
  await played.untilMade(4);
  const extend = (extension: object) =>
    played.sweeps.change(
      played.row(),
      "extend",
      JSON.stringify({ axes: [], space: [], ...extension }),
    );
  await extend({ seeds: wholeAxis("seed", "3..4"), like: 2 });
  await played.untilMade(6);
  const [first, , , , last] = played.made as [string, string, string, string, string, string];
  played.report(first, 5);
  // It would be the worst of two.
  played.report(last, 1);
  await until(() => played.registry.sweeps.reports(played.row().sweepId).length === 1, {
    what: "the first report",
  });
  await played.again();
  played.report(played.made[1]!, 4);
  await until(() => played.cancelled.length === 1, { what: "a trial to be stopped" });
  assert.deepEqual(played.cancelled, [[played.made[1], "pruned"]]);
  await extend({ seeds: wholeAxis("seed", "5") });
  await extend({ axes: [gridAxis("a=7")], seeds: wholeAxis("seed", "1") });
  const spec = played.sweeps.specOf(played.row());
  assert.deepEqual(
    Array.from({ length: trialCount(spec) }, (_, trial) => [...valuesAt(spec, trial).values()]),
    [
      ...[["1e-1", 1], ["2", 1], ["1e-1", 2], ["2", 2]],
      // As they were written, not as they are meant.
      ...[["1e-1", 3], ["1e-1", 4], ["1e-1", 5], ["2", 5], ["7", 1]],
    ],
  );
  assert.throws(
    () => extend({ seeds: wholeAxis("seed", "3"), like: 99 }),
    hasCode("invalid_argument", /no trial 99/),
  );
  assert.throws(
    () => extend({ random: 3, like: 0 }),
    hasCode("invalid_argument", /differ in their seeds only/),
  );
});

Deno.test("sweeps: a trial that can be neither cancelled nor retried keeps no other from it", async () => {
  await using played = new Played();
  played.begin({});
  await played.untilMade(2);
  const first = played.live()[0]!;
  played.damaged.add(first);
  played.sweeps.change(played.row(), "cancel", "");
  await until(() => played.live().length === 1, { what: "the other trial to be cancelled" });
  assert.deepEqual(played.live(), [first]);
  played.damaged.clear();
  await played.untilState("cancelled");

  played.sweeps.change(played.row(), "resume", "");
  for (let made = 4; made <= 6; made += 2) {
    await played.untilMade(made);
    for (const runId of played.live()) played.end(runId, { type: "failed", reason: "exit_code_1" });
  }
  await played.untilState("finished");
  const failed = played.made.slice(2);
  played.damaged.add(failed[0]!);
  await assert.rejects(
    async () => await played.sweeps.change(played.row(), "retry_failed", ""),
    hasCode(
      "failed_precondition",
      /1 of 4 failed trials cannot be retried, the first is trial 2: damaged/,
    ),
  );
  assert.deepEqual(played.live(), failed.slice(1));
  assert.equal(played.row().state, "running");
});

Deno.test("sweeps: no more failed trials are retried at once than max_parallel", async () => {
  await using played = new Played();
  played.begin({ max_parallel: 2 });
  for (let made = 2; made <= 6; made += 2) {
    await played.untilMade(made);
    for (const runId of played.live()) played.end(runId, { type: "failed", reason: "exit_code_1" });
  }
  await played.untilState("finished");
  const retry = () =>
    assert.rejects(async () => await played.sweeps.change(played.row(), "retry_failed", ""));
  await assert.rejects(
    async () => await played.sweeps.change(played.row(), "retry_failed", ""),
    hasCode(
      "resource_exhausted",
      /4 of 6 failed trials cannot be retried, the first is trial 2: 2 .*max_parallel is 2/,
    ),
  );
  assert.deepEqual(played.live(), played.made.slice(0, 2));
  played.end(played.made[0]!, { type: "exited_ok" });
  await retry();
  assert.deepEqual(played.live(), played.made.slice(1, 3));
});

Deno.test("sweeps: trials that a person names are retried, such as those that were stopped early", async () => {
  await using played = new Played();
  const stop = stopOf("asha:min=10,max=90", {});
  played.begin({
    budget: { runs: 2 },
    max_parallel: 2,
    metric: { name: "score", goal: "max" },
    stop,
  });
  await played.untilMade(2);
  const reports = () => played.registry.sweeps.reports(played.row().sweepId);
  played.report(played.made[0]!, 9);
  await until(() => reports().length === 1, { what: "a decision" });
  played.report(played.made[1]!, 1);
  await until(() => played.cancelled.length === 1, { what: "a stop" });
  played.end(played.made[0]!, { type: "exited_ok" });
  await played.untilState("finished");
  const retry = async (trials: unknown) =>
    void await played.sweeps.change(played.row(), "retry", JSON.stringify({ trials }));
  await assert.rejects(async () => await retry([]), hasCode("invalid_argument", /trials/));
  await assert.rejects(
    () => retry([1, 5]),
    hasCode("not_found", /1 of 2 trials cannot be retried, the first is trial 5/),
  );
  assert.deepEqual(played.live(), [played.made[1]]);
  await played.again();
  played.report(played.made[1]!, 1, 1);
  played.end(played.made[1]!, { type: "exited_ok" });
  await played.untilState("finished");
  assert.equal(played.cancelled.length, 1, "it is not stopped again");
});

Deno.test("sweeps: failed trials are retried while the queue takes runs", async () => {
  await using f = EngineFixture.start({ maxRuns: 1, bounds: { maxQueue: 1 } });
  const spec = checked({
    name: "s",
    config: JSON.parse(configOf({ command: ["/bin/true", "{a}"] })),
    pass: "templates",
    parts: [partFrom({ axes: [gridAxis("a=1..2")], space: [] })],
    budget: {},
    max_parallel: 2,
  });
  await f.engine.beginSweep(JSON.stringify(spec), "", false, "");
  await until(() => f.registry.sweeps.live().length === 2, { what: "two trials" });
  const trials = f.registry.sweeps.live().map(({ runId }) => runId);
  for (const runId of trials) {
    (await f.connect(runId)).exit({ code: 1 });
    await f.state(runId, "FAULTED");
  }
  f.engine.submit(configOf({ command: ["/bin/true", "first"] }));
  await until(() => f.proxies.started.length === 3, { what: "the run to start" });
  const waiting = f.engine.submit(configOf({ command: ["/bin/true", "second"] })).runId;
  const retry = () => f.engine.changeSweep("s", "retry_failed", "");
  await assert.rejects(
    retry,
    hasCode("resource_exhausted", /2 of 2 failed trials .*the limit is 1 \(--max-queue\)/),
  );
  assert.deepEqual(trials.map((runId) => f.row(runId).state), ["FAULTED", "FAULTED"]);
  assert.throws(() => f.engine.retry(trials[0]!), hasCode("resource_exhausted", /--max-queue/));
  f.engine.cancel(waiting);
  await assert.rejects(retry, hasCode("resource_exhausted", /1 of 2 failed trials/));
  assert.deepEqual(trials.map((runId) => f.row(runId).state), ["INIT", "FAULTED"]);
});

Deno.test("sweeps: as many trials at once as the host has GPUs, also if its driver answers late", async () => {
  using fake = new FakeGpuTools("a100x4");
  const log = createLogger({ sinks: [] });
  const gpus = new GpuPool({
    option: parseGpuOption("auto"),
    visible: visibleOf({}),
    tools: fake.tools(),
    log,
  });
  Object.defineProperty(navigator, "hardwareConcurrency", { configurable: true, value: 2 });
  try {
    await using f = EngineFixture.start({ gpus, maxRuns: 1 });
    const spec = {
      name: "s",
      config: JSON.parse(configOf({ command: ["/bin/true", "{a}"] })),
      pass: "templates",
      parts: [partFrom({ axes: [gridAxis("a=1..9")], space: [] })],
      budget: {},
    };
    const live = () => f.registry.sweeps.live().length;
    await f.engine.beginSweep(JSON.stringify(spec), "", false, "");
    await until(() => live() >= 2, { what: "trials" });
    assert.equal(live(), 2);
    await gpus.read(0);
    await until(() => live() === 4, { what: "as many trials as GPUs" });
  } finally {
    Reflect.deleteProperty(navigator, "hardwareConcurrency");
    await gpus.close();
  }
});

Deno.test("sweeps: one that could not be read again is not stored", async () => {
  await using played = new Played();
  const { sweeps } = played;
  const half = "x".repeat(2 << 20);
  const sweepId = played.begin({ config: { arguments: ["{a}"], half } });
  const one = JSON.stringify({
    ...sweeps.specOf(played.row()),
    name: "t",
    config: { arguments: ["{a}"], many: [0] },
  });
  const many = one.replace("[0]", `[${"1e20,".repeat(500_000)}0]`);
  assert.throws(
    () => sweeps.create(many, "", false, ""),
    hasCode("invalid_argument", /more than 4 MiB/),
  );
  const extension = JSON.stringify({ axes: [gridAxis(`a=${half}`)], space: [] });
  assert.throws(
    () => sweeps.change(played.row(), "extend", extension),
    hasCode("invalid_argument", /more than 4 MiB/),
  );
  assert.deepEqual(
    played.registry.sweeps.list(9).map((row) => [row.sweepId, sweeps.specOf(row).name]),
    [[
      sweepId,
      "s",
    ]],
  );
});

Deno.test("sweeps: what callers send is refused with its fields, and deep nesting is no danger", async () => {
  await using played = new Played();
  const create = (json: string) => played.sweeps.create(json, "", false, "uid:1");
  assert.throws(() => create("{"), hasCode("invalid_argument", /no JSON/));
  assert.throws(
    () => create(`{"config":${"[".repeat(100_000)}${"]".repeat(100_000)}}`),
    hasCode("invalid_argument"),
  );
  assert.throws(
    () => create('{"name":"a/b","parts":[]}'),
    hasCode("invalid_argument", /name: .*; config: .*; pass: .*; parts: /),
  );
  assert.throws(
    () => played.sweeps.create("{}", "no ULID", false, ""),
    hasCode("invalid_argument", /not a ULID/),
  );
  assert.deepEqual(played.registry.sweeps.list(9), []);
});

Deno.test("sweeps: a budget of runs ends the sweep, and more budget continues it", async () => {
  await using played = new Played();
  played.begin({ budget: { runs: 3 }, max_parallel: 6 });
  await played.untilMade(3);
  for (const runId of played.live()) played.end(runId, { type: "exited_ok" });
  await played.untilState("finished");
  assert.equal(played.made.length, 3);
  played.sweeps.change(
    played.row(),
    "extend",
    JSON.stringify({ axes: [], space: [], budget: { runs: 4 } }),
  );
  await played.untilMade(4);
});

Deno.test("sweeps: running time is that of all attempts, of the one that runs, too", async () => {
  await using played = new Played();
  const sweepId = played.begin({ max_parallel: 2 });
  await played.untilMade(2);
  const [a, b] = played.made as [string, string];
  let clock = 0;
  played.now = () => clock;
  const begun = Date.now();
  const at = (ms: number, runId: string, event: LifecycleEvent) => {
    clock = ms;
    played.registry.apply(runId, event);
  };
  at(begun, a, { type: "spawned" });
  at(begun + 1000, a, { type: "failed", reason: "exit_code_1" });
  at(begun + 5000, a, { type: "retry", reason: "restart" });
  at(begun + 6000, a, { type: "spawned" });
  at(begun + 6000, b, { type: "spawned" });
  at(begun + 8000, a, { type: "exited_ok" });
  clock = begun + 9000;
  assert.equal(played.registry.sweeps.runMs(sweepId), 1000 + 2000 + 3000);
});

Deno.test("sweeps: steps that were spent are a budget, too", async () => {
  await using played = new Played();
  played.begin({ budget: { steps: 50 }, max_parallel: 1 });
  await played.untilMade(1);
  played.report(played.made[0]!, 1, 2);
  played.end(played.made[0]!, { type: "exited_ok" });
  await played.untilMade(2);
  played.report(played.made[1]!, 1, 2, 3);
  played.end(played.made[1]!, { type: "exited_ok" });
  await played.untilState("finished");
  assert.equal(played.made.length, 2);
});

Deno.test("sweeps: bad trials are stopped at a rung, as no failure; the next daemon carries out and repeats no decision", async () => {
  await using played = new Played();
  const rule = stopOf("asha:min=10,max=90", {});
  const seeds = wholeAxis("seed", "1..3");
  const parts = [partFrom({ axes: [gridAxis("a=1,2")], space: [], seeds })];
  const config = { entry_point: "x", arguments: ["{a}", "{seed}"], environment: {} };
  played.begin({
    config,
    parts,
    max_parallel: 6,
    metric: { name: "score", goal: "max" },
    stop: rule,
  });
  await played.untilMade(6);
  const entered = (count: number) =>
    until(() => played.registry.sweeps.reports(played.row().sweepId).length >= count, {
      what: `${count} reports`,
    });
  const [a, b, c, d, e, f] = played.made as [string, string, string, string, string, string];
  played.report(a, 5);
  await entered(1);
  played.report(b, 3);
  await entered(2);
  assert.deepEqual(played.cancelled, [[b, "pruned"]]);
  await played.again();
  played.report(c, 7, 8, 9);
  await entered(4);
  played.report(d, NaN);
  await entered(5);
  assert.deepEqual(played.cancelled.slice(1), [[d, "pruned"]]);
  // A trial that ended while no daemon watched is entered as well: others are compared with it.
  await played.sweeps.close();
  played.report(e, 6);
  played.end(e, { type: "exited_ok" });
  await played.again();
  await entered(6);
  const reports = played.registry.sweeps.reports(played.row().sweepId);
  for (const [i, { stops, reason, ...report }] of reports.entries()) {
    assert.deepEqual(decide(rule, "max", reports.slice(0, i), report, String), { stops, reason });
  }
  assert.deepEqual(reports.map(({ trial, rung, stops }) => [trial, rung, stops]), [
    ...[[0, 1, false], [1, 1, true], [2, 1, false], [2, 2, false], [3, 1, true], [4, 1, true]],
  ]);
  assert.equal(played.cancelled.length, 2, "a trial that has ended is not cancelled");
  const events = played.registry.eventsSince(0, { kinds: ["rung"], runId: b, limit: 9 });
  assert.equal(JSON.parse(events[0]!.dataJson).reason, "rung 1 of 2: 3 is 2nd of 2, 1 goes on");

  // By hand it goes on, and is not stopped again.
  played.registry.apply(b, { type: "retry", reason: "by hand" });
  await played.again();
  played.report(f, 1);
  await entered(7);
  assert.deepEqual(played.cancelled.slice(2), [[f, "pruned"]]);

  const row = played.row();
  const { detail, states } = await sweepSummary(played, row, played.sweeps.specOf(row), 10);
  assert.deepEqual(states, { init: 3, pruned: 2, terminated: 1 });
  assert.deepEqual(detail!.best?.trial, 2);
  assert.deepEqual(
    detail!.points.map((
      { parameters, values, mean, pruned },
    ) => [parameters.a, values, mean, pruned]),
    [
      [1, 3, (5 + 9 + 6) / 3, 0],
      [2, 1, 3, 2],
    ],
  );
  assert.equal(detail!.winner?.parameters.a, 1);
  assert.ok(detail!.winner!.low! < 20 / 3 && detail!.winner!.high! > 20 / 3);
  assert.deepEqual(detail!.stopped.map(({ trial }) => trial), [3, 5]);
  assert.deepEqual([detail!.saved.trials, detail!.saved.steps], [2, 0], "one ended at step 20");
  const whole = detail!.trials.find(({ state }) => state === "terminated")!;
  played.report(whole.run_id!, ...Array(8).fill(whole.value));
  const later = await sweepSummary(played, row, played.sweeps.specOf(row), 10);
  assert.deepEqual(later.detail!.saved.steps, 2 * 80, "of 100");
  // At the first rung all trials can be compared, also those that were stopped there; not the one
  // without a number.
  assert.equal(detail!.judged_at, 10);
  assert.deepEqual(detail!.trials.toReversed().map(({ judged }) => judged), [5, 3, 7, null, 6, 1]);
});

Deno.test("curves: the first point at or beyond a rung, with the mean and the best up to it, however long the curve is", () =>
  withStore(({ store }) => {
    const events = Array.from({ length: 5000 }, (_, i) => ({
      kind: "metrics",
      tsNs: "0",
      dataJson: JSON.stringify({ loss: 5000 - i, step: (i + 1) * 10 }),
    }));
    store.ingest("R", 1, batch(0, 1, { events }));
    const at = (rung: number, unit = "step") => atRung(store, "R", "loss", { unit }, rung, "min");
    assert.deepEqual(at(31), { step: 40, value: 4997, mean: 4998.5, best: 4997 });
    assert.deepEqual(at(30, "points"), { step: 30, value: 4971, mean: 4985.5, best: 4971 });
    assert.deepEqual(at(49_991), { step: 50_000, value: 1, mean: 2500.5, best: 1 });
    assert.equal(at(50_001), undefined);
    assert.equal(atRung(store, "R", "other", { unit: "step" }, 1, "min"), undefined);
  }));

Deno.test("curves: rungs by running time, and by a metric that counts, in the same lines or in others", () =>
  withStore(({ store }) => {
    const event = (seconds: number, data: Record<string, number>) => ({
      kind: "metrics",
      tsNs: String(BigInt(seconds) * 1_000_000_000n),
      dataJson: JSON.stringify(data),
    });
    const one = [1, 2, 3, 4].map((i) =>
      event(100 + 10 * i, { loss: 9 - i, epoch: i / 2, step: i * 100 })
    );
    store.ingest("R", 1, batch(0, 1, { events: one }));
    const at = (unit: string, rung: number, run = "R", startedAt: number | null = 100_000) =>
      atRung(store, run, "loss", { unit }, rung, "min", startedAt)?.value;
    assert.deepEqual([5, 10, 11, 40, 41].map((rung) => at("time", rung)), [8, 8, 7, 5, undefined]);
    assert.equal(at("time", 1, "R", null), undefined, "it has not started");
    assert.deepEqual([1, 2, 3].map((rung) => at("epoch", rung)), [7, 5, undefined]);
    assert.equal(at("other", 1), undefined);
    const apart = [
      ...[
        event(1, { loss: 9 }),
        event(2, { epoch: 1 }),
        event(3, { loss: 8 }),
        event(4, { loss: 7 }),
      ],
      event(5, { epoch: 2 }),
    ];
    store.ingest("S", 1, batch(0, 1, { events: apart }));
    assert.deepEqual([1, 2].map((rung) => at("epoch", rung, "S")), [8, undefined]);
  }));

/** Nine trials of different quality, three at a time. @param dies a daemon after each decision */
async function playedWithHolds(dies: boolean) {
  const played = new Played();
  const rule = stopOf("asha:min=10,max=90,hold=2", {});
  const parts = [partFrom({ axes: [gridAxis("a=1..9")], space: [] })];
  played.begin({ parts, max_parallel: 3, metric: { name: "score", goal: "max" }, stop: rule });
  const quality = [5, 9, 8, 1, 2, 3, 7, 4, 6];
  const reports = () => played.registry.sweeps.reports(played.row().sweepId);
  const points = new Map<string, number>();
  await played.untilMade(3);
  while (played.row().state !== "finished") {
    const { length } = played.made;
    const runs = played.live().filter((runId) => !played.registry.require(runId).pauseRequested);
    const runId = runs.sort((a, b) => played.trialOf(a) - played.trialOf(b))[0];
    if (runId === undefined) {
      await until(() => played.live().length === 0 || played.made.length > length, {
        what: "a trial or the end",
      });
      await until(() => played.live().length > 0 || played.row().state === "finished", {
        what: "the end",
      });
      continue;
    }
    const trial = played.trialOf(runId);
    const n = (points.get(runId) ?? 0) + 1;
    points.set(runId, n);
    played.report(runId, quality[trial]! + n / 100);
    const rung = { 1: 1, 3: 2 }[n];
    const judged = () => reports().some((one) => one.trial === trial && one.rung === rung);
    if (rung !== undefined) await until(judged, { what: `trial ${trial} to be judged` });
    else if (n === 9) played.end(runId, { type: "exited_ok" });
    const free = () =>
      played.live().filter((runId) => !played.registry.require(runId).pauseRequested).length >= 3 ||
      played.made.length === 9;
    await until(free, { what: "the places to be taken" });
    if (dies && rung !== undefined) await played.again();
  }
  const states = played.registry.sweeps.counts(played.row().sweepId);
  return { played, states, log: reports().map(({ at: _, attempt: __, ...report }) => report) };
}

Deno.test("sweeps: trials wait at a rung, go on when later ones are worse, and are stopped when none comes; daemons that die decide the same", async () => {
  const { played, log, states } = await playedWithHolds(false);
  await using _ = played;
  const of = (trial: number) =>
    log.filter((one) => one.trial === trial).map(({ rung, stops, holds }) => [rung, stops, holds]);
  assert.deepEqual(of(0), [[1, false, false], [2, false, false]], "the first has no rival");
  assert.deepEqual(of(2), [[1, false, true], [1, false, false], [2, false, true], [
    2,
    true,
    false,
  ]]);
  const goesOn = log.find(({ trial, holds }, i) => trial === 2 && !holds && i > 0)!;
  assert.equal(goesOn.reason, "rung 1 of 2: 8.01 is 2nd of 6, 2 go on");
  assert.equal(states.TERMINATED! + states.pruned!, 9);
  assert.ok(played.told.includes("pause 2") && played.told.includes("resume 2"));
  assert.match(log.at(-1)!.reason, /and no further trial comes$/);
  assert.ok(log.some(({ stops, reason }) => stops && reason.endsWith("and no more than 2 wait")));

  const restarted = await playedWithHolds(true);
  await using __ = restarted.played;
  assert.deepEqual(restarted.log, log);
  assert.deepEqual(restarted.states, states);
});

Deno.test("sweeps: one that waits at a rung goes on by hand; one that cannot be paused is stopped instead", async () => {
  await using played = new Played();
  const stop = stopOf("asha:min=10,max=90,hold=2", {});
  played.begin({ max_parallel: 2, metric: { name: "score", goal: "max" }, stop });
  await played.untilMade(2);
  const reports = () => played.registry.sweeps.reports(played.row().sweepId);
  played.report(played.made[0]!, 9);
  await until(() => reports().length === 1, { what: "a decision" });
  played.report(played.made[1]!, 8);
  await played.untilMade(3);
  assert.deepEqual(played.told, ["pause 1"]);
  played.registry.update(played.made[1]!, { pauseRequested: false });
  await until(() => reports().at(-1)!.reason === "rung 1: it was resumed by hand", {
    what: "it to be entered",
  });
  played.rigid.add(played.made[2]!);
  played.report(played.made[2]!, 1);
  await until(() => played.cancelled.length === 1, { what: "the trial to be stopped" });
  assert.deepEqual(played.cancelled, [[played.made[2], "pruned"]]);
});

Deno.test("sweeps: population based training: the worst gives its place to a trial that goes on from the best; daemons that die do it once", async () => {
  await using played = new Played();
  const config = { entry_point: "x", arguments: ["{lr}", "{seed}"], environment: {} };
  const parts = [partFrom({
    axes: [],
    random: 4,
    space: [{ name: "lr", distribution: { type: "log", low: 1e-5, high: 1e-1 } }],
    seeds: wholeAxis("seed", "7"),
  })];
  const stop = stopOf("pbt:min=10,max=40", {});
  played.begin({ config, parts, max_parallel: 4, metric: { name: "score", goal: "max" }, stop });
  await played.untilMade(4);
  const reports = () => played.registry.sweeps.reports(played.row().sweepId);
  for (const [i, runId] of played.made.slice(0, 3).entries()) {
    played.report(runId, 9 - i);
    await until(() => reports().length === i + 1, { what: "a decision" });
  }
  played.report(played.made[3]!, 1);
  await until(() => reports().length === 4, { what: "a decision" });
  assert.equal(
    reports()[3]!.reason,
    "rung 1 of 3: 1 is 4th of 4, the last gives way, but trial 0, which is better, has no checkpoint to go on from",
  );
  assert.deepEqual(played.cancelled, []);

  played.checkpoints.set(played.made[0]!, "/runs/0/model.pt");
  for (const [i, runId] of played.made.slice(0, 3).entries()) {
    played.report(runId, 20 - i);
    await until(() => reports().length === i + 5, { what: "a decision" });
  }
  let dying = true;
  played.before = (trial) => {
    if (trial === 4 && dying) throw new MosaicError("unavailable", "this daemon dies now");
  };
  played.report(played.made[3]!, NaN);
  await until(() => played.cancelled.length === 1, { what: "the worst to give way" });
  assert.deepEqual(played.cancelled, [[played.made[3], "pruned"]]);
  await played.again();
  assert.equal(played.made.length, 4);
  dying = false;
  await played.untilMade(5);
  const next = played.registry.require(played.made[4]!);
  const { metadata } = JSON.parse(next.configJson);
  assert.equal(metadata.resume_from, "/runs/0/model.pt");
  const [{ lr: from }, { lr, seed }] = [0, 4].map((trial) =>
    Object.fromEntries(valuesAt(played.sweeps.specOf(played.row()), trial)) as {
      lr: number;
      seed: number;
    }
  ) as [{ lr: number }, { lr: number; seed: number }];
  assert.equal(seed, 7);
  assert.notEqual(lr, from);
  assert.deepEqual([metadata.parameters.lr, metadata.parameters.seed], [lr, 7]);
  assert.match(
    reports().at(-1)!.reason,
    /^rung 2 of 3: the value is NaN; trial 4 goes on from trial 0 with lr=\S+ seed=7$/,
  );

  // Its steps go on, too: rungs that it has not passed itself do not count.
  played.report(played.made[4]!, 5, 6, 7);
  await until(() => reports().some(({ trial }) => trial === 4), {
    what: "the new trial to be judged",
  });
  assert.deepEqual(
    reports().filter(({ trial }) => trial === 4).map(({ rung, value }) => [rung, value]),
    [[3, 7]],
  );
  await played.again();
  for (const runId of played.live()) played.end(runId, { type: "exited_ok" });
  await played.untilState("finished");
  assert.equal(new Set(played.made).size, 5);
});

Deno.test("population: what is changed stays within its space, and is the same whenever it is asked for", () => {
  const parts = [partFrom({
    axes: [gridAxis("act=relu,tanh,elu")],
    random: 8,
    space: [
      { name: "lr", distribution: { type: "log", low: 1e-4, high: 1e-2 } },
      { name: "n", distribution: { type: "int", low: 1, high: 4 } },
    ],
  })];
  const spec = checked({
    ...{
      name: "s",
      config: {},
      pass: "flags",
      parts,
      budget: {},
      metric: { name: "score", goal: "max" },
    },
    stop: stopOf("pbt:min=10,max=40", {}),
  });
  const at = (trial: number, value: number) => ({
    trial,
    rung: 1,
    value,
    mean: value,
    best: value,
  });
  const earlier = Array.from({ length: 23 }, (_, trial) => at(trial, trial));
  let grown = spec;
  const changed = new Set<string>();
  for (let trial = 24; trial < 124; trial++) {
    const successor = successorOf(spec, "max", earlier, at(23, -1), trial)!;
    assert.deepEqual(successorOf(spec, "max", earlier, at(23, -1), trial), successor);
    const { act, lr, n } = successor.values as { act: string; lr: number; n: number };
    assert.ok(
      ["relu", "tanh", "elu"].includes(act) && lr >= 1e-4 && lr <= 1e-2 && [1, 2, 3, 4].includes(n),
    );
    assert.ok(successor.origin.trial >= 17, "one of the best quarter");
    const from = Object.fromEntries(valuesAt(spec, successor.origin.trial));
    for (const [name, value] of Object.entries(successor.values)) {
      if (value !== from[name]) changed.add(name);
    }
    grown = withSuccessor(grown, successor);
  }
  assert.deepEqual([...changed].sort(), ["act", "lr", "n"]);
  assert.equal(trialCount(checked(grown)), 124);
  assert.equal(originOf(grown, 23), undefined);
  assert.deepEqual(
    originOf(grown, 123),
    successorOf(spec, "max", earlier, at(23, -1), 123)!.origin,
  );
  assert.equal(successorOf(spec, "max", earlier, at(23, 99), 24), undefined, "nobody is better");
});

Deno.test("sweeps: what a whole sweep waits for is fixed when it begins", async () => {
  await using played = new Played();
  const queue = {
    after: ["@last", "sweep:x:any"],
    begin: "+2h",
    deadline: "2027-01-01T00:00Z",
    preemptible: true,
  };
  const began = Date.now();
  played.begin({
    config: { entry_point: "x", arguments: ["{a}"], environment: {}, metadata: { queue } },
  });
  await played.untilMade(2);
  const [first, second] = played.made.map((runId) =>
    JSON.parse(played.registry.require(runId).configJson).metadata.queue
  );
  assert.deepEqual(first, second);
  const { begin, ...others } = first;
  const { deadline, preemptible } = queue;
  assert.deepEqual(others, { after: ["id of @last", "id of sweep:x:any"], deadline, preemptible });
  assert.ok(Math.abs(Date.parse(begin) - began - 2 * 3_600_000) < 60_000);
});

Deno.test("sweeps: one that has ended is deleted, with its decisions; its runs stay, and its name is free", async () => {
  await using played = new Played();
  const fields = {
    budget: { runs: 1 },
    max_parallel: 1,
    metric: { name: "score", goal: "max" as const },
  };
  const sweepId = played.begin({ ...fields, stop: stopOf("asha:min=10,max=90", {}) });
  await played.untilMade(1);
  played.report(played.made[0]!, 1);
  await until(() => played.registry.sweeps.reports(sweepId).length === 1, { what: "a decision" });
  assert.throws(
    () => played.sweeps.delete(played.row()),
    hasCode("failed_precondition", /running, and 1 of its trials/),
  );
  played.end(played.made[0]!, { type: "exited_ok" });
  await played.untilState("finished");
  played.sweeps.delete(played.row());
  assert.throws(() => played.row(), hasCode("not_found"));
  assert.deepEqual(played.registry.sweeps.reports(sweepId), []);
  assert.deepEqual(played.registry.sweeps.trials(sweepId, 0, 9), []);
  assert.equal(played.registry.require(played.made[0]!).state, "TERMINATED");
  assert.notEqual(played.begin(fields), sweepId);
});
