/** Opens the daemon's two databases; explains why one cannot be used. */
import { DatabaseSync } from "node:sqlite";
import type { Bounds } from "../base/load_limits.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import type { Logger } from "../base/log.ts";
import { reserveAt } from "../os/reserve.ts";
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
  const registryReserve = reserveAt(layout.registryReserve, REGISTRY_RESERVE_BYTES);
  const registry = opened(() => Registry.open(layout.registryDb, { durability, reserve: registryReserve }));
  try {
    const { ringSteps: ringSize, ringBytes } = bounds;
    const checkpoints = { warn: (message: string) => log.warn(message) };
    avoidForeignTelemetry(layout, log);
    const reserve = reserveAt(layout.telemetryReserve, WAL_LIMIT_BYTES);
    const options = { durability, checkpoints, ringSize, ringBytes, reserve };
    return { registry, telemetry: opened(() => TelemetryStore.open(layout.telemetryDb, options)) };
  } catch (error) {
    registry.close();
    throw error;
  }
}

/** The original keeps a telemetry.sqlite with other tables in the same place: mosaic then uses a name of its own. */
function avoidForeignTelemetry(layout: Layout, log: Logger): void {
  const found = layout.telemetryDb;
  if (found === layout.besideOriginalsDb) return;
  const tables = tablesOf(found);
  if (tables.length === 0 || tables.includes("telemetry_runs")) return;
  opened(() => Deno.openSync(layout.besideOriginalsDb, { write: true, createNew: true, mode: 0o600 }).close());
  log.warn(
    { file: found, tables: tables.slice(0, 5).join(", "), telemetry: layout.besideOriginalsDb },
    "telemetry.sqlite belongs to another program (the original's GUI?) and is left alone; " +
      "telemetry is stored in mosaic.sqlite beside it from now on",
  );
}

/** None if the file is missing or unreadable: opening it reports why. */
function tablesOf(path: string): string[] {
  try {
    const db = new DatabaseSync(path, { readOnly: true });
    try {
      return db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all().map(({ name }) => String(name));
    } finally {
      db.close();
    }
  } catch {
    return [];
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
