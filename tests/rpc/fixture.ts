/** A gRPC server and a client of it, on a core whose registry is real and whose engine is a few lines. */
import type {
  Core,
  HostInfo,
  ProxyHello,
  ProxyLink,
  ProxySession,
  RegisterRequest,
  RunDetail,
} from "../../src/dispatch/core/core.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { isEnded } from "../../src/registry/lifecycle/lifecycle.ts";
import { createLogger } from "../../src/base/log.ts";
import { Activity } from "../../src/observability/activity.ts";
import type { ExitReport } from "../../src/registry/failure/explain.ts";
import { Registry } from "../../src/registry/registry.ts";
import type { RunFilter, RunRow } from "../../src/registry/types.ts";
import type { EpisodeRecord, IngestBatch, StepRecord } from "../../src/telemetry/batch.ts";
import { front } from "../../src/daemon/front.ts";
import { createApp } from "../../src/ui/app.ts";
import { listenHttp } from "../../src/wire/http_listener.ts";
import { ConnectClient } from "../harness/connect_client.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { certificates } from "./auth/certificates.ts";
import { readTls, type TlsFiles } from "../../src/wire/tls.ts";
import { type GrpcListener, type GrpcOptions, listenGrpc } from "../../src/rpc/grpc/listener.ts";
import { apiOf, servicesOf, type ServicesOptions } from "../../src/rpc/services.ts";
import type { TelemetryKind } from "../../src/telemetry/types.ts";
import { newRun } from "../registry/fixture.ts";
import { MemoryTelemetry } from "./memory_telemetry.ts";

/** Records what the adapters ask for; decides as little as the tests allow. */
export class FakeCore implements Core {
  readonly registry: Registry;
  readonly telemetry = new MemoryTelemetry();
  readonly logLines: string[] = [];
  readonly log = createLogger({ level: "debug", sinks: [(line) => void this.logLines.push(line)] });
  readonly activity = new Activity();
  readonly startedAt = 1_700_000_000_000;
  readonly version = "1.2.3-test";
  readonly directory: string;
  /** Each call of a verb, as "verb run …". */
  readonly calls: string[] = [];
  readonly sessions: FakeSession[] = [];
  /** Thrown by the next `detail`. */
  failure: Error | undefined;
  #submitted = 0;

  get runs(): Registry {
    return this.registry;
  }
  get records(): MemoryTelemetry {
    return this.telemetry;
  }

  constructor(directory: string) {
    this.directory = directory;
    this.registry = Registry.open(`${directory}/registry.db`);
  }

