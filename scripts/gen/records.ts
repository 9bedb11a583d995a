/** Writes `src/gen/records` from the table of fields (src/records/record_fields.ts). */
import {
  columnOf,
  DIALECT_NAMES,
  type FieldKind,
  type RecordField,
  RECORDS,
  type RecordTable,
} from "../../src/records/record_fields.ts";

const STEPS = RECORDS.steps;
const EPISODES = RECORDS.episodes;
const EVENTS = RECORDS.events;
const METRICS = RECORDS.metrics;

const HEAD =
  `// Written by scripts/gen/records.ts from src/records/record_fields.ts; "deno task gen" writes it anew.
`;

const DEFAULT: Record<FieldKind, string> = {
  ...{ index: "0", flag: "false", real: "0", milliseconds: "0" },
  ...{ label: '""', text: '""', json: '""', time: '""', series: '""' },
};

const isText = ({ kind }: RecordField) => kind === "json" || kind === "text";
const isLabel = ({ kind }: RecordField) => kind === "label";
const isReal = ({ kind }: RecordField) => kind === "real";

/** One line for each. */
function lines<T>(items: readonly T[], line: (item: T) => string | string[]): string {
  return items.flatMap(line).map((text) => `${text}\n`).join("");
}

const camelCase = (name: string) =>
  name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const lowered = (name: string) => name[0]!.toLowerCase() + name.slice(1);

function check(): void {
  const sources = STEPS.fields.filter(isLabel).map(({ key }) => key);
  for (const { name, fields } of Object.values(RECORDS)) {
    for (const field of fields) {
      const { json, kind, names, since } = field;
      const fail = (why: string): never => {
        throw new Error(`record_fields: ${name}.${json} ${why}`);
      };
      if (isLabel(field) && !sources.includes(field.key)) fail("is a label that steps do not have");
      if (since !== undefined && ["label", "time", "milliseconds", "series"].includes(kind)) {
        fail(`is a ${kind}, which cannot be added to the rows that are stored`);
      }
      if (
        names !== undefined && names.length > 1 &&
        (kind === "flag" || isLabel(field) || kind === "text")
      ) {
        fail(`is a ${kind}, which workers write under one name`);
      }
    }
  }
}

// ---- record_types.ts

function typeIn(field: RecordField, real: string, text = "string"): string {
  if (isReal(field)) return real;
  if (isText(field)) return text;
  return { index: "number", flag: "boolean", milliseconds: "number" }[field.kind as string] ??
    "string";
}

function recordType(table: RecordTable, name: string, real: string, text?: string): string {
  return `export interface ${name} {
${lines(table.fields, (field) => `  ${field.key}: ${typeIn(field, real, text)};`)}}
`;
}

function emptyRecord({ name, fields }: RecordTable): string {
  return `export const EMPTY_${camelToUpper(name)}: Readonly<${name}Record> = {
${lines(fields, ({ key, kind }) => `  ${key}: ${DEFAULT[kind]},`)}};
`;
}

const camelToUpper = (name: string) => name.replace(/(?<=[a-z])[A-Z]/g, "_$&").toUpperCase();

function batchColumn(field: RecordField): string {
  if (isLabel(field)) return "string[] | string";
  if (isText(field)) return "Texts";
  if (isReal(field)) return "(number | string)[]";
  return field.kind === "index" || field.kind === "flag" ? "number[]" : "string[]";
}

function cleanColumn(field: RecordField): string {
  if (isLabel(field)) return "string[] | string";
  if (field.kind === "time") return "string[]";
  return isText(field) ? "Texts | undefined" : "number[] | undefined";
}

