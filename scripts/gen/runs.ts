/**
 * What `deno task gen` writes into files from the table of a run's fields: messages, and the tables
 * of docs/reference/cli.md.
 */
import { RUN_FIELDS, type RunField, type RunFieldKind } from "../../src/runs/fields/run_fields.ts";
import { OUTCOMES, PLACEMENT_PHASES, RUN_STATES } from "../../src/runs/fields/lifecycle_states.ts";
import { BASE_DIRS } from "../../src/base/layout.ts";

const PROTO = "proto/mosaic/v1/mosaic.proto";
const DOCS = "docs/reference/cli.md";
const TABLE = "src/runs/fields/run_fields.ts";

/**
 * Path and text of each file that has a generated part. @param root the checkout, ending with a
 * slash
 */
export function runFiles(root: string): [path: string, text: string][] {
  const { many, single } = docTables();
  const docs = withPart(Deno.readTextFileSync(root + DOCS), ["<!-- ", " -->"], "Run", many, DOCS);
  return [
    [PROTO, withPart(Deno.readTextFileSync(root + PROTO), ["// ", ""], "Run", messages(), PROTO)],
    [DOCS, withPart(docs, ["<!-- ", " -->"], "RunDetail", single, DOCS)],
  ];
}

/** Replaces what stands between the marks of a generated part. */
function withPart(
  text: string,
  [open, close]: [string, string],
  name: string,
  part: string,
  path: string,
): string {
  const begin = `${open}${name}: written by "deno task gen" from ${TABLE}${close}\n`;
  const end = `${open}end of ${name}${close}\n`;
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`${path} has no lines ${begin}${end}`);
  return text.slice(0, from + begin.length) + part + text.slice(to);
}

// ---- messages

const PROTO_TYPES: Record<Exclude<RunFieldKind, "object">, string> = {
  text: "string",
  state: "string",
  outcome: "string",
  phase: "string",
  base: "string",
  integer: "uint32",
  number: "double",
  flag: "bool",
  time: "google.protobuf.Timestamp",
  texts: "repeated string",
  integers: "repeated int32",
  numbers: "repeated double",
  counts: "map<string, uint64>",
  process: "uint64",
  config: "string",
  any: "string",
};

function protoType({ kind, type, list, null: where, zero }: RunField): string {
  const own = type ?? PROTO_TYPES[kind as Exclude<RunFieldKind, "object">];
  return `${list ? "repeated " : ""}${zero && where !== undefined ? "optional " : ""}${own}`;
}

function comment({ about = "", single }: RunField): string {
  return [single ? "single" : "", plain(about)].filter((text) => text !== "").join(": ");
}

/** Markdown without its marks. */
function plain(about: string): string {
  return about.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll("`", "");
}

function message(name: string, fields: readonly RunField[]): string {
  const lines = fields.filter(({ proto }) => proto !== undefined).toSorted((a, b) =>
    a.proto! - b.proto!
  ).flatMap((
    field,
  ) => [
    ...(comment(field) === "" ? [] : [`  // ${comment(field)}`]),
    `  ${protoType(field)} ${field.message ?? field.json} = ${field.proto};`,
  ]);
  return `message ${name} {\n${lines.join("\n")}\n}\n`;
}

/** The messages of objects before those that contain them. */
function messages(): string {
  const inside = (fields: readonly RunField[]): string[] =>
    fields.flatMap((field) =>
      field.fields === undefined
        ? []
        : [...inside(field.fields), message(field.type!, field.fields)]
    );
  const nulls =
    '// Null, as the JSON has it, is an empty text, 0 or an unset field. Only GetRun returns the fields that are "single".\n';
  return [nulls, ...inside(RUN_FIELDS), message("Run", RUN_FIELDS)].join("\n");
}

// ---- docs

const words = (values: readonly string[]) => {
  const all = values.map((value) => `\`${value}\``);
  return `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
};

const DOC_TYPES: Record<RunFieldKind, string> = {
  text: "text",
  state: "as `state`",
  outcome: words(OUTCOMES),
  phase: words(PLACEMENT_PHASES),
  base: words(BASE_DIRS),
  integer: "integer",
  number: "number",
  flag: "boolean",
  time: "time",
  texts: "list of text",
  integers: "list of integer",
  numbers: "list of number",
  counts: "integer by name",
  process: "integer",
  config: "any JSON",
  any: "any JSON",
  object: "object",
};

function docType({ json, kind, list, null: where }: RunField): string {
  if (list) return "list of objects";
  const type = json === "state" ? words(RUN_STATES) : DOC_TYPES[kind];
  if (where !== "json" && where !== "both") return type;
  return type.includes("`") ? `${type}, or null` : `${type} or null`;
}

function rows(fields: readonly RunField[], prefix = ""): string[] {
  return fields.flatMap((field) =>
    field.json === undefined ? [] : [
      `| \`${prefix}${field.json}\` | ${docType(field)} | ${field.about ?? ""} |`.replace(
        "|  |",
        "| |",
      ),
      ...rows(field.fields ?? [], `${prefix}${field.json}${field.list ? "[]" : ""}.`),
    ]
  );
}

function docTables(): { many: string; single: string } {
  const table = (fields: readonly RunField[], more: string[] = []) =>
    ["| Field | Type | |", "|---|---|---|", ...rows(fields), ...more, ""].join("\n");
  const all: readonly RunField[] = RUN_FIELDS;
  const values =
    "| `values` | any JSON by name, optional | of `list -c param.…` or `-c metric.…`: the value of each such column, null if the run has none |";
  return {
    many: table(all.filter(({ single }) => !single), [values]),
    single: table(all.filter(({ single }) => single)),
  };
}
