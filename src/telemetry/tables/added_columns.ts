/**
 * Columns of record fields that are newer than their tables, for the migration that adds them.
 * Pure.
 */
import {
  columnOf,
  type RecordField,
  RECORDS,
  TELEMETRY_KINDS,
  type TelemetryKind,
} from "../../records/record_fields.ts";

type Tables = Record<
  TelemetryKind,
  { table: string; attempt: boolean; fields: readonly RecordField[] }
>;

/** The version that put steps into blocks. */
const BLOCKS_SINCE = 4;
/** The version whose blocks may have their rows in spans (step_block.ts). */
const SPANS_SINCE = 14;

export interface BlocksInSql {
  /** A text of a step; without it such texts are NULL. */
  text: (field: RecordField, seq: string) => string;
  /** Whether a block is intact; without it damaged blocks are not excluded. */
  isWhole: string;
}

const VIEW: Record<TelemetryKind, string> = {
  steps: "run_steps",
  episodes: "run_episodes",
  events: "run_events",
  metrics: "run_metrics",
};

/** The newest schema version that a field requires; 0 if all are as old as their tables. */
export function newestField(records: Tables = RECORDS): number {
  return Math.max(
    ...TELEMETRY_KINDS.flatMap((kind) => records[kind].fields.map(({ since }) => since ?? 0)),
  );
}

/**
 * SQL that adds the fields of one schema version, and creates the views of their tables again; ""
 * if it has none.
 */
export function addedColumns(version: number, records: Tables = RECORDS): string {
  return TELEMETRY_KINDS.flatMap((kind) => {
    const { table, fields } = records[kind];
    const added = fields.filter(({ since }) => since === version);
    if (added.length === 0) return [];
    const blocks = kind === "steps" && version > BLOCKS_SINCE ? added.filter(inBlocks) : [];
    return [
      ...added.map((field) =>
        `ALTER TABLE ${table} ADD COLUMN ${columnOf(field)} ${columnType(field)};`
      ),
      ...blocks.map((field) => `ALTER TABLE step_blocks ADD COLUMN ${columnOf(field)} DEFAULT 0;`),
      `DROP VIEW IF EXISTS ${VIEW[kind]};`,
      createView(kind, version, records),
    ];
  }).join("\n");
}

/**
 * The view for people, as of a version: columns named as in public JSON.
 * @param blocks SQL functions for what plain SQL cannot read of blocks; the view is then temporary
 */
export function createView(
  kind: TelemetryKind,
  version: number,
  records: Tables = RECORDS,
  blocks?: BlocksInSql,
): string {
  const known = {
    ...records[kind],
    fields: records[kind].fields.filter(({ since }) => (since ?? 0) <= version),
  };
  const inBlocks = kind === "steps" && version >= BLOCKS_SINCE
    ? `${selectBlocks(known, version >= SPANS_SINCE, blocks)} UNION ALL `
    : "";
  return `CREATE ${blocks === undefined ? "" : "TEMP "}VIEW ${VIEW[kind]} AS ${inBlocks}${
    selectAll(known)
  };`;
}

function columnType({ kind }: RecordField): string {
  if (kind === "real") return "REAL DEFAULT 0";
  return kind === "index" || kind === "flag" ? "INTEGER NOT NULL DEFAULT 0" : "TEXT";
}

type Table = Tables[TelemetryKind];

function selectAll({ table, attempt, fields }: Table): string {
  const first = [
    "t.seq",
    ...(attempt ? ["t.attempt"] : []),
    ...(table === "steps" ? ["t.seq AS first_seq"] : []),
  ];
  return select(fields, first, (field) => `t.${columnOf(field)}`) +
    ` FROM telemetry_runs r JOIN ${table} t USING (run_key)` +
    (fields.some(({ kind }) => kind === "label")
      ? " LEFT JOIN sources o USING (run_key, source)"
      : "") +
    (fields.some(({ kind }) => kind === "series") ? " JOIN series n USING (run_key, series)" : "");
}

/** Rows without spans are read as rows of one span. */
const ROWS_IN_SPANS = `json_each(
        CASE WHEN 'span' IN (b.episode, b.step) THEN b.hot ELSE '[[[0,0,0],' || b.hot || ']]' END) s
      JOIN json_each(s.value) h ON h.key = 0 JOIN json_each(s.value, '$[1]') j`;

/** Steps in blocks. A query that bounds `first_seq` reads few blocks. */
function selectBlocks(
  { fields }: Table,
  spans: boolean,
  { text, isWhole }: Partial<BlocksInSql> = {},
): string {
  const inRow = (column: string) =>
    `CASE typeof(b.${column}) WHEN 'text' THEN ifnull(json_extract(j.value, b.${column}), 0) ELSE b.${column} END`;
  const head = (i: number) => `json_extract(h.value, '$[${i}]')`;
  const inSpan: Record<string, string> = spans
    ? { episode: head(1), step: `${head(2)} + j.key` }
    : {};
  const cell = (column: string) =>
    inSpan[column] === undefined
      ? inRow(column)
      : `CASE b.${column} WHEN 'span' THEN ${inSpan[column]} ELSE ${inRow(column)} END`;
  const seq = `b.first_seq + ${spans ? `${head(0)} + ` : ""}j.key`;
  const value = (field: RecordField): string => {
    const column = columnOf(field);
    if (field.kind === "time") return `(b.from_ns + b.unit_ns * CAST(${cell("ts")} AS INTEGER))`;
    if (column === "terminated") return `(${cell("flags")} & 1)`;
    if (column === "truncated") return `(${cell("flags")} >> 1)`;
    if (field.kind === "real") {
      return `CAST(${cell(column).replace(/ifnull\((.*), 0\)/, "$1")} AS REAL)`;
    }
    return inBlocks(field) ? `CAST(${cell(column)} AS INTEGER)` : text?.(field, seq) ?? "NULL";
  };
  return select(
    fields,
    [`${seq} AS seq`, `CAST(${cell("attempt")} AS INTEGER) AS attempt`, "b.first_seq"],
    value,
  ) +
    ` FROM telemetry_runs r JOIN step_blocks b USING (run_key) JOIN ${
      spans ? ROWS_IN_SPANS : "json_each(b.hot) j"
    }
      LEFT JOIN sources o ON o.run_key = b.run_key AND o.source = ${cell("source")}` +
    (isWhole === undefined ? "" : ` WHERE ${isWhole}`);
}

function inBlocks({ kind }: RecordField): boolean {
  return kind === "index" || kind === "flag" || kind === "real";
}

function select(
  fields: Table["fields"],
  first: string[],
  value: (field: RecordField) => string,
): string {
  const columns = fields.flatMap((field) => {
    const { kind, json } = field;
    const time = (seconds: string) =>
      `strftime('%Y-%m-%dT%H:%M:%fZ', ${value(field)} / ${seconds}, 'unixepoch') AS ${json}`;
    switch (kind) {
      case "time":
        return [time("1e9"), `${value(field)} AS ts_ns`];
      case "milliseconds":
        return [time("1e3")];
      case "label":
        return [`o.${columnOf(field)} AS ${json}`];
      case "series":
        return [`n.name AS ${json}`];
      default:
        // In the view, the field that public JSON calls "event" has always had the column's own
        // name.
        return [`${value(field)} AS ${field.read === "name" ? columnOf(field) : json}`];
    }
  });
  return `SELECT r.run_id, ${[...first, ...columns].join(", ")}`;
}