function types(): string {
  return `${HEAD}
/**
 * One step as every dialect is mapped to (docs/reference/telemetry.md). JSON texts are kept as the
 * worker wrote them.
 */
${recordType(STEPS, "StepRecord<Text = string>", "number", "Text")}
/** A real number may be the text "NaN", "Infinity" or "-Infinity": episodes travel as JSON. */
${recordType(EPISODES, "EpisodeRecord", "number | string")}
/**
 * A lifecycle record of the worker (\`run_started\`, \`heartbeat\`, \`checkpoint_saved\`,
 * \`artifact\`, …).
 */
${recordType(EVENTS, "WorkerEventRecord", "number")}
${[STEPS, EPISODES, EVENTS].map(emptyRecord).join("\n")}
/**
 * A stored step: its seq starts at 1 per run, contiguous, given in the transaction that stored it.
 */
export interface StoredStep extends StepRecord {
  seq: number;
  attempt: number;
}
export interface StoredEpisode extends EpisodeRecord {
  seq: number;
  attempt: number;
${lines(EPISODES.fields.filter(isReal), ({ key }) => `  ${key}: number;`)}}
export interface StoredWorkerEvent extends WorkerEventRecord {
  seq: number;
  attempt: number;
}
/** A point of a metric series; \`seq\` counts all metric points of the run. */
export interface StoredMetric {
  seq: number;
${lines(METRICS.fields, (field) => `  ${field.key}: ${typeIn(field, "number")};`)}}

/** The texts of a row of \`sources\`. */
export interface Source {
${lines(STEPS.fields.filter(isLabel), ({ key }) => `  ${key}: string;`)}}
export const NO_SOURCE: Readonly<Source> = { ${
    STEPS.fields.filter(isLabel).map(({ key }) => `${key}: ""`).join(", ")
  } };

/**
 * The columns that differ from their default somewhere in the batch; \`n\` rows. NaN and infinities
 * of real columns are the texts "NaN", "Infinity" and "-Infinity". Flags are 0 and 1. A label that
 * all rows share is one text.
 */
export interface StepColumns<Texts = string[]> {
  n: number;
${lines(STEPS.fields, (field) => `  ${field.key}?: ${batchColumn(field)};`)}}

/**
 * Rows of storable columns: arrays of exactly \`n\`, or undefined where every row has the default.
 */
export interface CleanSteps<Texts = string[]> {
  n: number;
${lines(STEPS.fields, (field) => `  ${field.key}: ${cleanColumn(field)};`)}\
  /** Length of all texts, in UTF-16 units. */
  textLength: number;
  /** Values that had to be changed to be stored. */
  clamped: number;
}
`;
}

// ---- step_columns.ts

/** A field's value of a record as a batch has it. */
function onWire({ key, kind }: RecordField): string {
  if (kind === "flag") return `step.${key} ? 1 : 0`;
  return kind === "real" ? `numberOnWire(step.${key})` : `step.${key}`;
}

