/** A gRPC server and a client of it, on a real engine that writes down what it is asked for. */
import type { RunDetail, WholeRun } from "../../src/dispatch/core/core.ts";
import type {
  ProxyHello,
  ProxyLink,
  ProxySession,
} from "../../src/dispatch/attempt/state/connected_proxy.ts";
import { MosaicError } from "../../src/base/errors.ts";
import type { ExitReport } from "../../src/registry/failure/explain.ts";
import type { RunRow } from "../../src/registry/row_types.ts";
import type { IngestBatch } from "../../src/records/ingest_batch.ts";
import type { TelemetryKind } from "../../src/records/record_fields.ts";
import type { IngestResult } from "../../src/records/stored.ts";
import { PlayedProxy } from "../harness/engine.ts";
import { ConnectClient } from "../harness/connect_client.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { certificates } from "./auth/certificates.ts";
import { front } from "../../src/daemon/front.ts";
import { createApp } from "../../src/ui/app.ts";
import { listenHttp, WAITING } from "../../src/wire/http/http_listener.ts";
import { TlsUpgrade } from "../../src/wire/http/tls_upgrade.ts";
import { PlayedEngine } from "../harness/played_engine.ts";
import { readTls, type TlsFiles } from "../../src/wire/address/tls.ts";
import { type GrpcListener, type GrpcOptions, listenGrpc } from "../../src/rpc/grpc/listener.ts";
import { MlflowApi } from "../../src/mlflow/tracking_api.ts";
import { apiOf, servicesOf, type ServicesOptions } from "../../src/rpc/services.ts";
import { runId as idOf } from "../registry/fixture.ts";

export class RecordedEngine extends PlayedEngine {
  /** Each call of a verb, as "verb run …". */
  readonly calls: string[] = [];
  /** Those that came by the wire. */
  readonly sessions: RecordedSession[] = [];
  /** Thrown by the next `detail`. */
  failure: Error | undefined;
  /** Set to make every write of telemetry fail as a full disk does. */
  full = false;
  /** How many waits for telemetry are open. */
  waiting = 0;
  rowsRead = 0;
  /** Steps are read with this observation: hundreds of megabytes need not be on a disk. */
  observationJson: string | undefined;
  /** Called with each batch before it is stored. */
  beforeStored: (batch: IngestBatch) => void = () => {};

  constructor() {
    super();
    const { telemetry } = this;
    const { read, waitBeyond, append, deliver, writable } = telemetry;
    const requireRoom = () => {
      if (this.full) {
        throw new MosaicError("unavailable", "cannot write telemetry.sqlite: the disk is full");
      }
    };
    telemetry.read = <K extends TelemetryKind>(
      runId: string,
      kind: K,
      since: number,
      limit: number,
    ) => {
      const rows = read.call(telemetry, runId, kind, since, limit) as ReturnType<
        typeof telemetry.read<K>
      >;
      this.rowsRead += rows.length;
      const { observationJson } = this;
      return observationJson === undefined
        ? rows
        : rows.map((row) => ({ ...row, observationJson }));
    };
    telemetry.waitBeyond = async (...args) => {
      this.waiting++;
      await waitBeyond.apply(telemetry, args).finally(() => this.waiting--);
    };
    telemetry.append = (...args) => {
      requireRoom();
      append.apply(telemetry, args);
    };
    telemetry.deliver = async (...args): Promise<IngestResult> => {
      requireRoom();
      this.beforeStored(args[2]);
      return await deliver.apply(telemetry, args);
    };
    telemetry.writable = () => !this.full && writable.call(telemetry);
  }

  override detail(row: RunRow): RunDetail {
    this.#fail();
    return super.detail(row);
  }
  override whole(row: RunRow): WholeRun {
    this.#fail();
    return super.whole(row);
  }
  #fail(): void {
    const failure = this.failure;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
  }

  override cancel(runId: string, options: { graceSeconds?: number; reason?: string } = {}): RunRow {
    this.calls.push(`cancel ${runId} ${options.graceSeconds ?? "default"}`);
    return super.cancel(runId, options);
  }
  override pause(runId: string): RunRow {
    this.calls.push(`pause ${runId}`);
    return super.pause(runId);
  }
  override resume(runId: string): RunRow {
    this.calls.push(`resume ${runId}`);
    return super.resume(runId);
  }
  override throttle(runId: string, maxRateHz: number): RunRow {
    this.calls.push(`throttle ${runId} ${maxRateHz}`);
    return super.throttle(runId, maxRateHz);
  }
  override reset(runId: string, fromCheckpoint: string): Promise<RunRow> {
    this.calls.push(`reset ${runId} ${fromCheckpoint}`);
    return super.reset(runId, fromCheckpoint);
  }
  override heartbeat(runId: string): void {
    this.calls.push(`heartbeat ${runId}`);
    super.heartbeat(runId);
  }
  override requestShutdown(reason: string): void {
    this.calls.push(`shutdown ${reason}`);
    super.requestShutdown(reason);
  }

  override openProxy(hello: ProxyHello, link: ProxyLink): ProxySession {
    const session = super.openProxy(hello, link);
    if (link instanceof PlayedProxy) return session;
    const recorded = new RecordedSession(session, hello, link);
    this.sessions.push(recorded);
    return recorded;
  }
}

