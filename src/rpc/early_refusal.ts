/** Refuses a call by its headers, before any of its message is taken: strangers cannot make the daemon hold 64 MiB each. */
import { Metadata, ServerInterceptingCall, type ServerInterceptor } from "@grpc/grpc-js";
import type { Gatekeeper } from "./auth/gatekeeper.ts";
import { statusOf } from "../wire/status.ts";

/** The text after "Bearer "; "" without a credential. */
export function bearerOf(metadata: Metadata): string {
  const header = metadata.get("authorization")[0]?.toString() ?? "";
  return /^Bearer (\S+)$/i.exec(header)?.[1] ?? "";
}

export function refuseEarly(gatekeeper: Gatekeeper): ServerInterceptor {
  return (method, call) =>
    new ServerInterceptingCall(call, {
      start(next) {
        next({
          onReceiveMetadata(metadata, proceed) {
            try {
              gatekeeper.enter(method.path, bearerOf(metadata));
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