function columns(): string {
  const standard = (field: RecordField) => field.kind === "flag" ? "0" : DEFAULT[field.kind];
  return `${HEAD}
import type { CleanSteps, StepColumns, StepRecord, StoredStep } from "./record_types.ts";

/** Non-finite numbers travel as text: JSON has none. */
export function numberOnWire(value: number): number | string {
  return Number.isFinite(value) ? value : String(value);
}

/** A column whose first rows have the default. */
function begun<T>(rows: number, standard: T, value: T): T[] {
  const values: T[] = [];
  for (let i = 0; i < rows; i++) values.push(standard);
  values.push(value);
  return values;
}

/** A column of texts, which may be of another kind than an array. */
export interface TextSink<Text> {
  push(text: Text | ""): unknown;
}

function begunTexts<Text, Texts extends TextSink<Text>>(texts: Texts, rows: number, value: Text): Texts {
  for (let i = 0; i < rows; i++) texts.push("");
  texts.push(value);
  return texts;
}

/**
 * Steps as columns. A column takes up nothing before a row differs from the default, or from the
 * label of the first row.
 */
export class StepColumnsBuilder<Text extends string | object, Texts extends TextSink<Text>> {
  readonly #texts: () => Texts;
  #n = 0;
${
    lines(STEPS.fields, (field) => {
      const { key } = field;
      if (!isLabel(field)) return `  #${key}: ${batchColumn(field)} | undefined;`;
      return [`  #${key} = "";`, `  #${key}Rows: string[] | undefined;`];
    })
  }
  /** @param texts makes a column of texts */
  constructor(texts: () => Texts) {
    this.#texts = texts;
  }

  get size(): number {
    return this.#n;
  }

  add(step: StepRecord<Text>): void {
    const row = this.#n++;
${
    lines(STEPS.fields, (field) => {
      const { key } = field;
      if (isLabel(field)) {
        return [
          `    if (row === 0) this.#${key} = step.${key};`,
          `    if (this.#${key}Rows !== undefined) this.#${key}Rows.push(step.${key});`,
          `    else if (step.${key} !== this.#${key}) this.#${key}Rows = begun(row, this.#${key}, step.${key});`,
        ];
      }
      const value = onWire(field) === `step.${key}` ? `step.${key}` : key;
      const begun = isReal(field) ? "begun<number | string>" : "begun";
      const first = isText(field)
        ? `begunTexts<Text, Texts>(this.#texts(), row, ${value})`
        : `${begun}(row, ${standard(field)}, ${value})`;
      return [
        ...(value === key ? [`    const ${key} = ${onWire(field)};`] : []),
        `    if (this.#${key} !== undefined) this.#${key}.push(${value});`,
        `    else if (${value} !== ${standard(field)}) this.#${key} = ${first};`,
      ];
    })
  }  }

  /** The columns of what was added since the last call. */
  take(): StepColumns<Texts> {
    const columns: StepColumns<Texts> = { n: this.#n };
${
    lines(STEPS.fields, (field) => {
      const { key } = field;
      if (
        !isLabel(field)
      ) return `    if (this.#${key} !== undefined) columns.${key} = this.#${key};`;
      return [
        `    if (this.#${key}Rows !== undefined) columns.${key} = this.#${key}Rows;`,
        `    else if (this.#n > 0 && this.#${key} !== "") columns.${key} = this.#${key};`,
      ];
    })
  }    this.#n = 0;
${
    lines(STEPS.fields, (field) =>
      `    this.#${field.key}${isLabel(field) ? "Rows" : ""} = undefined;`)
  }\
    return columns;
  }
}

/** Makes columns storable: arrays of \`n\` with no value that SQLite would change. */
export interface ColumnCleaner<Texts> {
  readonly n: number;
  readonly textLength: number;
  readonly clamped: number;
  integers(column: unknown): number[] | undefined;
  flags(column: unknown): number[] | undefined;
  reals(column: unknown): number[] | undefined;
  texts(column: unknown): Texts | undefined;
  labels(column: unknown): string[] | string;
  times(column: unknown, arrivalNs: string): string[];
}

export function cleanColumns<Texts>(
  cleaner: ColumnCleaner<Texts>,
  steps: StepColumns<unknown>,
  arrivalNs: string,
): CleanSteps<Texts> {
  return {
    n: cleaner.n,
${
    lines(STEPS.fields, ({ key, kind }) => {
      if (kind === "time") return `    ${key}: cleaner.times(steps.${key}, arrivalNs),`;
      const method =
        { index: "integers", flag: "flags", real: "reals", label: "labels" }[kind as string] ??
          "texts";
      return `    ${key}: cleaner.${method}(steps.${key}),`;
    })
  }\
    textLength: cleaner.textLength,
    clamped: cleaner.clamped,
  };
}

function labelAt(column: string[] | string, i: number): string {
  return typeof column === "string" ? column : column[i]!;
}

/** Row \`i\` as readers get it. */
export function stepAt(columns: CleanSteps, i: number, seq: number, attempt: number): StoredStep {
  return {
    seq,
    attempt,
${
    lines(STEPS.fields, (field) => {
      const { key, kind } = field;
      if (isLabel(field)) return `    ${key}: labelAt(columns.${key}, i),`;
      if (kind === "time") return `    ${key}: columns.${key}[i]!,`;
      if (kind === "flag") return `    ${key}: columns.${key}?.[i] === 1,`;
      return `    ${key}: columns.${key}?.[i] ?? ${DEFAULT[kind]},`;
    })
  }  };
}

