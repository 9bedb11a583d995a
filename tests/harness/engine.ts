/** An engine on a temporary state directory; the test plays its proxies. */
import { gpuPool } from "./gpus.ts";
import type { ExitReport } from "../../src/registry/failure/explain.ts";
import { Engine, type EngineOptions } from "../../src/dispatch/core/engine.ts";
import type {
  DesiredControl,
  ProxyLink,
  ProxySession,
} from "../../src/dispatch/attempt/state/connected_proxy.ts";
import type {
  ProxyArguments,
  ProxyLauncher,
} from "../../src/dispatch/launch/local/proxy_process.ts";
import { Layout } from "../../src/base/layout.ts";
import { createLogger } from "../../src/base/log.ts";
import { type ProcessRef, processRef } from "../../src/os/processes/identity.ts";
import { signalProcess } from "../../src/os/processes/signals.ts";
import { Registry } from "../../src/registry/registry.ts";
import type { RunRow } from "../../src/registry/row_types.ts";
import type { IngestBatch } from "../../src/records/ingest_batch.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { batch } from "../telemetry/harness.ts";
import { until } from "./wait.ts";

/** A process in place of a proxy: it lives, and sends nothing by itself. */
class StandIns implements ProxyLauncher {
  readonly started: { proxy: ProxyArguments; process: ProcessRef }[] = [];
  readonly #children: Deno.ChildProcess[] = [];

  start(proxy: ProxyArguments) {
    const child = new Deno.Command("sleep", {
      args: ["600"],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    this.#children.push(child);
    const process = processRef(child.pid)!;
    this.started.push({ proxy, process });
    return { process, exited: child.status };
  }

  async end(): Promise<void> {
    for (const { process } of this.started) signalProcess(process, "SIGKILL");
    for (const child of this.#children) await child.status;
  }
}

/** The test's end of a proxy's connection. */
export class PlayedProxy implements ProxyLink {
  readonly desired: DesiredControl[] = [];
  readonly stops: number[] = [];
  checkpointsAsked = 0;
  session!: ProxySession;
  position = 0;

  accompanied(): void {}
  control(control: DesiredControl): void {
    this.desired.push(control);
  }
  saveCheckpoint(): void {
    this.checkpointsAsked++;
  }
  stop(graceSeconds: number): void {
    this.stops.push(graceSeconds);
  }
  close(): void {
    this.session.closed();
  }

  async batch(fields: Partial<IngestBatch>): Promise<void> {
    const from = this.position;
    this.position += 100;
    await this.session.batch(batch(from, this.position, fields), this.position, {
      malformed: [],
      violations: [],
    });
  }
  steps(count: number): Promise<void> {
    return this.batch({ steps: { n: count, step: Array.from({ length: count }, (_, i) => i) } });
  }
  event(kind: string, data: Record<string, unknown>): Promise<void> {
    return this.batch({ events: [{ kind, dataJson: JSON.stringify(data), tsNs: "" }] });
  }
  exit(report: Partial<ExitReport> = {}): void {
    this.session.exit({
      code: 0,
      signal: "",
      lost: false,
      finalPosition: this.position,
      stderrTail: [],
      spawnError: "",
      ...report,
    });
  }
}

export class EngineFixture implements AsyncDisposable {
  readonly layout: Layout;
  readonly registry: Registry;
  readonly telemetry: TelemetryStore;
  readonly proxies: StandIns;
  readonly engine: Engine;
  readonly #before: EngineFixture | undefined;

  private constructor(options: Partial<EngineOptions>, gpus: number, before?: EngineFixture) {
    this.#before = before;
    this.layout = before?.layout ?? new Layout(Deno.makeTempDirSync({ prefix: "mosaic-engine-" }));
    for (const directory of this.layout.directories()) {
      Deno.mkdirSync(directory, { recursive: true });
    }
    this.registry = before?.registry ?? Registry.open(this.layout.registryDb);
    this.telemetry = before?.telemetry ?? TelemetryStore.open(this.layout.telemetryDb);
    this.proxies = before?.proxies ?? new StandIns();
    this.engine = new Engine({
      registry: this.registry,
      telemetry: this.telemetry,
      log: createLogger({ sinks: [] }),
      layout: this.layout,
      version: "test",
      gpus: gpuPool(gpus),
      maxRuns: 100,
      maxStarting: 100,
      graceSeconds: 5,
      handshakeTimeoutSeconds: 600,
      heartbeatTimeoutSeconds: 600,
      maxBacklogBytes: 0,
      launcher: this.proxies,
      onShutdown: () => {},
      ...options,
    });
    this.engine.recover();
    this.engine.begin({ listen: "127.0.0.1:1", http: "", socket: "/nowhere.sock" });
  }

  static start(options: Partial<EngineOptions> & { gpuCount?: number } = {}): EngineFixture {
    const { gpuCount = 0, ...rest } = options;
    return new EngineFixture(rest, gpuCount);
  }

  /** The engine of the next daemon, on the same databases; this one must be closed. */
  successor(gpus = 0, options: Partial<EngineOptions> = {}): EngineFixture {
    return new EngineFixture(options, gpus, this);
  }

  row(runId: string): RunRow {
    return this.registry.require(runId);
  }
  async state(runId: string, state: RunRow["state"], attempt = 1): Promise<RunRow> {
    await until(() => this.row(runId).state === state && this.row(runId).attempt === attempt, {
      what: `${runId} to be ${state} in attempt ${attempt}`,
      state: () => this.row(runId),
    });
    return this.row(runId);
  }
  eventKinds(runId: string): string[] {
    return this.registry.eventsSince(0, { runId, limit: 1000 }).map((event) => event.kind).filter((
      k,
    ) => k !== "state");
  }

  /** Waits for the attempt's proxy to be started and connects as it. */
  async connect(runId: string, attempt = 1): Promise<PlayedProxy> {
    const { process } = await until(
      () =>
        this.proxies.started.findLast((s) =>
          s.proxy.runId === runId && s.proxy.attempt === attempt
        ),
      { what: `the proxy of ${runId}, attempt ${attempt}` },
    );
    const played = new PlayedProxy();
    played.session = this.engine.openProxy({
      runId,
      attempt,
      proxy: process,
      worker: null,
    }, played);
    played.position = played.session.journalPosition;
    return played;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine.close();
    if (this.#before !== undefined) return;
    await this.proxies.end();
    this.telemetry.close();
    this.registry.close();
    await Deno.remove(this.layout.stateDir, { recursive: true });
  }
}
