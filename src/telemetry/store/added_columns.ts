/** Columns of record fields that are newer than their tables, for the migration that adds them. Pure. */
import { columnOf, type RecordField, RECORDS, TELEMETRY_KINDS, type TelemetryKind } from "../record_fields.ts";

type Tables = Record<TelemetryKind, { table: string; attempt: boolean; fields: readonly RecordField[] }>;

const VIEW: Record<TelemetryKind, string> = {
  steps: "run_steps",
  episodes: "run_episodes",
  events: "run_events",
  metrics: "run_metrics",
};

/** The newest schema version for which a field asks; 0 when all are as old as their tables. */
export function newestField(records: Tables = RECORDS): number {
  return Math.max(...TELEMETRY_KINDS.flatMap((kind) => records[kind].fields.map(({ since }) => since ?? 0)));
}

/** SQL that adds the fields of one schema version, and makes the views of their tables anew; "" when it has none. */
export function addedColumns(version: number, records: Tables = RECORDS): string {
  return TELEMETRY_KINDS.flatMap((kind) => {
    const { table, fields } = records[kind];
    const added = fields.filter(({ since }) => since === version);
    if (added.length === 0) return [];
    const known = { ...records[kind], fields: fields.filter(({ since }) => (since ?? 0) <= version) };
    return [
      ...added.map((field) => `ALTER TABLE ${table} ADD COLUMN ${columnOf(field)} ${columnType(field)};`),
      `DROP VIEW IF EXISTS ${VIEW[kind]};`,
      `CREATE VIEW ${VIEW[kind]} AS ${selectAll(known)};`,
    ];
  }).join("\n");
}

function columnType({ kind }: RecordField): string {
  if (kind === "real") return "REAL DEFAULT 0";
  return kind === "index" || kind === "flag" ? "INTEGER NOT NULL DEFAULT 0" : "TEXT";
}

/** For people: the view's columns, named as in public JSON. */
function selectAll({ table, attempt, fields }: Tables[TelemetryKind]): string {
  const labels = fields.some(({ kind }) => kind === "label");
  const series = fields.some(({ kind }) => kind === "series");
  const columns = fields.flatMap((field) => {
    const { kind, json } = field;
    const column = `t.${columnOf(field)}`;
    const time = (seconds: string) => `strftime('%Y-%m-%dT%H:%M:%fZ', ${column} / ${seconds}, 'unixepoch') AS ${json}`;
    switch (kind) {
      case "time":
        return [time("1e9"), `${column} AS ts_ns`];
      case "milliseconds":
        return [time("1e3")];
      case "label":
        return [`o.${columnOf(field)} AS ${json}`];
      case "series":
        return [`n.name AS ${json}`];
      default:
        // The view has had the column's own name for what public JSON calls "event".
        return [field.read === "name" ? column : `${column} AS ${json}`];
    }
  });
  return `SELECT r.run_id, t.seq, ${attempt ? "t.attempt, " : ""}${columns.join(", ")}
    FROM telemetry_runs r JOIN ${table} t USING (run_key)` +
    (labels ? " LEFT JOIN sources o USING (run_key, source)" : "") +
    (series ? " JOIN series n USING (run_key, series)" : "");
}