/** Length of row \`i\`'s texts. */
export function stepTextLength(columns: CleanSteps, i: number): number {
  return ${
    STEPS.fields.filter(isText).map(({ key }) => `(columns.${key}?.[i]?.length ?? 0)`).join(
      " +\n    ",
    )
  };
}
`;
}

// ---- record_rows.ts

/** Empty texts are NULL: they take no byte. */
const isNullable = ({ kind, always }: RecordField) =>
  kind === "json" || (kind === "text" && always !== true);

/** Columns of a table in the order in which rows are read: the labels together as one source. */
function selected({ attempt, fields }: RecordTable): string[] {
  const own = fields.filter((field) => !isLabel(field)).map((field) =>
    field.kind === "time" ? `CAST(${columnOf(field)} AS TEXT)` : columnOf(field)
  );
  return [
    "seq",
    ...(attempt ? ["attempt"] : []),
    ...(fields.some(isLabel) ? ["source"] : []),
    ...own,
  ];
}

function rowReader(table: RecordTable): string {
  const { name, attempt, fields } = table;
  const at = (field: RecordField) =>
    `row[${
      selected(table).indexOf(
        field.kind === "time" ? `CAST(${columnOf(field)} AS TEXT)` : columnOf(field),
      )
    }]`;
  const labels = fields.filter(isLabel);
  const value = (field: RecordField): string => {
    const cell = at(field);
    switch (field.kind) {
      case "flag":
        return `${cell} === 1`;
      case "real":
        // A point of a metric that is NaN is stored by its name.
        return `${cell} === null || ${cell} === "NaN" ? NaN : ${cell} as number`;
      case "index":
      case "milliseconds":
        return `${cell} as number`;
      case "series":
        return `nameOf(${cell} as number)`;
      default:
        return isNullable(field) ? `(${cell} ?? "") as string` : `${cell} as string`;
    }
  };
  const more = labels.length > 0
    ? ", sourceOf: (source: number) => Source"
    : fields.some(({ kind }) => kind === "series")
    ? ", nameOf: (series: number) => string"
    : "";
  return `
export const ${camelToUpper(name)}_SELECT = "${selected(table).join(", ")}";

export function ${lowered(name)}OfRow(row: Row${more}): Stored${name} {
${
    labels.length > 0
      ? `  const source = sourceOf(row[${selected(table).indexOf("source")}] as number);\n`
      : ""
  }\
  return {
    seq: row[0] as number,
${attempt ? "    attempt: row[1] as number,\n" : ""}\
${
    lines(fields, (field) =>
      `    ${field.key}: ${isLabel(field) ? `source.${field.key}` : value(field)},`)
  }\
  };
}
`;
}

function rowWriter(table: RecordTable): string {
  const { name, fields } = table;
  const type = `Stored${name}`;
  const own = fields.filter((field) => !isLabel(field));
  const labelled = own.length < fields.length;
  const columns = [
    "run_key",
    "seq",
    "attempt",
    ...(labelled ? ["source"] : []),
    ...own.map(columnOf),
  ];
  const stored = ({ key, kind }: RecordField): string => {
    if (kind === "flag") return `Boolean(record.${key})`;
    if (kind === "time") return `as.time(record.${key}, arrivalNs)`;
    return `as.${{ index: "integer", real: "real" }[kind as string] ?? "text"}(record.${key})`;
  };
  const bound = (field: RecordField): string => {
    const value = `stored.${field.key}`;
    if (field.kind === "flag") return `${value} ? 1 : 0`;
    if (isReal(field)) return `Number.isNaN(${value}) ? null : ${value}`;
    return isNullable(field) ? `${value} === "" ? null : ${value}` : value;
  };
  const whole = fields.filter(({ kind }) => kind === "index");
  return `
export const ${camelToUpper(name)}_COLUMNS: readonly string[] = [${
    columns.map((c) => `"${c}"`).join(", ")
  }];

export function stored${name}(
  as: Storable,
  record: ${name}Record,
  seq: number,
  attempt: number,
  arrivalNs: string,
): ${type} {
  return {
    seq,
    attempt,
${lines(fields, (field) => `    ${field.key}: ${stored(field)},`)}  };
}

