/** The messages that `deno task gen` writes into mosaic.proto from the table of a run's fields. */
import { RUN_FIELDS, type RunField, type RunFieldKind } from "../../src/runs/fields/run_fields.ts";
import { withPart } from "./part.ts";

const PROTO = "proto/mosaic/v1/mosaic.proto";
const TABLE = "src/runs/fields/run_fields.ts";

/**
 * Path and text of each file that has a generated part. @param root the checkout, ending with a
 * slash
 */
export function runFiles(root: string): [path: string, text: string][] {
  return [[PROTO, withPart(root + PROTO, "// Run", TABLE, messages())]];
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