  submit(configJson: string, runId?: string): { runId: string; digest: string } {
    if (configJson === "{}") {
      throw new MosaicError("invalid_argument", "run_name: is missing; entry_point: is missing", {
        hint: "See the schema.",
      });
    }
    const fields = runId === undefined ? {} : { runId };
    const row = this.registry.insert(newRun(++this.#submitted, { ...fields, configJson }));
    return { runId: row.runId, digest: row.digest };
  }

  validate(configJson: string) {
    return { violations: [{ path: "run_name", message: "is missing" }], digest: "d", canonicalJson: configJson };
  }

  heldTo(): string[] {
    return ["memory_mb"];
  }

  detail(row: RunRow): RunDetail {
    const failure = this.failure;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
    return {
      row,
      queuePosition: 3,
      waitingFor: "2 GPUs",
      directory: `${this.directory}/${row.runId}`,
      maxSteps: 100,
      telemetry: { ...this.telemetry.summary(row.runId), journalSize: 10, stepsPerSecond: 2.5 },
    };
  }

  list(filter: RunFilter, page: { limit: number; token?: string }) {
    const { runs, nextToken } = this.registry.list(filter, page);
    return { runs: runs.map((row) => this.detail(row)), nextToken, total: this.registry.count(filter) };
  }

  transitions(runId: string) {
    return this.registry.transitions(runId);
  }

  artifacts(runId: string) {
    return this.registry.artifacts(runId);
  }

  cancel(runId: string, options: { graceSeconds?: number } = {}): RunRow {
    this.calls.push(`cancel ${runId} ${options.graceSeconds ?? "default"}`);
    const row = this.registry.require(runId);
    return isEnded(row.state) ? row : this.registry.apply(runId, { type: "cancelled", reason: "user_cancel" });
  }

  pause(runId: string): RunRow {
    this.calls.push(`pause ${runId}`);
    return this.registry.apply(runId, { type: "pause", reason: "user" }, { pauseRequested: true });
  }

  resume(runId: string): RunRow {
    this.calls.push(`resume ${runId}`);
    return this.registry.apply(runId, { type: "resume" }, { pauseRequested: false });
  }

  throttle(runId: string, maxRateHz: number): RunRow {
    this.calls.push(`throttle ${runId} ${maxRateHz}`);
    const row = this.registry.update(runId, { maxRateHz });
    this.registry.appendEvent(runId, "control", { max_rate_hz: maxRateHz });
    return row;
  }

  retry(runId: string): RunRow {
    return this.registry.apply(runId, { type: "retry", reason: "by hand" });
  }

  reset(runId: string, fromCheckpoint: string): Promise<RunRow> {
    this.calls.push(`reset ${runId} ${fromCheckpoint}`);
    return Promise.resolve(this.registry.require(runId));
  }

  delete(runId: string): Promise<{ freedBytes: number }> {
    this.registry.delete(runId);
    return Promise.resolve({ freedBytes: 77 });
  }

  diskUsage() {
    const byRun = new Map(this.registry.list({}, { limit: 10 }).runs.map((row, i) => [row.runId, 100 + i]));
    return Promise.resolve({ byRun, byBase: { runs: 1, evals: 2, custom_scripts: 3 }, telemetryByRun: byRun });
  }

  registerWorker(request: RegisterRequest): { acceptedVersion: string; sessionToken: string } {
    const row = this.registry.require(request.runId);
    if (isEnded(row.state)) throw new MosaicError("failed_precondition", "run already terminated");
    this.registry.apply(request.runId, { type: "registered" });
    this.registry.update(request.runId, { sessionToken: "t", workerKind: request.workerKind });
    return { acceptedVersion: request.protoVersion || "MOSAIC/1.0", sessionToken: "a1b2" };
  }

  heartbeat(runId: string): void {
    this.calls.push(`heartbeat ${runId}`);
  }

  publish(runId: string, steps: StepRecord[], episodes: EpisodeRecord[]): void {
    if (this.registry.require(runId).sessionToken === null) {
      throw new MosaicError("failed_precondition", "the worker must RegisterWorker first");
    }
    this.telemetry.append(runId, 1, steps, episodes);
    this.registry.apply(runId, { type: "active" });
  }

  readerStarved(): void {}
  readerState(runId: string, kind: TelemetryKind, state: "STARVED" | "RESUMED"): void {
    if (this.registry.get(runId) !== undefined) this.registry.appendEvent(runId, "control", { state, kind });
  }
  openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    this.registry.require(hello.runId);
    for (const older of this.sessions) {
      if (older.hello.runId === hello.runId) older.link.close("a newer connection took its place");
    }
    const session = new FakeSession(this, hello, link);
    this.sessions.push(session);
    return session;
  }

  logFile(row: RunRow, stream: "stdout" | "stderr"): string {
    return `${this.directory}/${row.name}.${row.attempt}.${stream}.log`;
  }

  host(): HostInfo {
    return {
      version: this.version,
      pid: Deno.pid,
      startedAt: this.startedAt,
      stateDir: this.directory,
      listen: "127.0.0.1:1",
      http: "127.0.0.1:2",
      gpus: [{ slot: 0, runId: null, name: "H100" }],
      cpus: 2,
      loadAverage: [0.5, 0.25, 0.125],
      memoryBytes: 8,
      memoryAvailableBytes: 7,
      diskBytes: 6,
      diskAvailableBytes: 5,
      telemetryBytes: 4,
      rssBytes: 3,
      runsByState: this.registry.countByState(),
    };
  }

  requestShutdown(reason: string): void {
    this.calls.push(`shutdown ${reason}`);
  }
}

export class FakeSession implements ProxySession {
  readonly core: FakeCore;
  readonly hello: ProxyHello;
  readonly link: ProxyLink;
  readonly control = { paused: false, maxRateHz: 40 };
  readonly batches: { batch: IngestBatch; journalSize: number; malformed: string[] }[] = [];
  heartbeats = 0;
  applied: unknown;
  exited: ExitReport | undefined;
  isClosed = false;
  /** A batch is stored only when this lets it. */
  gate: () => void = () => {};

  constructor(core: FakeCore, hello: ProxyHello, link: ProxyLink) {
    this.core = core;
    this.hello = hello;
    this.link = link;
  }

  get journalPosition(): number {
    return this.core.telemetry.summary(this.hello.runId).journalPosition;
  }

  // deno-lint-ignore require-await
  async batch(batch: IngestBatch, journalSize: number, samples: { malformed: string[] }): Promise<number> {
    this.gate();
    const result = this.core.telemetry.ingest(this.hello.runId, this.hello.attempt, batch);
    this.batches.push({ batch, journalSize, malformed: samples.malformed });
    return result.position;
  }

