/**
 * A real engine, registry and telemetry store on a temporary state directory, for tests of what
 * uses them (the page, the services). It starts no process: its runs look like those of an earlier
 * daemon, each with a proxy that does at once what it is asked.
 */
import { gpuPool } from "./gpus.ts";
import { DatabaseSync } from "node:sqlite";
import { createLogger } from "../../src/base/log.ts";
import { Layout, RunFiles } from "../../src/base/layout.ts";
import type { HostInfo } from "../../src/dispatch/core/core.ts";
import type { DesiredControl } from "../../src/dispatch/attempt/state/connected_proxy.ts";
import { Engine, type EngineOptions } from "../../src/dispatch/core/engine.ts";
import type { ExitReport } from "../../src/registry/failure/explain.ts";
import { Registry } from "../../src/registry/registry.ts";
import type { NewRun, RunRow } from "../../src/registry/row_types.ts";
import type { EpisodeRecord, StepRecord } from "../../src/gen/records/record_types.ts";
import type { Parameter } from "../../src/records/parameters.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { newRun } from "../registry/fixture.ts";
import { configOf } from "./configs.ts";
import { PlayedProxy } from "./engine.ts";

/** Does at once what it is asked. */
class WillingProxy extends PlayedProxy {
  override control(desired: DesiredControl): void {
    super.control(desired);
    this.session.controlApplied({ ...desired, selfPaused: "" });
  }
  override stop(graceSeconds: number): void {
    super.stop(graceSeconds);
    this.exit({ code: null, signal: "SIGTERM" });
  }
}

export const A_STEP: StepRecord = {
  episode: 0,
  step: 0,
  reward: 1,
  terminated: false,
  truncated: false,
  tsNs: "1700000000123456789",
  agentId: "agent_1",
  workerId: "",
  policyLabel: "",
  backend: "",
  actionJson: "1",
  observationJson: "[0.5]",
  renderHintJson: "",
  renderPayloadJson: "",
  frameRef: "",
  payloadVersion: 0,
  episodeSeed: 0,
  infoJson: "",
};

function anEpisode(
  episode: number,
  length: number,
  { payload, at = Date.now(), metadataJson = "{}" }: {
    payload?: (step: number) => string;
    at?: number;
    metadataJson?: string;
  } = {},
): { steps: StepRecord[]; whole: EpisodeRecord } {
  const tsNs = `${BigInt(at) * 1_000_000n}`;
  const steps = Array.from({ length }, (_, step): StepRecord => ({
    ...A_STEP,
    ...{ episode, step, tsNs, terminated: step === length - 1, actionJson: String(step % 2) },
    renderPayloadJson: payload?.(step) ?? "",
  }));
  const whole: EpisodeRecord = {
    ...{
      episode,
      totalReward: length,
      steps: length,
      terminated: true,
      truncated: false,
      metadataJson,
      tsNs,
    },
    ...{ agentId: "agent_1", workerId: "" },
  };
  return { steps, whole };
}

export class PlayedEngine extends Engine implements AsyncDisposable {
  readonly registry: Registry;
  readonly telemetry: TelemetryStore;
  readonly directory: string;
  readonly layout: Layout;
  readonly logLines: string[];
  /** Facts of the host that replace its real ones. */
  hostFacts: Partial<HostInfo> = {};
  readonly #proxies = new Map<string, WillingProxy>();
  #added = 0;

  constructor(options: Partial<EngineOptions> = {}) {
    const directory = Deno.makeTempDirSync({ prefix: "mosaic-played-" });
    const layout = new Layout(directory);
    for (const path of layout.directories()) Deno.mkdirSync(path, { recursive: true });
    const logLines: string[] = [];
    const registry = Registry.open(layout.registryDb);
    const telemetry = TelemetryStore.open(layout.telemetryDb);
    super({
      registry,
      telemetry,
      log: createLogger({ level: "debug", sinks: [(line) => void logLines.push(line)] }),
      layout,
      version: "1.2.3-test",
      gpus: gpuPool(4, "Test GPU"),
      maxRuns: 0,
      maxStarting: 0,
      graceSeconds: 5,
      handshakeTimeoutSeconds: 600,
      heartbeatTimeoutSeconds: 600,
      maxBacklogBytes: 0,
      onShutdown: () => {},
      ...options,
    });
    this.directory = directory;
    this.layout = layout;
    this.registry = registry;
    this.telemetry = telemetry;
    this.logLines = logLines;
    this.recover();
    this.begin({ listen: "127.0.0.1:50055", http: "127.0.0.1:8055", socket: "" });
  }

  override host(): HostInfo {
    return { ...super.host(), ...this.hostFacts };
  }

