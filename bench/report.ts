/** A part's results, as a table for people and a JSON file for comparisons. */

/** Speeds of this machine, measured just before a part with the part's own records. */
export interface Yardsticks {
  /** JSON.parse of the same lines, one core, lines a second. */
  parse: number;
  /** The same rows inserted one statement a row, 1024 a transaction, rows a second. */
  insert: number;
  /** The same bytes through a pipe, lines a second. */
  pipe: number;
}

export interface Figure {
  part: string;
  name: string;
  value: number;
  unit: string;
  /** Only for rates: the machine's own speed. */
  yardsticks?: Yardsticks;
  /** Further figures of the same measurement. */
  detail?: Record<string, number | string>;
}

const plain = (value: number): string =>
  Number.isNaN(value)
    ? "-"
    : Math.abs(value) >= 100
    ? Math.round(value).toLocaleString("en-US").replaceAll(",", " ")
    : value.toPrecision(3);

const ratio = (value: number, of: number | undefined): string =>
  of === undefined ? "" : (value / of).toFixed(2);

/** Costs shown beside end-to-end rates, as columns: CPU seconds per 100 000 steps, and memory. */
const COSTS: [header: string, detail: string][] = [
  ["daemon CPU", "daemon CPU s per 100 k steps"],
  ["proxy CPU", "proxy CPU s per 100 k steps"],
  ["daemon MiB", "daemon peak MiB"],
  ["proxy MiB", "largest proxy peak MiB"],
];

export function table(figures: readonly Figure[]): string {
  const header = [
    "part",
    "what",
    "figure",
    "unit",
    "/insert",
    "/parse",
    "/pipe",
    "inserts/s",
    "parses/s",
    "piped/s",
  ];
  header.push(...COSTS.map(([name]) => name));
  const rows = figures.map((f) => [
    ...[f.part, f.name, plain(f.value), f.unit],
    ...[
      ratio(f.value, f.yardsticks?.insert),
      ratio(f.value, f.yardsticks?.parse),
      ratio(f.value, f.yardsticks?.pipe),
    ],
    ...(f.yardsticks
      ? [f.yardsticks.insert, f.yardsticks.parse, f.yardsticks.pipe].map(plain)
      : ["", "", ""]),
    ...COSTS.map(([, key]) => typeof f.detail?.[key] === "number" ? plain(f.detail[key]) : ""),
  ]);
  const widths = header.map((name, c) =>
    Math.max(name.length, ...rows.map((row) => row[c]!.length))
  );
  const line = (row: string[]) =>
    row.map((cell, c) => c < 2 || c === 3 ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]!))
      .join("  ").trimEnd();
  const inColumns = new Set(COSTS.map(([, key]) => key));
  const details = figures.flatMap((f) => {
    const further = Object.entries(f.detail ?? {}).filter(([key]) => !inColumns.has(key));
    if (further.length === 0) return [];
    const texts = further.map(([key, value]) =>
      `${key} ${typeof value === "number" ? plain(value) : value}`
    );
    return [`${f.part} ${f.name}: ${texts.join(", ")}`];
  });
  return [line(header), ...rows.map(line), "", ...details].join("\n");
}

export function writeResults(
  directory: string,
  figures: readonly Figure[],
  options: Record<string, unknown>,
): string {
  Deno.mkdirSync(directory, { recursive: true });
  const at = new Date().toISOString();
  const text = JSON.stringify(
    { at, cpus: navigator.hardwareConcurrency, deno: Deno.version.deno, options, figures },
    null,
    2,
  );
  const path = `${directory}/${at.replaceAll(":", "-")}.json`;
  Deno.writeTextFileSync(path, text + "\n");
  return path;
}
