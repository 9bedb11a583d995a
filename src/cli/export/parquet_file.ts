/** Records as a Parquet file: typed columns, Snappy, one row group in memory at a time. */
import { fileWriter, parquetWriteRows } from "hyparquet-writer";
import { FIELDS, type Kind, type TelemetryRecord } from "../records.ts";

type ColumnType = "INT64" | "DOUBLE" | "BOOLEAN" | "STRING" | "JSON" | "TIMESTAMP";

const TYPES: Record<string, ColumnType> = {
  seq: "INT64",
  attempt: "INT64",
  episode_index: "INT64",
  step_index: "INT64",
  step: "INT64",
  steps: "INT64",
  payload_version: "INT64",
  episode_seed: "INT64",
  ts_ns: "INT64",
  reward: "DOUBLE",
  total_reward: "DOUBLE",
  value: "DOUBLE",
  terminated: "BOOLEAN",
  truncated: "BOOLEAN",
  timestamp: "TIMESTAMP",
  action: "JSON",
  observation: "JSON",
  render_hint: "JSON",
  render_payload: "JSON",
  info: "JSON",
  metadata: "JSON",
  payload: "JSON",
};

const ROWS_IN_MEMORY = 50_000;

/** The column type of a field; STRING by default. */
export function columnType(field: string): ColumnType {
  return TYPES[field] ?? "STRING";
}

/** Writes the records to `path`, replacing it. @returns their number */
export async function writeParquet(
  path: string,
  kind: Kind,
  records: AsyncIterable<TelemetryRecord>,
): Promise<number> {
  let rows = 0;
  const fields = FIELDS[kind];
  await parquetWriteRows({
    writer: fileWriter(path),
    rows: (async function* () {
      for await (const record of records) {
        rows++;
        yield Object.fromEntries(fields.map((field) => [field, cell(record, field)]));
      }
    })(),
    columns: fields.map((name) => ({ name, type: columnType(name), nullable: true })),
    rowGroupSize: ROWS_IN_MEMORY,
    createdBy: "mosaic",
  });
  return rows;
}

function cell(record: TelemetryRecord, field: string): unknown {
  const value = record[field];
  switch (columnType(field)) {
    case "JSON":
      // Absent values and JSON's null both become null.
      return value ?? null;
    case "INT64":
      return value === undefined || value === null ? null : BigInt(value as number | string);
    case "DOUBLE":
      // NaN and infinities have their name in the _text field.
      return typeof value === "number" ? value : field + "_text" in record ? Number(record[`${field}_text`]) : null;
    case "TIMESTAMP":
      return typeof value === "string" ? new Date(value) : null;
    default:
      return value ?? null;
  }
}