/** The values of ${camelToUpper(name)}_COLUMNS. */
export function ${lowered(name)}Row(runKey: number, stored: ${type}${
    labelled ? ", source: number" : ""
  }): Row {
  return [
    runKey,
    stored.seq,
    stored.attempt,
${labelled ? "    source,\n" : ""}${lines(own, (field) => `    ${bound(field)},`)}  ];
}
` + (whole.length === 0 ? "" : `
/** Whether a count or index could not be stored as it was. */
export function ${lowered(name)}Changed(record: ${name}Record, stored: ${type}): boolean {
  return ${whole.map(({ key }) => `stored.${key} !== record.${key}`).join(" || ")};
}
`);
}

function rows(): string {
  const optional = STEPS.fields.filter((field) => !isLabel(field) && field.kind !== "time");
  return `${HEAD}
import type {
  CleanSteps,
  EpisodeRecord,
  Source,
  StoredEpisode,
  StoredMetric,
  StoredStep,
  StoredWorkerEvent,
  WorkerEventRecord,
} from "./record_types.ts";

/** A row as an array: several times cheaper than as an object. */
export type Row = (string | number | null)[];

/** Values as SQLite gives them back. */
export interface Storable {
  integer(value: unknown): number;
  real(value: unknown): number;
  text(value: unknown): string;
  time(value: unknown, arrivalNs: string): string;
}

/** Columns of steps that are left out of a batch's insert where all rows have the default. */
export const OPTIONAL_STEP_COLUMNS = [
${
    lines(optional, (field) =>
      `  { key: "${field.key}", column: "${columnOf(field)}", real: ${isReal(field)} },`)
  }\
] as const satisfies readonly { key: keyof CleanSteps; column: string; real: boolean }[];
${Object.values(RECORDS).map(rowReader).join("")}${[EPISODES, EVENTS].map(rowWriter).join("")}`;
}

// ---- public_lines.ts

function publicText(field: RecordField): string {
  const { json, key, kind, always } = field;
  const value = `r.${key}`;
  const optional = (written: string) =>
    always ? written : `(${value} === ${DEFAULT[kind]} ? "" : ${written})`;
  switch (kind) {
    case "index":
    case "flag":
      return optional(`\`,"${json}":\${${value}}\``);
    case "real":
      return optional(`real("${json}", ${value})`);
    case "json":
      if (!always) return optional(`\`,"${json}":\${rawJson(${value})}\``);
      return `\`,"${json}":\${${value} === "" ? "null" : rawJson(${value})}\``;
    case "time":
      return `times(${value})`;
    case "milliseconds":
      return `\`,"${json}":"\${isoTime(${value})}"\``;
    default:
      return optional(`\`,"${json}":\${JSON.stringify(${value})}\``);
  }
}

function publicLine({ name, attempt, fields }: RecordTable): string {
  const start = `\`{"seq":\${r.seq},"run_id":\${runIdJson}${
    attempt ? ',"attempt":${r.attempt}' : ""
  }\``;
  const parts = [start, ...fields.map((field) => publicText(field)), '"}"'];
  return `
export function ${lowered(name)}Line(runIdJson: string, r: Stored${name}): string {
  return ${parts.join(" +\n    ")};
}
`;
}

function publicLines(): string {
  return `${HEAD}
import { isoTime } from "../../base/text/iso_time.ts";
import { rawJson } from "../../base/text/json_text.ts";
import type { StoredEpisode, StoredMetric, StoredStep, StoredWorkerEvent } from "./record_types.ts";

/** A number, or null and its name in a field of its own, where JSON has no number for it. */
function real(name: string, value: number): string {
  return Number.isFinite(value) ? \`,"\${name}":\${value}\` : \`,"\${name}":null,"\${name}_text":"\${value}"\`;
}

/** Both forms of a record's time: for people, and exact. */
function times(tsNs: string): string {
  const ms = tsNs.length > 6 ? Number(tsNs.slice(0, -6)) : 0;
  return \`,"timestamp":"\${isoTime(ms)}","ts_ns":"\${tsNs}"\`;
}
${Object.values(RECORDS).map(publicLine).join("")}`;
}

