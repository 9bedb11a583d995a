/**
 * Parameters that a run's program reports while it runs: written in the transaction that stores the
 * event.
 */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { parsedObject } from "../../base/text/json_text.ts";
import { checkedRow } from "../tables/row_checksums.ts";
import { MAX_PARAMETERS, parametersOfEvent, sourceOfAttempt } from "../../records/parameters.ts";
import type { ReportedParameter } from "../../records/stored.ts";

/**
 * Kind of the event with parameters: `{"source": "init", "values": {…}, "removed"?: ["name", …]}`.
 */
export const PARAMETERS_EVENT = "parameters";

export class ParameterRows {
  readonly #earlier: StatementSync;
  readonly #forget: StatementSync;
  readonly #remove: StatementSync;
  readonly #count: StatementSync;
  readonly #known: StatementSync;
  readonly #put: StatementSync;
  readonly #row: ReturnType<typeof checkedRow>;
  readonly #ofRun: StatementSync;
  readonly #named: StatementSync;
  readonly #names: StatementSync;

  constructor(db: DatabaseSync) {
    this.#earlier = db.prepare(
      "SELECT name, value, attempt, seq FROM parameters WHERE run_key = ? AND source = ? AND attempt < ?",
    );
    this.#forget = db.prepare(
      "DELETE FROM parameters WHERE run_key = ? AND source = ? AND attempt < ?",
    );
    this.#remove = db.prepare(
      "DELETE FROM parameters WHERE run_key = ? AND source = ? AND (name = ? OR substr(name, 1, length(?)) = ?)",
    );
    this.#count = db.prepare(
      "SELECT count(*) AS n FROM parameters WHERE run_key = ? AND source = ?",
    );
    this.#known = db.prepare(
      "SELECT 1 FROM parameters WHERE run_key = ? AND source = ? AND name = ?",
    );
    this.#row = checkedRow(db, "parameters", [
      "run_key",
      "source",
      "name",
      "value",
      "attempt",
      "seq",
    ]);
    this.#put = db.prepare(`INSERT OR REPLACE ${this.#row.insert}`);
    const columns = "p.source, p.name, p.value, p.seq";
    this.#ofRun = db.prepare(`SELECT ${columns} FROM parameters p WHERE run_key = ?`);
    this.#named = db.prepare(
      `SELECT r.run_id AS runId, ${columns} FROM parameters p JOIN telemetry_runs r USING (run_key) WHERE p.name = ?`,
    );
    // One index lookup per name, however many runs have it.
    this.#names = db.prepare(
      `WITH RECURSIVE names (name) AS (SELECT min(name) FROM parameters
        UNION ALL SELECT (SELECT min(name) FROM parameters WHERE name > names.name) FROM names WHERE name IS NOT NULL)
      SELECT name FROM names WHERE name IS NOT NULL LIMIT 10000`,
    );
  }

  /**
   * Stores an event's parameters. The first event of a source in a newer attempt replaces all
   * parameters that the source reported in earlier ones; values that it changes stay, with the
   * attempt in their source. @returns names beyond the bound, which are not stored
   */
  store(runKey: number, attempt: number, seq: number, dataJson: string): number {
    const reported = parametersOfEvent(parsedObject(dataJson));
    if (reported === undefined) return 0;
    const { source, values, removed } = reported;
    for (const row of this.#earlier.all(runKey, source, attempt)) {
      const { name, value, attempt: its, seq: at } = row as {
        name: string;
        value: string;
        attempt: number;
        seq: number;
      };
      const now = values.get(name);
      if (now === undefined || now === value) continue;
      this.#put.run(
        ...this.#row.values(runKey, sourceOfAttempt(source, its), name, value, its, at),
      );
    }
    this.#forget.run(runKey, source, attempt);
    for (const name of removed) this.#remove.run(runKey, source, name, `${name}.`, `${name}.`);
    let free = MAX_PARAMETERS - (this.#count.get(runKey, source) as { n: number }).n;
    let leftOut = 0;
    for (const [name, value] of values) {
      if (this.#known.get(runKey, source, name) === undefined && --free < 0) leftOut++;
      else this.#put.run(...this.#row.values(runKey, source, name, value, attempt, seq));
    }
    return leftOut;
  }

  ofRun(runKey: number): ReportedParameter[] {
    return this.#ofRun.all(runKey) as unknown as ReportedParameter[];
  }

  named(name: string): (ReportedParameter & { runId: string })[] {
    return this.#named.all(name) as unknown as (ReportedParameter & { runId: string })[];
  }

  names(): string[] {
    return this.#names.all().map((row) => row.name as string);
  }
}
