/** A gRPC server and a client of it, on a real engine that writes down what it is asked for. */
import type { ProxyHello, ProxyLink, ProxySession, RunDetail } from "../../src/dispatch/core/core.ts";
import { MosaicError } from "../../src/base/errors.ts";
import type { ExitReport } from "../../src/registry/failure/explain.ts";
import type { RunRow } from "../../src/registry/types.ts";
import type { IngestBatch } from "../../src/telemetry/batch.ts";
import type { IngestResult, TelemetryKind } from "../../src/telemetry/types.ts";
import { PlayedProxy } from "../harness/engine.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { PlayedEngine } from "../harness/played_engine.ts";
import { readTls, type TlsFiles } from "../../src/wire/tls.ts";
import { type GrpcListener, type GrpcOptions, listenGrpc } from "../../src/rpc/grpc/listener.ts";
import { servicesOf, type ServicesOptions } from "../../src/rpc/services.ts";
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
      if (this.full) throw new MosaicError("unavailable", "cannot write telemetry.sqlite: the disk is full");
    };
    telemetry.read = <K extends TelemetryKind>(runId: string, kind: K, since: number, limit: number) => {
      const rows = read.call(telemetry, runId, kind, since, limit) as ReturnType<typeof telemetry.read<K>>;
      this.rowsRead += rows.length;
      const { observationJson } = this;
      return observationJson === undefined ? rows : rows.map((row) => ({ ...row, observationJson }));
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
    const failure = this.failure;
    this.failure = undefined;
    if (failure !== undefined) throw failure;
    return super.detail(row);
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

  async batch(...[batch, journalSize, samples]: Parameters<ProxySession["batch"]>): Promise<number> {
    const position = await this.#session.batch(batch, journalSize, samples);
    this.batches.push({ batch, journalSize, malformed: samples.malformed });
    return position;
  }
  heartbeat(journalSize: number): void {
    this.#session.heartbeat(journalSize);
    this.heartbeats++;
  }
  controlApplied(state: { paused: boolean; maxRateHz: number; selfPaused: string }): void {
    this.#session.controlApplied(state);
    this.applied = { paused: state.paused, maxRateHz: state.maxRateHz, selfPaused: state.selfPaused };
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
  return listenGrpc(servicesOf(core, options), { ...options, tls: options.tls && readTls(options.tls) });
}

/** Runs `work` against a fresh server, and takes everything down afterwards. */
export async function withServer(
  work: (fixture: Fixture) => Promise<void>,
  options: Partial<ServerOptions> = {},
): Promise<void> {
  await using core = new RecordedEngine();
  const server = await startRpc(core, { listen: "127.0.0.1:0", log: core.log, ...options });
  const client = new GrpcClient(server.address, { deadlineMs: 30_000 });
  try {
    await work({ core, server, client, directory: core.directory });
  } finally {
    client.close();
    await server.stop(1000);
  }
}

/** A run that waits. */
export function waiting(core: PlayedEngine, n = 1): string {
  return core.add(`run-${n}`, { runId: idOf(n) }).runId;
}

/** A run that executes. */
export function executing(core: PlayedEngine, n = 1): string {
  return core.begun(waiting(core, n)).runId;
}
