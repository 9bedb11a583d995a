/** A sweep as a table, of its points or of its trials: CSV, JSON and Parquet. */
import { MosaicError } from "../../base/errors.ts";
import { csv } from "../../base/text/csv_text.ts";
import { didYouMean } from "../../base/text/nearest.ts";
import type { PointJson, SweepJson } from "./sweep_json.ts";

interface SweepTable {
  header: string[];
  rows: unknown[][];
}

export const TABLES = ["points", "trials"] as const;
type TableOf = typeof TABLES[number];
const FORMATS = ["csv", "json", "parquet"] as const;

/** The names of parameters in any of the rows. */
export function namesIn(rows: readonly { parameters: Record<string, unknown> }[]): string[] {
  return [...new Set(rows.flatMap(({ parameters }) => Object.keys(parameters)))];
}

/** Best first; points without a value last. */
export function ranked(points: readonly PointJson[], goal: string): PointJson[] {
  const sign = goal === "min" ? 1 : -1;
  return points.toSorted((a, b) =>
    a.mean === null || b.mean === null
      ? Number(a.mean === null) - Number(b.mean === null)
      : sign * (a.mean - b.mean)
  );
}

const POINT = ["mean", "low", "high", "values", "trials", "pruned", "failed"] as const;
const BEFORE = ["trial", "run_id", "state"] as const;
const AFTER = ["value", "steps", "seconds", "started_at", "finished_at", "reason"] as const;
const OWN: readonly string[] = [...POINT, ...BEFORE, ...AFTER];
const WHOLE = ["values", "trials", "pruned", "failed", "trial", "steps"];
const TIMES = ["started_at", "finished_at"];

/** A parameter whose name another column may have is `param.NAME`, as in filters. */
const headings = (names: readonly string[]) =>
  names.map((name) => OWN.includes(name) ? `param.${name}` : name);

/** Points best first, trials by number. */
function sweepTable({ detail, metric }: SweepJson, of: TableOf): SweepTable {
  if (of === "points") {
    const points = ranked(detail?.points ?? [], metric?.goal ?? "max");
    const names = namesIn(points);
    return {
      header: [...headings(names), ...POINT],
      rows: points.map((
        point,
      ) => [...names.map((name) => point.parameters[name]), ...POINT.map((one) => point[one])]),
    };
  }
  const trials = (detail?.trials ?? []).toReversed();
  const names = namesIn(trials);
  return {
    header: [...BEFORE, ...headings(names), ...AFTER],
    rows: trials.map((trial) => [
      ...BEFORE.map((one) => trial[one]),
      ...names.map((name) => trial.parameters[name]),
      ...AFTER.map((one) => trial[one]),
    ]),
  };
}

/** @throws MosaicError `invalid_argument` for a table or a format that is none */
export async function tableBytes(
  sweep: SweepJson,
  of: string,
  format: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const table = sweepTable(sweep, oneOf("table", of, TABLES));
  const { header, rows } = table;
  switch (oneOf("format", format, FORMATS)) {
    case "csv":
      return new TextEncoder().encode(csv(header, rows));
    case "json": {
      const objects = rows.map((row) =>
        Object.fromEntries(header.map((name, i) => [name, row[i]]))
      );
      return new TextEncoder().encode(`${JSON.stringify(objects, null, 2)}\n`);
    }
    case "parquet":
      return await parquetBytes(table);
  }
}

function oneOf<T extends string>(what: string, given: string, known: readonly T[]): T {
  const found = known.find((one) => one === given);
  if (found !== undefined) return found;
  throw new MosaicError("invalid_argument", `${what} is "${given}".${didYouMean(given, known)}`, {
    hint: `It is one of ${known.join(", ")}.`,
  });
}

type ParquetType = "INT64" | "TIMESTAMP" | "DOUBLE" | "BOOLEAN" | "STRING";

/**
 * Counts are whole numbers, times are times. Of parameters, numbers are doubles and flags booleans
 * where a column has nothing else; all else is text, as JSON if it is none.
 */
async function parquetBytes({ header, rows }: SweepTable): Promise<Uint8Array<ArrayBuffer>> {
  const { parquetWriteBuffer } = await import("hyparquet-writer");
  const columnData = header.map((name, i) => {
    const values = rows.map((row) => row[i] ?? null);
    const all = (type: string) => values.every((value) => value === null || typeof value === type);
    const write = (type: ParquetType, data: (value: NonNullable<unknown>) => unknown) => ({
      ...{ name, type, nullable: true },
      data: values.map((value) => value === null ? null : data(value)),
    });
    if (WHOLE.includes(name)) return write("INT64", (value) => BigInt(value as number));
    if (TIMES.includes(name)) return write("TIMESTAMP", (value) => new Date(value as string));
    if (all("number")) return write("DOUBLE", (value) => value);
    if (all("boolean")) return write("BOOLEAN", (value) => value);
    return write("STRING", (value) => typeof value === "string" ? value : JSON.stringify(value));
  });
  return new Uint8Array(parquetWriteBuffer({ columnData }));
}
