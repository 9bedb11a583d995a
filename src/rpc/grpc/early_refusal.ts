/** Refuses unauthorized calls by their headers, before a message is read, which may have 64 MiB. */
import { Metadata, ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";
import { principalOf } from "../call/calls.ts";
import { statusOf } from "../../wire/grpc_status.ts";
import { headerOf, type ServeContext } from "./serve.ts";

export function refuseEarly(context: ServeContext): ServerInterceptor {
  return (method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, proceed) {
            try {
              principalOf(context, {
                path: method.path,
                peer: context.connections.peerOf(call.getPeer()),
                header: headerOf(metadata),
              });
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
