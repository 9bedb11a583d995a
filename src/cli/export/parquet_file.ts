/** Records as a Parquet file: typed columns, Snappy, one row group in memory at a time. */
import { fileWriter, parquetWriteRows, schemaFromColumnData } from "hyparquet-writer";
import { publicFields, type PublicType } from "../../records/record_fields.ts";
import type { Kind, TelemetryRecord } from "../text/records.ts";

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

/** JSON fields that are lists of numbers if their first value is one. */
const LISTS = ["action", "observation"];

/** A value is not a list of numbers, although an earlier one of its column was. */
class OtherShape extends Error {
  constructor(readonly column: string) {
    super(`${column} is not always a list of numbers`);
  }
}

/**
 * Writes the records to `path`, replacing an existing file. Actions and observations are lists of
 * doubles if all are flat lists of numbers, and JSON otherwise: if that is found late, the file is
 * written again.
 * @param records of the same run at each call
 * @returns their number
 */
export async function writeParquet(
  path: string,
  kind: Kind,
  records: () => AsyncIterable<TelemetryRecord>,
): Promise<number> {
  for (const json = new Set<string>();;) {
    try {
      return await write(path, kind, records(), json);
    } catch (error) {
      if (!(error instanceof OtherShape)) throw error;
      json.add(error.column);
    }
  }
}

async function write(
  path: string,
  kind: Kind,
  records: AsyncIterable<TelemetryRecord>,
  json: ReadonlySet<string>,
): Promise<number> {
  let rows = 0;
  const first = await readFirst(records);
  const lists = LISTS.filter((name) =>
    !json.has(name) && first.early.some((record) => isList(record[name]))
  );
  const columns = publicFields(kind).map(({ name, type }) => ({
    name,
    type: TYPES[type],
    nullable: true,
  }));
  await parquetWriteRows({
    writer: fileWriter(path),
    rows: (async function* () {
      for await (const record of first.all()) {
        rows++;
        yield Object.fromEntries(columns.map(({ name, type }) => {
          const value = cell(record, name, type);
          if (!lists.includes(name)) return [name, value];
          if (value !== null && !isList(value)) throw new OtherShape(name);
          return [name, value];
        }));
      }
    })(),
    columns: columns.map(({ name, type }) => ({
      name,
      nullable: true,
      ...(lists.length > 0 ? {} : { type }),
    })),
    ...(lists.length > 0 ? { schema: schemaOf(columns, lists) } : {}),
    rowGroupSize: ROWS_IN_MEMORY,
    createdBy: "mosaic",
  });
  return rows;
}

/** The records; the first thousand are read in advance. */
async function readFirst(records: AsyncIterable<TelemetryRecord>) {
  const rest = records[Symbol.asyncIterator]();
  const early: TelemetryRecord[] = [];
  while (early.length < 1000) {
    const { value, done } = await rest.next();
    if (done) break;
    early.push(value);
  }
  const all = async function* () {
    yield* early;
    yield* { [Symbol.asyncIterator]: () => rest };
  };
  return { early, all };
}

function isList(value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === "number");
}

function schemaOf(
  columns: { name: string; type: ColumnType; nullable: boolean }[],
  lists: readonly string[],
) {
  const [root, ...fields] = schemaFromColumnData({
    columnData: columns.map((column) => ({ ...column, data: [] })),
  });
  return [
    root!,
    ...fields.flatMap((field) =>
      !lists.includes(field.name) ? [field] : [
        {
          name: field.name,
          repetition_type: "OPTIONAL" as const,
          num_children: 1,
          converted_type: "LIST" as const,
        },
        { name: "list", repetition_type: "REPEATED" as const, num_children: 1 },
        { name: "element", repetition_type: "OPTIONAL" as const, type: "DOUBLE" as const },
      ]
    ),
  ];
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
      // The _text field contains the name of NaN or an infinity.
      return typeof value === "number"
        ? value
        : field + "_text" in record
        ? Number(record[`${field}_text`])
        : null;
    case "TIMESTAMP":
      return typeof value === "string" ? new Date(value) : null;
    default:
      return value ?? null;
  }
}
