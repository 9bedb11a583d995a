/** What the registry says, against the host it speaks of: slots held by ended runs, processes that outlived their run. */
import { DatabaseSync } from "node:sqlite";
import { isEnded, RUN_STATES, type RunState } from "../lifecycle/lifecycle.ts";
import { isAlive } from "../process/identity.ts";
import type { BaseDir, ProcessRef } from "../registry/types.ts";
import type { Repairable } from "./finding.ts";

export interface KnownRun {
  runId: string;
  name: string;
  state: RunState;
  baseDir: BaseDir;
  proxy: ProcessRef | null;
  worker: ProcessRef | null;
}

/** Every run on record. @throws when the database cannot be read: then nothing may be called an orphan. */
export function knownRuns(registryDb: string): KnownRun[] {
  const db = new DatabaseSync(registryDb, { readOnly: true });
  try {
    return db.prepare("SELECT run_id, name, state, base_dir, proxy, worker FROM runs").all().map((row) => ({
      runId: row.run_id as string,
      name: row.name as string,
      state: row.state as RunState,
      baseDir: row.base_dir as BaseDir,
      proxy: refOf(row.proxy),
      worker: refOf(row.worker),
    }));
  } finally {
    db.close();
  }
}

function refOf(text: unknown): ProcessRef | null {
  try {
    return typeof text === "string" ? JSON.parse(text) as ProcessRef : null;
  } catch {
    return null;
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
      findings.push({ check: "database", severity: "error", path: registryDb, message, remedy: "" });
    }
    if (!ended.has(run.runId)) continue;
    for (const [what, process] of [["worker", run.worker], ["proxy", run.proxy]] as const) {
      if (process === null || !isAlive(process)) continue;
      const message = `the ${what} of run ${run.runId} lives (pid ${process.pid}), but the run is ${run.state}`;
      findings.push({ check: "processes", severity: "warning", path: registryDb, message, remedy: "" });
    }
  }
  return findings;
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
