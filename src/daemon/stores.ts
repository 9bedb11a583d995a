/** Opens the daemon's two databases; explains why one cannot be used. */
import { DatabaseSync } from "node:sqlite";
import type { Bounds } from "../base/load_limits.ts";
import { messageOf, MosaicError } from "../base/errors.ts";
import type { Layout } from "../base/layout.ts";
import type { Logger } from "../base/log.ts";
import { reserveAt } from "../os/files/reserve.ts";
import { Registry } from "../registry/registry.ts";
import { TelemetryStore } from "../telemetry/store.ts";
import { WAL_LIMIT_BYTES } from "../telemetry/commit/checkpoints.ts";
import { DAEMON_EXIT, StartFailure, startFailureOf } from "./start/exit_codes.ts";

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
  const registry = opened(() =>
    Registry.open(layout.registryDb, { durability, reserve: registryReserve })
  );
  try {
    const { ringSteps: ringSize, ringBytes } = bounds;
    const checkpoints = { warn: (message: string) => log.warn(message) };
    leaveOlderName(layout, log);
    const reserve = reserveAt(layout.telemetryReserve, WAL_LIMIT_BYTES);
    const options = { durability, checkpoints, ringSize, ringBytes, reserve };
    return { registry, telemetry: opened(() => TelemetryStore.open(layout.telemetryDb, options)) };
  } catch (error) {
    registry.close();
    throw error;
  }
}

/**
 * Leaves the name `telemetry.sqlite` to the original's GUI, which expects its own tables there:
 * renames mosaic's file of before. Its write-ahead log is moved into it first, so that nothing is
 * lost wherever this ends; if that is impossible (a full disk, a reader that is at work, damage),
 * the file keeps its name until a later start.
 */
function leaveOlderName(
  { telemetryDb, olderTelemetryDb, newerTelemetryDb }: Layout,
  log: Logger,
): void {
  if (telemetryDb !== olderTelemetryDb) return;
  const tables = tablesOf(olderTelemetryDb);
  if (!tables.includes("telemetry_runs")) {
    // Somebody else's, or empty. A file that cannot be read may be mosaic's: opening it reports
    // why.
    const isOthers = tables.length > 0 || Deno.statSync(olderTelemetryDb).size === 0;
    if (isOthers) {
      opened(() =>
        Deno.openSync(newerTelemetryDb, { write: true, createNew: true, mode: 0o600 }).close()
      );
    }
    return;
  }
  try {
    const db = new DatabaseSync(olderTelemetryDb);
    try {
      db.exec("PRAGMA journal_mode = DELETE");
    } finally {
      db.close();
    }
    Deno.renameSync(olderTelemetryDb, newerTelemetryDb);
    log.info(
      { from: olderTelemetryDb, to: newerTelemetryDb },
      "the telemetry database has a new name",
    );
  } catch (error) {
    log.warn(
      { file: olderTelemetryDb, error: messageOf(error) },
      "the telemetry database keeps its old name for now",
    );
  }
}

/** None if the file is missing or unreadable: opening it reports why. */
function tablesOf(path: string): string[] {
  try {
    const db = new DatabaseSync(path, { readOnly: true });
    try {
      return db.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all().map((
        { name },
      ) => String(name));
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
