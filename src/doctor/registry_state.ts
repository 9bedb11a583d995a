/** What the registry says, against the host it speaks of: slots held by ended runs, processes that outlived their run. */
import { DatabaseSync } from "node:sqlite";
import { isJson } from "../telemetry/json.ts";
import { isEnded, RUN_STATES } from "../lifecycle/lifecycle.ts";
import { isAlive } from "../process/identity.ts";
import { MENDED, runFrom, SELECT_RUN } from "../registry/rows.ts";
import type { RunRow } from "../registry/types.ts";
import type { Repairable } from "./finding.ts";

export type KnownRun = Pick<
  RunRow,
  "runId" | "name" | "state" | "baseDir" | "startedAt" | "proxy" | "worker" | "configJson" | "damaged"
>;

/** Every run on record. @throws when the database cannot be read: then nothing may be called an orphan. */
export function knownRuns(registryDb: string): KnownRun[] {
  const db = new DatabaseSync(registryDb, { readOnly: true });
  try {
    return db.prepare(SELECT_RUN).all().map(runFrom);
  } finally {
    db.close();
  }
}

export function examineRegistryState(registryDb: string, runs: readonly KnownRun[]): Repairable[] {
  const findings: Repairable[] = [];
  const ended = new Set(runs.filter((run) => isEnded(run.state)).map((run) => run.runId));
  const known = new Set(runs.map((run) => run.runId));

  const db = new DatabaseSync(registryDb, { readOnly: true });
  try {
    for (const { slot, run_id } of db.prepare("SELECT slot, run_id FROM gpu_slots WHERE run_id IS NOT NULL").all()) {
      const holder = String(run_id);
      if (known.has(holder) && !ended.has(holder)) continue;
      findings.push({
        check: "gpu_slots",
        severity: "error",
        path: registryDb,
        message: `GPU slot ${slot} is held by run ${holder}, which has ended: no other run can get it`,
        remedy: "give the slot back",
        repair: () => giveBack(registryDb, Number(slot), holder),
      });
    }
  } finally {
    db.close();
  }

  for (const run of runs) {
    if (!RUN_STATES.includes(run.state)) {
      const message = `run ${run.runId} is in a state that does not exist: ${JSON.stringify(run.state)}`;
      findings.push({ check: "run_rows", severity: "error", path: registryDb, message, remedy: "" });
    }
    findings.push(...examineRow(registryDb, run));
    if (!ended.has(run.runId)) continue;
    for (const [what, process] of [["worker", run.worker], ["proxy", run.proxy]] as const) {
      if (process === null || !isAlive(process)) continue;
      const message = `the ${what} of run ${run.runId} lives (pid ${process.pid}), but the run is ${run.state}`;
      findings.push({ check: "processes", severity: "warning", path: registryDb, message, remedy: "" });
    }
  }
  return findings;
}

/** What a row says in JSON: a run in whose row it is damaged is neither taken up nor started again. */
function examineRow(registryDb: string, run: KnownRun): Repairable[] {
  const damaged = (message: string) => ({
    ...{ check: "run_rows", severity: "error", path: registryDb } as const,
    message: `the row of run ${run.runId} (${run.name}) is damaged: ${message}`,
  });
  const findings: Repairable[] = run.damaged.map((column) => ({
    ...damaged(`${column} cannot be read`),
    remedy: "empty it, and say what stood there",
    repair: () => mend(registryDb, run.runId, column),
  }));
  if (!isJson(run.configJson)) findings.push({ ...damaged("its config is no JSON"), remedy: "" });
  return findings;
}

function mend(registryDb: string, runId: string, column: string): string {
  const db = new DatabaseSync(registryDb);
  try {
    db.exec("PRAGMA busy_timeout = 2000");
    const { text } = db.prepare(`SELECT ${column} AS text FROM runs WHERE run_id = ?`).get(runId) as { text: string };
    db.prepare(`UPDATE runs SET ${column} = ? WHERE run_id = ?`).run(MENDED.get(column)!, runId);
    return `${column} is empty now; it was ${JSON.stringify(text)}`;
  } finally {
    db.close();
  }
}

function giveBack(registryDb: string, slot: number, holder: string): string {
  const db = new DatabaseSync(registryDb);
  try {
    db.exec("PRAGMA busy_timeout = 2000");
    db.prepare("UPDATE gpu_slots SET run_id = NULL WHERE slot = ? AND run_id = ?").run(slot, holder);
    return `slot ${slot} is free`;
  } finally {
    db.close();
  }
}
