/**
 * A core for the page's tests: the real registry in a temporary directory, telemetry in memory, and no processes: what
 * a worker would do, the test says.
 */
import type { Core, RunDetail } from "../../src/dispatch/core/core.ts";
import type { IngestBatch } from "../../src/telemetry/batch.ts";
import type {
  RunTelemetry,
  SeriesBucketRow,
  StoredEpisode,
  StoredOf,
  StoredStep,
  TelemetryKind,
  TelemetryLog,
} from "../../src/telemetry/types.ts";
import type { NewRun, RunRow } from "../../src/registry/types.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { isEnded } from "../../src/registry/lifecycle/lifecycle.ts";
import { createLogger } from "../../src/base/log.ts";
import { Activity } from "../../src/observability/activity.ts";
import { Registry } from "../../src/registry/registry.ts";

interface Stored {
  steps: StoredStep[];
  episodes: StoredEpisode[];
}

class MemoryTelemetry implements TelemetryLog {
  readonly runs = new Map<string, Stored>();
  isWritable = true;
  #waiting = new Set<() => void>();

  of(runId: string): Stored {
    let stored = this.runs.get(runId);
    if (stored === undefined) this.runs.set(runId, stored = { steps: [], episodes: [] });
    return stored;
  }
  changed(): void {
    for (const wake of this.#waiting) wake();
  }
  ingest(_runId: string, _attempt: number, _batch: IngestBatch): never {
    throw new Error("no proxy delivers to this core");
  }
  deliver(): never {
    throw new Error("no proxy delivers to this core");
  }
  commitWaiting(): void {}
  append(): never {
    throw new Error("no proxy delivers to this core");
  }
  read<K extends TelemetryKind>(runId: string, kind: K, since: number, limit: number): StoredOf[K][] {
    const { steps, episodes } = this.of(runId);
    const rows = kind === "steps" ? steps : kind === "episodes" ? episodes : [];
    return rows.slice(since, since + limit) as unknown as StoredOf[K][];
  }
  head(runId: string, kind: TelemetryKind): number {
    const { steps, episodes } = this.of(runId);
    return kind === "steps" ? steps.length : kind === "episodes" ? episodes.length : 0;
  }
  waitBeyond(runId: string, kind: TelemetryKind, since: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const look = () => {
        if (!signal.aborted && this.head(runId, kind) <= since) return;
        this.#waiting.delete(look);
        resolve();
      };
      this.#waiting.add(look);
      signal.addEventListener("abort", look, { once: true });
      look();
    });
  }
  summary(runId: string): RunTelemetry {
    const { steps, episodes } = this.of(runId);
    const last = episodes.slice(-100).map((e) => e.totalReward);
    return {
      steps: steps.length,
      episodes: episodes.length,
      events: 0,
      metrics: 0,
      otherLines: 0,
      malformedLines: 0,
      violations: {},
      attempt: 1,
      journalPosition: 0,
      meanReward100: last.length === 0 ? null : last.reduce((a, b) => a + b, 0) / last.length,
      lastRecordAt: steps.length === 0 ? null : Number(BigInt(steps.at(-1)!.tsNs) / 1_000_000n),
    };
  }
  listSeries(runId: string) {
    const { steps, episodes } = this.of(runId);
    return [
      { name: "reward", points: steps.length, last: steps.at(-1)?.reward ?? null },
      { name: "episode_reward", points: episodes.length, last: episodes.at(-1)?.totalReward ?? null },
      { name: "episode_length", points: episodes.length, last: episodes.at(-1)?.steps ?? null },
    ];
  }
  series(runId: string, name: string, fromX: number, toX: number, buckets: number): SeriesBucketRow[] {
    if (!["reward", "episode_reward", "episode_length"].includes(name)) {
      throw new MosaicError("not_found", `run ${runId} has no series "${name}"`);
    }
    const { steps, episodes } = this.of(runId);
    const points = name === "reward"
      ? steps.map((s) => ({ x: s.seq, y: s.reward, ts: s.tsNs }))
      : episodes.map((e) => ({ x: e.seq, y: name === "episode_reward" ? e.totalReward : e.steps, ts: e.tsNs }));
    const wanted = points.filter((p) => p.x >= fromX && p.x <= toX);
    const size = Math.max(1, Math.ceil(wanted.length / buckets));
    return Array.from({ length: Math.ceil(wanted.length / size) }, (_, i) => {
      const part = wanted.slice(i * size, (i + 1) * size);
      const ys = part.map((p) => p.y);
      return {
        firstX: part[0]!.x,
        lastX: part.at(-1)!.x,
        min: Math.min(...ys),
        max: Math.max(...ys),
        mean: ys.reduce((a, b) => a + b, 0) / ys.length,
        last: ys.at(-1)!,
        count: ys.length,
        atMs: Number(BigInt(part.at(-1)!.ts) / 1_000_000n),
        step: null,
      };
    });
  }
  delete(runId: string): Promise<number> {
    this.runs.delete(runId);
    return Promise.resolve(0);
  }
  fileBytes(): number {
    return 4096;
  }

  bytesOfRuns(): Promise<Map<string, number>> {
    return Promise.resolve(new Map());
  }
  storedSinceStart() {
    return { steps: 1234, episodes: 12, events: 3 };
  }
  rings() {
    return { runs: 1, bytes: 1000 };
  }
  writable(): boolean {
    return this.isWritable;
  }
  close(): void {}
}