  /** A waiting run, as a submission leaves it. */
  add(name: string, more: Partial<NewRun> = {}, parameters: readonly Parameter[] = []): RunRow {
    const n = ++this.#added;
    const runId = `01HZZZZZZZZZZZZZZZZZ${String(n).padStart(6, "0")}`;
    const configJson = configOf({ name, command: ["/bin/true"] });
    return this.registry.insert(newRun(n, { runId, name, configJson, ...more }), null, parameters);
  }

  /**
   * Waiting runs, PREFIX0 to PREFIX(COUNT-1), entered at once: thousands of submissions would take
   * long.
   */
  addMany(prefix: string, count: number): void {
    const { runId } = this.add(`${prefix}0`);
    const other: Record<string, string> = {
      run_id: `substr(run_id, 1, 20) || printf('%06d', ${this.#added} + i)`,
      name: `'${prefix}' || i`,
      digest: `digest || '-' || i`,
    };
    this.#added += count - 1;
    const db = new DatabaseSync(this.layout.registryDb);
    const columns = db.prepare("SELECT name FROM pragma_table_info('runs')").all().map(({ name }) =>
      name as string
    );
    db.prepare(`INSERT INTO runs (${columns.join(", ")})
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count - 1})
      SELECT ${
      columns.map((column) => other[column] ?? column).join(", ")
    } FROM runs, n WHERE run_id = ?`).run(runId);
    db.close();
  }

  /** A run whose worker runs and has not recorded anything. */
  addExecuting(name: string, more: Partial<NewRun> = {}): RunRow {
    return this.begun(this.add(name, more).runId);
  }

  /** Moves a waiting run to where its worker has printed something. */
  begun(runId: string): RunRow {
    this.ready(runId);
    this.publish(runId, [], []);
    return this.registry.require(runId);
  }

  /** Moves a waiting run to where its worker was started. */
  ready(runId: string): RunRow {
    const row = this.registry.apply(runId, { type: "spawned" }, { startedAt: Date.now() });
    const files = this.filesOf(row);
    for (const path of [files.directory, files.logs, files.control]) {
      Deno.mkdirSync(path, { recursive: true });
    }
    this.registerWorker({
      runId,
      workerId: "",
      workerKind: "telemetry_proxy",
      protoVersion: "MOSAIC/1.0",
      schemaId: "",
      schemaVersion: 0,
      supportsPause: false,
      supportsCheckpoint: false,
    });
    const proxy = new WillingProxy();
    proxy.session = this.openProxy({
      ...{ runId, attempt: row.attempt, worker: null },
      // No process has this pid: none is signalled.
      proxy: { pid: 2 ** 30, identity: "none" },
    }, proxy);
    this.#proxies.set(runId, proxy);
    return this.registry.require(runId);
  }

  proxyOf(runId: string): PlayedProxy {
    const proxy = this.#proxies.get(runId);
    if (proxy === undefined) throw new Error(`no proxy of ${runId} has connected`);
    return proxy;
  }

  /** The run's worker ends; with 0, unless the report says otherwise. */
  ended(runId: string, report: Partial<ExitReport> = {}): RunRow {
    this.proxyOf(runId).exit(report);
    return this.registry.require(runId);
  }

  filesOf(row: RunRow): RunFiles {
    return new RunFiles(this.layout.runDir(row.baseDir, row.runId), row.workerId);
  }

  /** Steps that differ in their number. */
  addSteps(runId: string, from: number, to: number, more: Partial<StepRecord> = {}): void {
    this.publish(
      runId,
      Array.from({ length: to - from + 1 }, (_, i) => ({ ...A_STEP, step: from + i, ...more })),
      [],
    );
  }

  /**
   * An episode of `length` steps with a reward of 1 each, all of them at one time (Unix
   * milliseconds).
   */
  addEpisode(
    runId: string,
    length: number,
    payload?: (step: number) => string,
    at = Date.now(),
    metadataJson = "{}",
  ): void {
    const { steps, whole } = anEpisode(this.telemetry.head(runId, "episodes"), length, {
      payload,
      at,
      metadataJson,
    });
    this.publish(runId, steps, [whole]);
  }

  /** Such episodes at once, which takes less time than one after the other. */
  addEpisodes(runId: string, count: number, length: number): void {
    const head = this.telemetry.head(runId, "episodes");
    const all = Array.from({ length: count }, (_, i) => anEpisode(head + i, length));
    this.publish(runId, all.flatMap(({ steps }) => steps), all.map(({ whole }) => whole));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    this.telemetry.close();
    this.registry.close();
    await Deno.remove(this.directory, { recursive: true });
  }
}