export class RecordedSession implements ProxySession {
  readonly hello: ProxyHello;
  readonly link: ProxyLink;
  /** Those that were stored. */
  readonly sources: IngestBatch[] = [];
  readonly batches: { batch: IngestBatch; journalSize: number; malformed: string[] }[] = [];
  heartbeats = 0;
  applied: unknown;
  exited: ExitReport | undefined;
  isClosed = false;
  readonly #session: ProxySession;

  constructor(session: ProxySession, hello: ProxyHello, link: ProxyLink) {
    this.#session = session;
    this.hello = hello;
    this.link = link;
  }

  get journalPosition(): number {
    return this.#session.journalPosition;
  }
  get control() {
    return this.#session.control;
  }
  get observed() {
    return this.#session.observed;
  }
  get workerSettings() {
    return this.#session.workerSettings;
  }
  workerStarted(...[leader]: Parameters<ProxySession["workerStarted"]>): void {
    this.#session.workerStarted(leader);
  }
  get takesFiles() {
    return this.#session.takesFiles;
  }
  file(...[chunk]: Parameters<ProxySession["file"]>): ReturnType<ProxySession["file"]> {
    return this.#session.file(chunk);
  }
  source(batch: IngestBatch): Promise<void> {
    this.sources.push(batch);
    return this.#session.source(batch);
  }

  async batch(
    ...[batch, journalSize, samples]: Parameters<ProxySession["batch"]>
  ): Promise<number> {
    const position = await this.#session.batch(batch, journalSize, samples);
    this.batches.push({ batch, journalSize, malformed: samples.malformed });
    return position;
  }
  commit(): void {
    this.#session.commit();
  }
  heartbeat(journalSize: number): void {
    this.#session.heartbeat(journalSize);
    this.heartbeats++;
  }
  heldByStore(missing: Parameters<ProxySession["heldByStore"]>[0]): void {
    this.#session.heldByStore(missing);
  }
  controlApplied(state: { paused: boolean; maxRateHz: number; selfPaused: string }): void {
    this.#session.controlApplied(state);
    this.applied = {
      paused: state.paused,
      maxRateHz: state.maxRateHz,
      selfPaused: state.selfPaused,
    };
  }
  exit(report: ExitReport): void {
    this.#session.exit(report);
    this.exited = report;
  }
  closed(): void {
    this.#session.closed();
    this.isClosed = true;
  }
}

export interface Fixture {
  core: RecordedEngine;
  server: GrpcListener;
  client: GrpcClient;
  directory: string;
}

export type ServerOptions = Omit<GrpcOptions, "tls"> & ServicesOptions & { tls?: TlsFiles };

export function startRpc(core: RecordedEngine, options: ServerOptions): Promise<GrpcListener> {
  return listenGrpc(servicesOf(core, options), {
    ...options,
    tls: options.tls && readTls(options.tls),
  });
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
export const WAYS = [
  "gRPC",
  "Connect, Unix socket",
  "Connect, TCP",
  "Connect, TLS",
  "Connect in JSON, TCP",
  "gRPC-Web, TCP",
] as const;
export type Way = typeof WAYS[number];

export interface Scene {
  core: RecordedEngine;
  client: AnyClient;
  directory: string;
}

/** Makes a test of each way to mosaic's own services, which gRPC is not. */
export function testEachApiWay(...test: Parameters<typeof testEachWay>): void {
  const [name, work, options] = test;
  testEachWay(name, work, options, WAYS.filter((way) => way !== "gRPC"));
}

/** Makes a test of each way to the services. */
export function testEachWay(
  name: string,
  work: (scene: Scene) => Promise<void>,
  options: Partial<ServicesOptions & StreamLimits> = {},
  ways: readonly Way[] = WAYS,
): void {
  for (const way of ways) {
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
      mlflow: new MlflowApi(core, options.gatekeeper?.requireOwnRun),
      page: createApp(core, { log: core.log, bound: "127.0.0.1" }),
      bound: "127.0.0.1",
      tokens: options.gatekeeper !== undefined,
    });
    const path = `${directory}/daemon.sock`;
    const listener = listenHttp({
      address: way === "Connect, Unix socket" ? { path } : { hostname: "127.0.0.1", port: 0 },
      handler,
      log: core.log,
      tls: files &&
        new TlsUpgrade(readTls(files.server), `${directory}/tls.sock`, { ...WAITING, open: 100 }),
    });
    const port = listener.address.split(":")[1] ?? "80";
    const url = files === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`;
    const client = new ConnectClient(url, {
      ...(way === "Connect, Unix socket" ? { socket: path } : {}),
      ...(files === undefined ? {} : { ca: Deno.readTextFileSync(files.ca) }),
      protocol: way === "gRPC-Web, TCP" ? "grpc-web" : "connect",
      json: way === "Connect in JSON, TCP",
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

async function withCore(
  work: (core: RecordedEngine, directory: string) => Promise<void>,
): Promise<void> {
  await using core = new RecordedEngine();
  await work(core, core.directory);
}

/** A run that waits. */
export function waiting(core: PlayedEngine, n = 1): string {
  return core.add(`run-${n}`, { runId: idOf(n) }).runId;
}

/** A run that executes. */
export function executing(core: PlayedEngine, n = 1): string {
  return core.begun(waiting(core, n)).runId;
}