const unimplemented = (): never => {
  throw new MosaicError("unimplemented", "this core has no workers");
};

export class FakeCore implements Core {
  readonly directory: string;
  readonly registry: Registry;
  readonly telemetry = new MemoryTelemetry();
  readonly log = createLogger({ level: "fatal" });
  readonly activity = new Activity();
  readonly startedAt = Date.now();
  readonly version = "0.0.0-test";
  diskAvailable = 200e9;

  get runs(): Registry {
    return this.registry;
  }
  get records(): MemoryTelemetry {
    return this.telemetry;
  }

  constructor(directory: string) {
    this.directory = directory;
    this.registry = Registry.open(`${directory}/registry.db`);
    this.registry.setGpuSlots([0, 1, 2, 3]);
  }

  close(): void {
    this.registry.close();
  }

  /** A run as a submission leaves it. */
  add(name: string, more: Partial<NewRun> = {}): RunRow {
    const runId = more.runId ?? `01TEST${crypto.randomUUID().replaceAll("-", "").toUpperCase().slice(0, 20)}`;
    return this.registry.insert({
      runId,
      name,
      digest: "0".repeat(64),
      maxAttempts: 1,
      priority: 0,
      tags: [],
      baseDir: "runs",
      configJson: JSON.stringify({ run_name: name }),
      gpusRequested: 0,
      gpusMandatory: false,
      workerId: "",
      agentId: "agent_1",
      ...more,
    });
  }

  /** A run whose worker is at work. */
  addExecuting(name: string, more: Partial<NewRun> = {}): RunRow {
    const { runId } = this.add(name, more);
    this.registry.apply(runId, { type: "spawned" }, { startedAt: Date.now() });
    this.registry.apply(runId, { type: "registered" });
    return this.registry.apply(runId, { type: "active" });
  }

