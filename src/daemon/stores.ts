/** Opens the daemon's two databases; explains why one cannot be used. */
import type { Bounds } from "../base/load_limits.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import type { Logger } from "../base/log.ts";
import { Reserve, reserveBytes } from "../os/reserve.ts";
import { Registry } from "../registry/registry.ts";
import { TelemetryStore } from "../telemetry/store.ts";
import { WAL_LIMIT_BYTES } from "../telemetry/store/checkpoints.ts";
import { DAEMON_EXIT, StartFailure, startFailureOf } from "./exit_codes.ts";

/** Enough for cancelling, ending and deleting many runs on a full disk. */
const REGISTRY_RESERVE_BYTES = 4 << 20;

/** @throws StartFailure (stateUnusable, newerDatabase, damagedDatabase) */
export function openStores(
  layout: Layout,
  durability: "normal" | "full",
  bounds: Pick<Bounds, "ringSteps" | "ringBytes">,
  log: Logger,
): { registry: Registry; telemetry: TelemetryStore } {
  const registryReserve = new Reserve(
    layout.registryReserve,
    reserveBytes(layout.trainer, REGISTRY_RESERVE_BYTES),
  );
  const registry = opened(() => Registry.open(layout.registryDb, { durability, reserve: registryReserve }));
  try {
    const { ringSteps: ringSize, ringBytes } = bounds;
    const checkpoints = { warn: (message: string) => log.warn(message) };
    const directory = layout.telemetryDb.slice(0, layout.telemetryDb.lastIndexOf("/"));
    const reserve = new Reserve(layout.telemetryReserve, reserveBytes(directory, WAL_LIMIT_BYTES));
    const options = { durability, checkpoints, ringSize, ringBytes, reserve };
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
