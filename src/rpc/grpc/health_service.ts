/** grpc.health.v1: SERVING while the daemon can store records. */
import {
  type Health,
  HealthCheckResponse_ServingStatus as Serving,
  type HealthCheckResponseSchema,
} from "../../gen/grpc/health/v1/health_pb.ts";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { MosaicError } from "../../base/errors.ts";
import type { Handlers } from "../call/handlers.ts";
import { pause } from "../../wire/http/waiting.ts";

const WATCH_INTERVAL_MS = 1000;

type Answer = MessageInitShape<typeof HealthCheckResponseSchema>;

/**
 * @param services full names of the served services @param healthy whether the daemon can do its
 * work now
 */
export function healthHandlers(
  services: readonly string[],
  healthy: () => boolean,
): Handlers<typeof Health> {
  const known = new Set(["", ...services]);
  const answer = (): Answer => ({ status: healthy() ? Serving.SERVING : Serving.NOT_SERVING });
  return {
    check(request) {
      if (!known.has(request.service)) {
        throw new MosaicError("not_found", `there is no service "${request.service}" here`);
      }
      return answer();
    },
    list() {
      return { statuses: Object.fromEntries([...known].map((name) => [name, answer()])) };
    },
    async watch(request, out, caller) {
      let sent: Serving | undefined;
      while (!caller.signal.aborted) {
        const now: Answer = known.has(request.service)
          ? answer()
          : { status: Serving.SERVICE_UNKNOWN };
        if (now.status !== sent) {
          sent = now.status;
          await out.send(now);
        }
        await pause(WATCH_INTERVAL_MS, caller.signal);
      }
    },
  };
}