  /** An episode of `length` steps with a reward of 1 each, all of them at one time (Unix milliseconds). */
  addEpisode(runId: string, length: number, payload?: (step: number) => string, at = Date.now()): void {
    const stored = this.telemetry.of(runId);
    const common = { attempt: 1, agentId: "agent_1", workerId: "" };
    const tsNs = `${BigInt(at) * 1_000_000n}`;
    const episode = stored.episodes.length;
    for (let step = 0; step < length; step++) {
      stored.steps.push({
        ...common,
        seq: stored.steps.length + 1,
        episode,
        step,
        reward: 1,
        terminated: step === length - 1,
        truncated: false,
        tsNs,
        policyLabel: "",
        backend: "",
        actionJson: String(step % 2),
        observationJson: "[0.1,-0.2]",
        renderHintJson: "",
        renderPayloadJson: payload?.(step) ?? "",
        frameRef: "",
        payloadVersion: 0,
        episodeSeed: 0,
        infoJson: "",
      });
    }
    stored.episodes.push({
      ...common,
      seq: stored.episodes.length + 1,
      episode,
      totalReward: length,
      steps: length,
      terminated: true,
      truncated: false,
      metadataJson: "{}",
      tsNs,
    });
    this.telemetry.changed();
  }

  heldTo(): string[] {
    return [];
  }
  detail(row: RunRow): RunDetail {
    const telemetry = this.telemetry.summary(row.runId);
    return {
      row,
      queuePosition: row.state === "INIT" ? 1 : 0,
      waitingFor: row.state === "INIT" ? "its turn" : "",
      directory: `${this.directory}/${row.runId}`,
      maxSteps: 0,
      telemetry: { ...telemetry, journalSize: 0, stepsPerSecond: row.state === "EXECUTING" ? 120 : 0 },
    };
  }
  list(...[filter, page]: Parameters<Core["list"]>) {
    const { runs, nextToken } = this.registry.list(filter, page);
    return { runs: runs.map((r) => this.detail(r)), nextToken, total: this.registry.count(filter) };
  }
  transitions(runId: string) {
    return this.registry.transitions(runId);
  }
  artifacts(runId: string) {
    return this.registry.artifacts(runId);
  }

  cancel(runId: string): RunRow {
    return this.registry.apply(runId, { type: "cancelled", reason: "user_cancel" }, { finishedAt: Date.now() });
  }
  pause(runId: string): RunRow {
    return this.registry.apply(runId, { type: "pause", reason: "asked for" });
  }
  resume(runId: string): RunRow {
    return this.registry.apply(runId, { type: "resume" });
  }
  throttle(runId: string, maxRateHz: number): RunRow {
    return this.registry.update(runId, { maxRateHz });
  }
  retry(runId: string): RunRow {
    return this.registry.apply(runId, { type: "retry", reason: "asked for" });
  }
  reset(runId: string, fromCheckpoint: string): Promise<RunRow> {
    return Promise.resolve(this.registry.update(runId, { resumeFrom: fromCheckpoint }));
  }
  async delete(runId: string) {
    const { state } = this.registry.require(runId);
    if (!isEnded(state)) throw new MosaicError("failed_precondition", `run ${runId} is ${state}: cancel it first`);
    await this.telemetry.delete(runId);
    this.registry.delete(runId);
    return { freedBytes: 0 };
  }

  diskUsage = unimplemented;
  submit = unimplemented;
  validate = unimplemented;
  registerWorker = unimplemented;
  heartbeat = unimplemented;
  publish = unimplemented;
  openProxy = unimplemented;
  readerStarved = unimplemented;
  readerState = unimplemented;
  requestShutdown = unimplemented;

  logFile(row: RunRow, stream: "stdout" | "stderr"): string {
    return `${this.directory}/${row.runId}.${stream}.log`;
  }
  host() {
    return {
      version: this.version,
      pid: 4242,
      startedAt: this.startedAt,
      stateDir: this.directory,
      listen: "127.0.0.1:50055",
      http: "127.0.0.1:8055",
      gpus: this.registry.gpuSlots().map((g) => ({ ...g, name: "Test GPU" })),
      cpus: 8,
      loadAverage: [2.5, 2, 1],
      memoryBytes: 64e9,
      memoryAvailableBytes: 40e9,
      diskBytes: 1e12,
      diskAvailableBytes: this.diskAvailable,
      telemetryBytes: 3.2e6,
      rssBytes: 90e6,
      runsByState: this.registry.countByState(),
    };
  }
}