  commit(): void {
    this.core.telemetry.commitWaiting();
  }
  heartbeat(): void {
    this.heartbeats++;
  }

  controlApplied(state: { paused: boolean; maxRateHz: number; selfPaused: string }): void {
    this.applied = { paused: state.paused, maxRateHz: state.maxRateHz, selfPaused: state.selfPaused };
  }

  exit(report: ExitReport): void {
    this.exited = report;
  }

  closed(): void {
    this.isClosed = true;
  }
}

export interface Fixture {
  core: FakeCore;
  server: GrpcListener;
  client: GrpcClient;
  directory: string;
}

export type ServerOptions = Omit<GrpcOptions, "tls"> & ServicesOptions & { tls?: TlsFiles };

export function startRpc(core: FakeCore, options: ServerOptions): Promise<GrpcListener> {
  return listenGrpc(servicesOf(core, options), { ...options, tls: options.tls && readTls(options.tls) });
}

/** What tests call the services with. */
export type AnyClient = Pick<GrpcClient, "unary" | "stream" | "duplex" | "upload" | "close">;

/** Runs `work` against a fresh gRPC server, and takes everything down afterwards. */
export async function withServer(
  work: (fixture: Fixture) => Promise<void>,
  options: Partial<ServerOptions> = {},
): Promise<void> {
  await withCore(async (core, directory) => {
    const server = await startRpc(core, { listen: "127.0.0.1:0", log: core.log, ...options });
    const client = new GrpcClient(server.address, { deadlineMs: 30_000 });
    try {
      await work({ core, server, client, directory });
    } finally {
      client.close();
      await server.stop(1000);
    }
  });
}

/** Ways to the same services. */
export const WAYS = ["gRPC", "Connect, Unix socket", "Connect, TCP", "Connect, TLS", "gRPC-Web, TCP"] as const;
export type Way = typeof WAYS[number];

export interface Scene {
  core: FakeCore;
  client: AnyClient;
  directory: string;
}

/** Makes a test of each way to the services. */
export function testEachWay(
  name: string,
  work: (scene: Scene) => Promise<void>,
  options: Partial<ServicesOptions & StreamLimits> = {},
): void {
  for (const way of WAYS) {
    Deno.test(
      `${name} (${way})`,
      () => way === "gRPC" ? withServer(work, options) : withApi(way, work, options),
    );
  }
}

/** The same by the API's own listener. */
export async function withApi(
  way: Exclude<Way, "gRPC">,
  work: (scene: Scene & { url: string; client: ConnectClient }) => Promise<void>,
  { stallMs, ...options }: Partial<ServicesOptions & StreamLimits> = {},
): Promise<void> {
  await withCore(async (core, directory) => {
    const services = servicesOf(core, { log: core.log, ...options });
    const files = way === "Connect, TLS" ? certificates(directory) : undefined;
    const handler = front({
      api: apiOf(services, stallMs === undefined ? {} : { stallMs }),
      page: createApp(core, { log: core.log, bound: "127.0.0.1" }),
      bound: "127.0.0.1",
      tokens: options.gatekeeper !== undefined,
    });
    const path = `${directory}/daemon.sock`;
    const listener = listenHttp({
      address: way === "Connect, Unix socket" ? { path } : { hostname: "127.0.0.1", port: 0 },
      handler,
      log: core.log,
      tls: files && readTls(files.server),
    });
    const port = listener.address.split(":")[1] ?? "80";
    const url = files === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`;
    const client = new ConnectClient(url, {
      ...(way === "Connect, Unix socket" ? { socket: path } : {}),
      ...(files === undefined ? {} : { ca: Deno.readTextFileSync(files.ca) }),
      protocol: way === "gRPC-Web, TCP" ? "grpc-web" : "connect",
    });
    try {
      await work({ core, client, directory, url });
    } finally {
      client.close();
      services.stop();
      await listener.stop();
    }
  });
}

interface StreamLimits {
  stallMs: number;
}

async function withCore(work: (core: FakeCore, directory: string) => Promise<void>): Promise<void> {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-rpc-" });
  const core = new FakeCore(directory);
  try {
    await work(core, directory);
  } finally {
    core.registry.close();
    Deno.removeSync(directory, { recursive: true });
  }
}

/** A run that executes. */
export function executing(core: FakeCore, n = 1): string {
  const { runId } = core.registry.insert(newRun(n));
  core.registry.apply(runId, { type: "spawned" });
  core.registry.apply(runId, { type: "registered" });
  core.registry.apply(runId, { type: "active" });
  core.registry.update(runId, { sessionToken: "t" });
  return runId;
}