// ---- run_frames.ts

/** Property of the original's message. */
export function messageKey({ json, kind }: RecordField): string {
  return camelCase(kind === "json" ? `${json}_json` : json);
}

function frameWriter({ name, message, fields }: RecordTable): string {
  const method = (kind: FieldKind) =>
    ({ index: "uint", flag: "bool", real: "double", time: "timestamp" })[kind as string] ?? "text";
  const written = fields.flatMap(({ proto, kind, key }) =>
    proto === undefined ? [] : [{ proto, line: `  frames.${method(kind)}(${proto}, r.${key});` }]
  );
  written.push({ proto: message!.seq, line: `  frames.uint(${message!.seq}, r.seq);` });
  return `
/** The original's ${message!.name}. */
export function write${name}(frames: FrameFields, runId: string, r: Stored${name}): void {
  frames.begin();
  frames.text(1, runId);
${lines(written.sort((a, b) => a.proto - b.proto), ({ line }) => line)}  frames.end();
}
`;
}

function messageReader({ name, message, fields }: RecordTable): string {
  const value = (field: RecordField): string => {
    const { proto, kind } = field;
    if (proto === undefined) return DEFAULT[kind];
    const property = `message.${messageKey(field)}`;
    if (kind === "index") return `Number(${property})`;
    if (kind === "time") return `nsOf(${property})`;
    return isReal(field) && name === EPISODES.name ? `numberOnWire(${property})` : property;
  };
  return `
export function ${lowered(name)}OfMessage(message: ${message!.name}, nsOf: (time: ${
    message!.name
  }["timestamp"]) => string): ${name}Record {
  return {
${lines(fields, (field) => `    ${field.key}: ${value(field)},`)}  };
}
`;
}

function frames(): string {
  const tables = [STEPS, EPISODES];
  return `${HEAD}
import type { RunEpisode, RunStep } from "../gymgui/trainer_pb.ts";
import { numberOnWire } from "./step_columns.ts";
import type { EpisodeRecord, StepRecord, StoredEpisode, StoredStep } from "./record_types.ts";

/** Writes a framed message field by field, in the order of their numbers; defaults are left out. */
export interface FrameFields {
  begin(): void;
  end(): void;
  uint(field: number, value: number): void;
  bool(field: number, value: boolean): void;
  double(field: number, value: number): void;
  text(field: number, text: string): void;
  timestamp(field: number, ns: string): void;
}
${tables.map(frameWriter).join("")}${tables.map(messageReader).join("")}`;
}

// ---- line_fields.ts

function slotNames(): string[] {
  const names = Object.values(RECORDS).filter(({ name }) => name !== METRICS.name).flatMap((
    { fields },
  ) =>
    fields.filter(({ read, kind }) => read !== "rest" && read !== "name" && kind !== "time")
      .flatMap((field) => [
        ...namesOf(field),
        ...(field.kind === "json" ? [`${field.json}_json`] : []),
      ])
  );
  return [...new Set([...DIALECT_NAMES, ...names])];
}

const namesOf = ({ names, json }: RecordField) => names ?? [json];
const slot = (name: string) => `SLOT.${name}`;
const constant = (table: RecordTable, { json }: RecordField) =>
  `${camelToUpper(table.name)}_${json.toUpperCase()}`;

