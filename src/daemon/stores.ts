/** Opens the daemon's two databases, and says in words why one cannot be used. */
import type { Bounds } from "../base/load_limits.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import type { Logger } from "../base/log.ts";
import { Registry } from "../registry/registry.ts";
import { TelemetryStore } from "../telemetry/store.ts";
import { DAEMON_EXIT, StartFailure, startFailureOf } from "./exit_codes.ts";

/** @throws StartFailure (stateUnusable, newerDatabase, damagedDatabase) */
export function openStores(
  layout: Layout,
  durability: "normal" | "full",
  bounds: Pick<Bounds, "ringSteps" | "ringBytes">,
  log: Logger,
): { registry: Registry; telemetry: TelemetryStore } {
  const registry = opened(() => Registry.open(layout.registryDb, { durability }));
  try {
    const { ringSteps: ringSize, ringBytes } = bounds;
    const checkpoints = { warn: (message: string) => log.warn(message) };
    const options = { durability, checkpoints, ringSize, ringBytes };
    return { registry, telemetry: opened(() => TelemetryStore.open(layout.telemetryDb, options)) };
  } catch (error) {
    registry.close();
    throw error;
  }
}

function opened<T>(open: () => T): T {
  try {
    return open();
  } catch (error) {
    if (error instanceof MosaicError && error.code === "failed_precondition") {
      throw new StartFailure(DAEMON_EXIT.newerDatabase, error.message, error.hint);
    }
    throw startFailureOf(error) ?? new StartFailure(DAEMON_EXIT.stateUnusable, messageOf(error));
  }
}
