/** The daemon's gRPC server: the original's contract, mosaic's own, health and reflection, on one address. */
import type { DescService } from "@bufbuild/protobuf";
import { Server, type ServerCredentials } from "@grpc/grpc-js";
import type { Gatekeeper } from "./auth/gatekeeper.ts";
import { checkListener, serverCredentials, type TlsFiles } from "../wire/tls.ts";
import { type Bounds, STANDARD_BOUNDS } from "../base/load_limits.ts";
import type { Core } from "../dispatch/core/core.ts";
import { MosaicError } from "../base/errors.ts";
import { TrainerService } from "../gen/gymgui/trainer_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { Ingest, Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Logger } from "../base/log.ts";
import { Connections, FIRST_CALL_MS } from "./connections.ts";
import { rawService } from "../wire/definition.ts";
import { refuseEarly } from "./early_refusal.ts";
import { type GateLimits, SendGates } from "./gate.ts";
import { healthHandlers } from "./health_service.ts";
import { ingestHandlers } from "./ingest_service.ts";
import { watchListener } from "./listener_watch.ts";
import { type FileDescriptors, PLENTY } from "../os/descriptors.ts";
import { isLoopback, type ListenAddress, parseListen } from "../wire/address.ts";
import { bind } from "./listen.ts";
import { mosaicHandlers } from "./mosaic_service.ts";
import { Descriptors, reflectionHandlers } from "./reflection_service.ts";
import { serve, type ServeContext } from "./serve.ts";
import { StreamBounds } from "./stream_bounds.ts";
import { trainerHandlers } from "./trainer_service.ts";
import { pause } from "../wire/waiting.ts";

/** Of any message on the wire: a proxy's batch may have a single record of nearly so much. */
const MAX_MESSAGE_BYTES = 64 << 20;
const STOP_GRACE_MS = 5000;
const RELISTEN_GRACE_MS = 1000;

export interface RpcOptions {
  /** `HOST:PORT` (port 0 picks a free one) or `unix:PATH`. */
  listen: string;
  log: Logger;
  gate?: Partial<GateLimits>;
  bounds?: Partial<Bounds>;
  /** Milliseconds that a connection may stay without a call. */
  firstCallMs?: number;
  /** TLS for `listen`; without it connections are plain. */
  tls?: TlsFiles;
  /** Where mosaic's own proxies and the clients of this machine connect, beside a listener with TLS. */
  localListen?: string;
  /** Whether the daemon can do its work now, for the health service; whether telemetry can be written, by default. */
  ready?: () => boolean;
  /** New connections wait while there is a shortage of them. */
  descriptors?: FileDescriptors;
  /** Who may call what; without one, whoever can connect may do everything. */
  gatekeeper?: Gatekeeper;
}

export interface RpcServer {
  /** As clients dial it: `HOST:PORT` or `unix:PATH`. */
  address: string;
  /** The same without TLS, for this machine only; `address` where that has none. */
  localAddress: string;
  /** Ends streams (`unavailable`), lets calls under way finish for at most `graceMs`, then closes. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * @throws MosaicError `invalid_argument` for a listen address that is none, `unavailable` when it is taken,
 * `permission_denied` when the runtime refuses it, `failed_precondition` when it would be open to other machines.
 */
export async function startRpc(core: Core, options: RpcOptions): Promise<RpcServer> {
  const { listen: listenText, tls } = options;
  checkListener({ listen: listenText, tls, auth: options.gatekeeper === undefined ? "none" : "token" });
  const listen = parseListen(listenText);
  const credentials = serverCredentials(tls);
  const bounds = { ...STANDARD_BOUNDS, ...options.bounds };
  const connections = new Connections({
    connections: bounds.maxConnections,
    firstCallMs: options.firstCallMs ?? FIRST_CALL_MS,
  });
  const stopping = new AbortController();
  const context: ServeContext = {
    log: options.log,
    gates: new SendGates(options.gate),
    stopping: stopping.signal,
    connections,
    streams: new StreamBounds(bounds),
    maxMessageBytes: bounds.maxMessageBytes,
    gatekeeper: options.gatekeeper,
    calls: core.activity.rpcCalls,
  };
  const server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
    interceptors: options.gatekeeper === undefined ? [] : [refuseEarly(options.gatekeeper)],
  });

  let address = listenText;
  let localAddress: string;
  const own: readonly DescService[] = [TrainerService, Mosaic, Ingest];
  const ready = options.ready ?? (() => core.telemetry.writable());
  const healthy = () => !stopping.signal.aborted && ready();
  const descriptors = new Descriptors([...own, Health, ServerReflection]);
  server.addService(
    rawService(TrainerService),
    serve(TrainerService, trainerHandlers(core, { address: () => address, healthy }), context),
  );
  server.addService(rawService(Mosaic), serve(Mosaic, mosaicHandlers(core, bounds), context));
  server.addService(rawService(Ingest), serve(Ingest, ingestHandlers(core, bounds), context));
  server.addService(rawService(Health), serve(Health, healthHandlers(own.map((s) => s.typeName), healthy), context));
  const reflection = serve(ServerReflection, reflectionHandlers(descriptors), context);
  server.addService(rawService(ServerReflection), reflection);
  server.addService(asAlpha(rawService(ServerReflection)), reflection);

  const watches: (() => void)[] = [];
  const listenOn = async (at: ListenAddress, security: ServerCredentials): Promise<string> => {
    const bound = await bind(server, at, security);
    connections.watch(server);
    const actual = parseListen(bound);
    if (actual.type === "tcp") {
      const relisten = async () => {
        // A listener that is closed takes its connections along, without telling them: they are ended, and made anew.
        server.drain(bound, RELISTEN_GRACE_MS);
        server.unbind(bound);
        await bind(server, actual, security);
        connections.watch(server);
      };
      watches.push(watchListener(actual.port, relisten, options.log, options.descriptors ?? PLENTY));
    }
    return bound;
  };
  try {
    address = await listenOn(listen, credentials);
    localAddress = tls === undefined ? address : await listenOn(localListener(options), serverCredentials(undefined));
  } catch (error) {
    watches.forEach((end) => end());
    server.forceShutdown();
    throw error;
  }

  let stopped: Promise<void> | undefined;
  return {
    address,
    localAddress,
    stop(graceMs = STOP_GRACE_MS) {
      return stopped ??= (async () => {
        stopping.abort();
        watches.forEach((end) => end());
        const done = new AbortController();
        const orderly = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
        await Promise.race([orderly, pause(graceMs, done.signal)]);
        done.abort();
        server.forceShutdown();
      })();
    },
  };
}

/** @throws MosaicError `invalid_argument` when other machines could reach it. */
function localListener(options: RpcOptions): ListenAddress {
  const text = options.localListen ?? "127.0.0.1:0";
  const local = parseListen(text);
  if (isLoopback(local)) return local;
  throw new MosaicError("invalid_argument", `the local listener ${text} is not local: it has no TLS`);
}

/** Older tools ask for the same service under its former name. */
function asAlpha(definition: ReturnType<typeof rawService>): ReturnType<typeof rawService> {
  return Object.fromEntries(
    Object.entries(definition).map((
      [name, method],
    ) => [name, { ...method, path: method.path.replace("reflection.v1.", "reflection.v1alpha.") }]),
  );
}
