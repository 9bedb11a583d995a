/** grpc-js's server: the original's contract, health and reflection. */
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import type { Socket } from "node:net";
import { messageOf, MosaicError } from "../../base/errors.ts";
import { TrainerService } from "../../gen/gymgui/trainer_pb.ts";
import { Health } from "../../gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../gen/grpc/reflection/v1/reflection_pb.ts";
import { rawService } from "../../wire/definition.ts";
import { pause } from "../../wire/http/waiting.ts";
import type { TlsTexts } from "../../wire/address/tls.ts";
import { MAX_MESSAGE_BYTES } from "../../wire/http/connect.ts";
import type { Services } from "../services.ts";
import type { Connections } from "./connections.ts";
import { refuseEarly } from "./early_refusal.ts";
import { healthHandlers } from "./health_service.ts";
import { Descriptors, reflectionHandlers } from "./reflection_service.ts";
import { serve, type ServeContext } from "./serve.ts";

export interface GrpcServer {
  /**
   * Serves a connection that was accepted elsewhere; with TLS if the server has a certificate and
   * `plain` is not set.
   */
  take(socket: Socket, plain: boolean): void;
  /**
   * New connections get this certificate. @throws MosaicError `failed_precondition` if it cannot be
   * used
   */
  renew(tls: TlsTexts): void;
  /** Lets current calls finish for at most `graceMs`, then ends all. */
  stop(graceMs: number): Promise<void>;
}

/** @throws MosaicError `failed_precondition` for an unusable certificate */
export function createGrpcServer(
  services: Services,
  connections: Connections,
  tls: TlsTexts | undefined,
): GrpcServer {
  const { gatekeeper } = services.context;
  const context: ServeContext = { ...services.context, connections };
  const server = new Server({
    "grpc.max_receive_message_length": MAX_MESSAGE_BYTES,
    "grpc.max_send_message_length": MAX_MESSAGE_BYTES,
    "grpc.enable_channelz": 0,
    interceptors: gatekeeper === undefined ? [] : [refuseEarly(context)],
  });
  const health = healthHandlers([TrainerService.typeName], services.healthy);
  const descriptors = new Descriptors([TrainerService, Health, ServerReflection]);
  server.addService(rawService(TrainerService), serve(TrainerService, services.trainer, context));
  server.addService(rawService(Health), serve(Health, health, context));
  const reflection = serve(ServerReflection, reflectionHandlers(descriptors), context);
  server.addService(rawService(ServerReflection), reflection);
  server.addService(withAlphaPaths(rawService(ServerReflection)), reflection);

  const open = server.createConnectionInjector(ServerCredentials.createInsecure());
  let secured = tls && server.createConnectionInjector(credentialsOf(tls));
  return {
    take(socket, plain) {
      (plain ? open : secured ?? open).injectConnection(socket);
    },
    renew(texts) {
      secured = server.createConnectionInjector(credentialsOf(texts));
    },
    async stop(graceMs) {
      const done = new AbortController();
      const orderly = new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
      await Promise.race([orderly, pause(graceMs, done.signal)]);
      done.abort();
      server.forceShutdown();
    },
  };
}

function credentialsOf({ cert, key, ca }: TlsTexts): ServerCredentials {
  const pair = { cert_chain: Buffer.from(cert), private_key: Buffer.from(key) };
  try {
    // The runtime does not accept null for "no authority".
    return ServerCredentials.createSsl(Buffer.from(ca ?? ""), [pair], ca !== undefined);
  } catch (error) {
    throw new MosaicError(
      "failed_precondition",
      `--tls-cert and --tls-key cannot be used: ${messageOf(error)}`,
    );
  }
}

/** Older tools call the same service by its former name. */
function withAlphaPaths(definition: ReturnType<typeof rawService>): ReturnType<typeof rawService> {
  return Object.fromEntries(
    Object.entries(definition).map((
      [name, method],
    ) => [name, { ...method, path: method.path.replace("reflection.v1.", "reflection.v1alpha.") }]),
  );
}
