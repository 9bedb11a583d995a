/** Refuses a call by its headers, before any of its message is taken: strangers cannot make the daemon hold 64 MiB each. */
import { Metadata, ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";
import type { Gatekeeper } from "../auth/gatekeeper.ts";
import { bearerOf } from "../calls.ts";
import type { Connections } from "./connections.ts";
import { statusOf } from "../../wire/status.ts";

export function refuseEarly(gatekeeper: Gatekeeper, connections: Connections): ServerInterceptor {
  return (method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, proceed) {
            try {
              if (!connections.isOwner(call.getPeer())) {
                gatekeeper.enter(method.path, bearerOf(metadata.get("authorization")[0]?.toString()));
              }
            } catch (error) {
              call.sendStatus({ metadata: new Metadata(), ...statusOf(error) });
              return;
            }
            proceed(metadata);
          },
        });
      },
    });
}
