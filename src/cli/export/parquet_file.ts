/** Records as a Parquet file: typed columns, Snappy, one row group in memory at a time. */
import { fileWriter, parquetWriteRows } from "hyparquet-writer";
import { publicFields, type PublicType } from "../../telemetry/record_fields.ts";
import type { Kind, TelemetryRecord } from "../records.ts";

type ColumnType = "INT64" | "DOUBLE" | "BOOLEAN" | "STRING" | "JSON" | "TIMESTAMP";

const TYPES: Record<PublicType, ColumnType> = {
  integer: "INT64",
  nanoseconds: "INT64",
  number: "DOUBLE",
  flag: "BOOLEAN",
  text: "STRING",
  json: "JSON",
  time: "TIMESTAMP",
};

const ROWS_IN_MEMORY = 50_000;

/** Writes the records to `path`, over what is there. Gives their number. */
export async function writeParquet(
  path: string,
  kind: Kind,
  records: AsyncIterable<TelemetryRecord>,
): Promise<number> {
  let rows = 0;
  const columns = publicFields(kind).map(({ name, type }) => ({ name, type: TYPES[type] }));
  await parquetWriteRows({
    writer: fileWriter(path),
    rows: (async function* () {
      for await (const record of records) {
        rows++;
        yield Object.fromEntries(columns.map(({ name, type }) => [name, cell(record, name, type)]));
      }
    })(),
    columns: columns.map((column) => ({ ...column, nullable: true })),
    rowGroupSize: ROWS_IN_MEMORY,
    createdBy: "mosaic",
  });
  return rows;
}

function cell(record: TelemetryRecord, field: string, type: ColumnType): unknown {
  const value = record[field];
  switch (type) {
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
