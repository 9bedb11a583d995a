/**
 * Compares the registry with the host: GPU slots held by ended runs, processes that outlived their
 * run, damaged rows.
 */
import { DatabaseSync } from "node:sqlite";
import { isJson } from "../../base/text/json_text.ts";
import { isEnded, outcomeOf } from "../../registry/lifecycle/lifecycle.ts";
import type { Layout } from "../../base/layout.ts";
import { claims } from "../../os/files/claims.ts";
import { readDatabase } from "../../os/database/read_database.ts";
import { isAlive } from "../../os/processes/identity.ts";
import { MENDED, runFrom, SELECT_RUN } from "../../registry/rows.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { Repairable } from "./finding.ts";

export type KnownRun = Pick<
  RunRow,
  | (
    | "runId"
    | "name"
    | "state"
    | "attempt"
    | "baseDir"
    | "startedAt"
    | "proxy"
    | "worker"
    | "workerId"
    | "agentId"
  )
  | ("configJson" | "damaged")
>;

/**
 * All runs in the registry. @throws when the database cannot be read: then orphans cannot be
 * recognized
 */
export function knownRuns(registryDb: string): KnownRun[] {
  const db = readDatabase(registryDb);
  try {
    return db.prepare(SELECT_RUN).all().map(runFrom);
  } finally {
    db.close();
  }
}

/**
 * Processes that a worker has moved to sessions of their own (daemons) outlive its run if it has no
 * cgroup.
 */
function examineLeftProcesses(layout: Layout, runs: readonly KnownRun[]): Repairable[] {
  const byId = new Map(runs.map((run) => [run.runId, run]));
  return claims(layout.trainer).flatMap(({ pid, runDir, attempt }) => {
    const run = byId.get(runDir.slice(runDir.lastIndexOf("/") + 1));
    // Files of unknown runs are reported elsewhere; the processes of a live attempt are normal.
    if (run === undefined || pid === run.worker?.pid || pid === run.proxy?.pid) return [];
    if (!isEnded(run.state) && attempt === run.attempt) return [];
    const message =
      `process ${pid}, which attempt ${attempt} of run ${run.runId} (${run.name}) has started, is alive, ` +
      `but the attempt has ended: end it by hand (kill ${pid}) if nobody needs it`;
    return [{
      check: "processes" as const,
      severity: "warning" as const,
      path: runDir,
      message,
      remedy: "",
    }];
  });
}

export function examineRegistryState(layout: Layout, runs: readonly KnownRun[]): Repairable[] {
  const { registryDb } = layout;
  const findings: Repairable[] = [];
  const ended = new Set(runs.filter((run) => isEnded(run.state)).map((run) => run.runId));
  const known = new Set(runs.map((run) => run.runId));

  const db = readDatabase(registryDb);
  try {
    for (
      const { slot, run_id } of db.prepare(
        "SELECT slot, run_id FROM gpu_slots WHERE run_id IS NOT NULL UNION ALL SELECT slot, run_id FROM gpu_shares",
      ).all()
    ) {
      const holder = String(run_id);
      if (known.has(holder) && !ended.has(holder)) continue;
      findings.push({
        check: "gpu_slots",
        severity: "error",
        path: registryDb,
        message:
          `GPU slot ${slot} is held by run ${holder}, which has ended: no other run can get it`,
        remedy: "free the slot",
        repair: () => freeSlot(registryDb, Number(slot), holder),
      });
    }
    const { n } = db.prepare("SELECT count(*) AS n FROM events WHERE NOT json_valid(data_json)")
      .get() as { n: number };
    if (n > 0) {
      findings.push({
        ...{ check: "run_rows", severity: "warning", path: registryDb },
        message: `the data of ${n} event(s) cannot be read`,
        remedy: "store it as a text",
        repair: () => repairEvents(registryDb),
      });
    }
  } finally {
    db.close();
  }

  for (const run of runs) {
    findings.push(...examineRow(registryDb, run));
    if (!ended.has(run.runId)) continue;
    for (const [what, process] of [["worker", run.worker], ["proxy", run.proxy]] as const) {
      if (process === null || !isAlive(process)) continue;
      const message =
        `the ${what} of run ${run.runId} is alive (pid ${process.pid}), but the run is ${run.state}`;
      findings.push({
        check: "processes",
        severity: "warning",
        path: registryDb,
        message,
        remedy: "",
      });
    }
  }
  findings.push(...examineLeftProcesses(layout, runs));
  return findings;
}

/** Checks a row's JSON columns: a run with a damaged row is neither recovered nor retried. */
function examineRow(registryDb: string, run: KnownRun): Repairable[] {
  const damaged = (message: string) => ({
    ...{ check: "run_rows", severity: "error", path: registryDb } as const,
    message: `the row of run ${run.runId} (${run.name}) is damaged: ${message}`,
  });
  const findings: Repairable[] = run.damaged.map((column) => ({
    ...damaged(`${column} cannot be read`),
    remedy: `make it ${MENDED.get(column) ?? "empty"}, and report its old value`,
    repair: () => repairColumn(registryDb, run.runId, column),
  }));
  if (!isJson(run.configJson)) findings.push({ ...damaged("its config is not JSON"), remedy: "" });
  return findings;
}

function repairColumn(registryDb: string, runId: string, column: string): string {
  return changed(registryDb, (db) => {
    const { text } = db.prepare(`SELECT ${column} AS text FROM runs WHERE run_id = ?`).get(
      runId,
    ) as { text: string };
    const value = MENDED.get(column)!;
    db.prepare(`UPDATE runs SET ${column} = ? WHERE run_id = ?`).run(value, runId);
    if (column === "state") {
      // An ended run has an end time; keep an existing one.
      db.prepare(
        "UPDATE runs SET outcome = ?, finished_at = coalesce(finished_at, ?) WHERE run_id = ?",
      )
        .run(outcomeOf("FAULTED")!, Date.now(), runId);
    }
    return `${column} is ${value ?? "empty"} now; it was ${JSON.stringify(text)}`;
  });
}

function repairEvents(registryDb: string): string {
  return changed(registryDb, (db) => {
    const { changes } = db.prepare(
      "UPDATE events SET data_json = json_object('damaged', data_json) WHERE NOT json_valid(data_json)",
    ).run();
    return `stored the data of ${changes} event(s) as a text`;
  });
}

/** Opens the database for a repair. The caller holds the daemon's lock. */
function changed(registryDb: string, change: (db: DatabaseSync) => string): string {
  const db = new DatabaseSync(registryDb);
  try {
    db.exec("PRAGMA busy_timeout = 2000");
    return change(db);
  } finally {
    db.close();
  }
}

function freeSlot(registryDb: string, slot: number, holder: string): string {
  return changed(registryDb, (db) => {
    db.prepare("UPDATE gpu_slots SET run_id = NULL WHERE slot = ? AND run_id = ?").run(
      slot,
      holder,
    );
    db.prepare("DELETE FROM gpu_shares WHERE slot = ? AND run_id = ?").run(slot, holder);
    return `slot ${slot} is free`;
  });
}