function lineReader(table: RecordTable): string {
  const { name, fields } = table;
  const lists: string[] = [];
  const first: string[] = [];
  const slotsOf = (field: RecordField): string => {
    lists.push(`const ${constant(table, field)} = [${namesOf(field).map(slot).join(", ")}];`);
    return constant(table, field);
  };
  /** Statements before the record for what may be malformed, or is needed twice. */
  const value = (field: RecordField): string => {
    const { key, kind, json, read, strict } = field;
    const malformed = (word: string) =>
      strict ? [`  if (${key} === undefined) return "${word} is no number";`] : [];
    switch (read) {
      case "rest":
        return '""';
      case "name":
        return "name";
      case "payload":
        return `take.payload(fields)`;
      case "episode":
        first.push(`  const ${key} = take.episode(fields, metadata);`);
        first.push(`  if (${key} === undefined) return "${key} is no number";`);
        return key;
      case "agent":
        first.push(`  const ${key} = take.label(fields, ${slot(json)});`);
        return `${key} === "" ? own.agentId : ${key}`;
      case "worker":
        first.push(`  const ${key} = take.label(fields, ${slot(json)});`);
        return `own.workerId === "" ? ${key} : own.workerId`;
    }
    switch (kind) {
      case "index":
        first.push(`  const ${key} = take.index(fields, ${slotsOf(field)});`, ...malformed(json));
        return strict
          ? `${key} === "absent" ? 0 : ${key}`
          : `typeof ${key} === "number" ? ${key} : 0`;
      case "real": {
        first.push(
          `  const ${key} = take.number(fields, ${slotsOf(field)}, ${
            field.absent === "nan" ? "NaN" : "0"
          });`,
          ...malformed(json),
        );
        const number = strict ? key : `${key} ?? 0`;
        return name === EPISODES.name ? `numberOnWire(${number})` : number;
      }
      case "flag":
        return `take.flag(fields, ${slot(namesOf(field)[0]!)})`;
      case "time":
        return "take.time(fields)";
      case "json":
        return `take.json(fields, ${slot(`${json}_json`)}, ${slotsOf(field)})`;
      default:
        return `take.label(fields, ${slot(namesOf(field)[0]!)})`;
    }
  };
  const properties = lines(fields, (field) => {
    const given = value(field);
    return given === field.key ? `    ${given},` : `    ${field.key}: ${given},`;
  });
  const parameters = name === EVENTS.name ? "name: string" : "own: LineContext, metadata: unknown";
  const result = `${name}Record${first.some((line) => line.includes("return")) ? " | string" : ""}`;
  return `
${lists.map((line) => `${line}\n`).join("")}
/** Without the record's further fields${
    result.includes("|") ? ", or why the line is malformed" : ""
  }. */
export function ${
    lowered(name)
  }OfLine<F>(fields: F, take: FieldTaker<F>, ${parameters}): ${result} {
${first.map((line) => `${line}\n`).join("")}  return {
${properties}  };
}
`;
}

function dialects(): string {
  return `${HEAD}
import { numberOnWire } from "./step_columns.ts";
import type { EpisodeRecord, StepRecord, WorkerEventRecord } from "./record_types.ts";

/**
 * Names that some dialect gives a meaning, and a number for each; every other field is a record's
 * further information.
 */
export const SLOT = {
${slotNames().map((name, i) => `  ${name}: ${i},\n`).join("")}} as const;

/** What a proxy knows better than the worker's lines. */
export interface LineContext {
  /** For records that name no agent. */
  agentId: string;
  /** Wins over what a record says; "" lets the record speak. */
  workerId: string;
}

/**
 * Takes values from the fields of a line; what is taken is not among the record's further fields.
 */
export interface FieldTaker<F> {
  episode(fields: F, metadata: unknown): number | undefined;
  index(fields: F, slots: readonly number[]): number | undefined | "absent";
  number(fields: F, slots: readonly number[], absent: number): number | undefined;
  flag(fields: F, slot: number): boolean;
  label(fields: F, slot: number): string;
  time(fields: F): string;
  json(fields: F, encoded: number, plain: readonly number[]): string;
  payload(fields: F): string;
}
${[STEPS, EPISODES, EVENTS].map(lineReader).join("")}`;
}

/** The text of each generated file by its name. */
export function recordFiles(): Map<string, string> {
  check();
  return new Map([
    ["record_types.ts", types()],
    ["step_columns.ts", columns()],
    ["record_rows.ts", rows()],
    ["public_lines.ts", publicLines()],
    ["run_frames.ts", frames()],
    ["line_fields.ts", dialects()],
  ]);
}
