/** The daemon's gRPC server: the original's contract, mosaic's own, health and reflection, on one address. */
import type { DescService } from "@bufbuild/protobuf";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { Core } from "../core/core.ts";
import { TrainerService } from "../gen/gymgui/trainer_pb.ts";
import { Health } from "../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../gen/grpc/reflection/v1/reflection_pb.ts";
import { Ingest, Mosaic } from "../gen/mosaic/v1/mosaic_pb.ts";
import type { Logger } from "../log.ts";
import { rawService } from "./definition.ts";
import { type GateLimits, SendGates } from "./gate.ts";
import { healthHandlers } from "./health_service.ts";
import { ingestHandlers } from "./ingest_service.ts";
import { bind, parseListen } from "./listen.ts";
import { mosaicHandlers } from "./mosaic_service.ts";
import { Descriptors, reflectionHandlers } from "./reflection_service.ts";
import { type Caller, serve, type ServeContext } from "./serve.ts";
import { trainerHandlers } from "./trainer_service.ts";
import { pause } from "./waiting.ts";

export const MAX_MESSAGE_BYTES = 64 << 20;
const MAX_STREAMS = 10_000;
const STOP_GRACE_MS = 5000;

export interface RpcOptions {
  /** `HOST:PORT` (port 0 picks a free one) or `unix:PATH`. */
  listen: string;
  log: Logger;
  gate?: Partial<GateLimits>;
  /** Most streams open at one time; more are refused with `resource_exhausted`. */
  maxStreams?: number;
  credentials?: ServerCredentials;
  /** Whether a call may go on. @throws MosaicError `unauthenticated`, `permission_denied`. */
  authorize?: (caller: Caller) => void;
}

export interface RpcServer {
  /** As clients dial it: `HOST:PORT` or `unix:PATH`. */
  address: string;
  /** Ends streams (`unavailable`), lets calls under way finish for at most `graceMs`, then closes. */
  stop(graceMs?: number): Promise<void>;
}

/**
 * @throws MosaicError `invalid_argument` for a listen address that is none, `unavailable` when it is taken,
 * `permission_denied` when the runtime refuses it.
 */
export async function startRpc(core: Core, options: RpcOptions): Promise<RpcServer> {
  const listen = parseListen(options.listen);
  const stopping = new AbortController();
  const context: ServeContext = {
    log: options.log,
    gates: new SendGates(options.gate),
    stopping: stopping.signal,
    maxStreams: options.maxStreams ?? MAX_STREAMS,
    authorize: options.authorize,
  };
  const server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
  });

  let address = options.listen;
  const own: readonly DescService[] = [TrainerService, Mosaic, Ingest];
  const healthy = () => !stopping.signal.aborted && core.telemetry.writable();
  const descriptors = new Descriptors([...own, Health, ServerReflection]);
  server.addService(rawService(TrainerService), serve(TrainerService, trainerHandlers(core, () => address), context));
  server.addService(rawService(Mosaic), serve(Mosaic, mosaicHandlers(core), context));
  server.addService(rawService(Ingest), serve(Ingest, ingestHandlers(core), context));
  server.addService(rawService(Health), serve(Health, healthHandlers(own.map((s) => s.typeName), healthy), context));
  const reflection = serve(ServerReflection, reflectionHandlers(descriptors), context);
  server.addService(rawService(ServerReflection), reflection);
  server.addService(asAlpha(rawService(ServerReflection)), reflection);

  try {
    address = await bind(server, listen, options.credentials ?? ServerCredentials.createInsecure());
  } catch (error) {
    server.forceShutdown();
    throw error;
  }

  let stopped: Promise<void> | undefined;
  return {
    address,
    stop(graceMs = STOP_GRACE_MS) {
      return stopped ??= (async () => {
        stopping.abort();
        const done = new AbortController();
        const orderly = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
        await Promise.race([orderly, pause(graceMs, done.signal)]);
        done.abort();
        server.forceShutdown();
      })();
    },
  };
}

/** Older tools ask for the same service under its former name. */
function asAlpha(definition: ReturnType<typeof rawService>): ReturnType<typeof rawService> {
  return Object.fromEntries(
    Object.entries(definition).map((
      [name, method],
    ) => [name, { ...method, path: method.path.replace("reflection.v1.", "reflection.v1alpha.") }]),
  );
}
