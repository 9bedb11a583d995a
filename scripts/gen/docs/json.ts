/**
 * The shapes of docs/reference/json.md: fields and types from src/registry/contract.ts, words from
 * `run_fields.ts` and `contract_words.ts`.
 */
import { z } from "zod";
import { SHAPES } from "../../../src/registry/contract.ts";
import { FIELD_WORDS } from "./contract_words.ts";
import { RUN_FIELDS, type RunField } from "../../../src/runs/fields/run_fields.ts";
import { code, table } from "./markdown.ts";

/** Shapes that are said by the fields of another, and their own. */
const EXTENDS: Record<string, keyof typeof SHAPES> = {
  RunDetail: "Run",
  ShownRun: "RunDetail",
  CreatedToken: "Token",
};

/** Every shape under a heading of its own. */
export function shapes(): string {
  for (const shape of Object.keys(FIELD_WORDS)) fieldsOfShape(shape);
  return Object.keys(SHAPES).map((shape) => {
    const base = EXTENDS[shape];
    const said = new Set(base === undefined ? [] : fieldsOfShape(base).map(({ path }) => path));
    const own = fieldsOfShape(shape).filter(({ path }) => !said.has(path));
    const first = base === undefined
      ? ""
      : `The fields of [${code(base)}](#${base.toLowerCase()}), and:\n\n`;
    return `### ${shape}\n\n${first}${table(["Field", "Type", ""], rows(own))}`;
  }).join("\n");
}

interface Field {
  path: string;
  type: string;
  about: string;
}

function fieldsOfShape(shape: string): Field[] {
  const words = { ...RUN_WORDS[shape], ...FIELD_WORDS[shape] };
  const fields = [...fieldsOf(SHAPES[shape as keyof typeof SHAPES])].map(([path, type]) => ({
    path,
    type,
    about: words[path] ?? "",
  }));
  const unknown = Object.keys(words).find((path) => !fields.some((field) => field.path === path));
  if (unknown !== undefined && RUN_WORDS[shape] === undefined) {
    throw new Error(`contract_words.ts has ${shape}.${unknown}, the contract has not`);
  }
  return fields;
}

/** The path of the object that the field is in. */
const objectOf = (path: string) => path.slice(0, path.lastIndexOf(".") + 1);

/** One row for fields of one object with the same type and meaning. */
function rows(fields: readonly Field[]): string[][] {
  const found: { paths: string[]; type: string; about: string }[] = [];
  for (const { path, type, about } of fields) {
    const group = found.find((row) =>
      row.type === type && row.about === about && objectOf(row.paths[0]!) === objectOf(path)
    );
    if (group === undefined) found.push({ paths: [path], type, about });
    else group.paths.push(path);
  }
  return found.map(({ paths, type, about }) => [paths.map(code).join(", "), type, about]);
}

function wordsOf(fields: readonly RunField[], prefix = ""): [path: string, about: string][] {
  return fields.flatMap(({ json, about, fields, list }): [string, string][] =>
    json === undefined ? [] : [
      ...(about === undefined ? [] : [[prefix + json, about] as [string, string]]),
      ...wordsOf(fields ?? [], `${prefix}${json}${list ? "[]" : ""}.`),
    ]
  );
}

const OF_RUNS: Record<string, string> = {
  ...Object.fromEntries(wordsOf(RUN_FIELDS)),
  values:
    "of `list -c param.…` or `-c metric.…`: the value of each such column, null if the run has none",
};
const RUN_WORDS: Record<string, Record<string, string>> = {
  Run: OF_RUNS,
  RunDetail: OF_RUNS,
  ShownRun: { ...OF_RUNS },
};

// ---- types

const nameOf = (schema: unknown) =>
  Object.entries(SHAPES).find(([, shape]) => shape === schema)?.[0];

function words(values: readonly string[]): string {
  const all = values.map((value) => code(value));
  return all.length === 1 ? all[0]! : `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`;
}

function typeOf(schema: z.ZodType, path: string): string {
  if (schema instanceof z.ZodOptional) {
    return `${typeOf(schema.unwrap() as z.ZodType, path)}, optional`;
  }
  if (schema instanceof z.ZodNullable) {
    const inner = typeOf(schema.unwrap() as z.ZodType, path);
    return inner.includes("`") ? `${inner}, or null` : `${inner} or null`;
  }
  if (schema === (SHAPES.Run.shape as Record<string, z.ZodType>).state && path !== "state") {
    return "as `state`";
  }
  if (schema instanceof z.ZodEnum) return words(schema.options.map(String));
  if (schema instanceof z.ZodArray) {
    const item = schema.element as z.ZodType;
    const name = nameOf(item);
    if (name !== undefined) return `list of [${code(name)}](#${name.toLowerCase()})`;
    return item instanceof z.ZodObject ? "list of objects" : `list of ${typeOf(item, path)}`;
  }
  if (schema instanceof z.ZodRecord) {
    return `${typeOf(schema.valueType as z.ZodType, path)} by name`;
  }
  if (schema instanceof z.ZodUnion) {
    return schema.options.map((option) => typeOf(option as z.ZodType, path)).join(", or ");
  }
  if (schema instanceof z.ZodLiteral) return words([...schema.values].map(String));
  if (schema instanceof z.ZodObject) return "object";
  if (schema instanceof z.ZodISODateTime) return "time";
  if (schema instanceof z.ZodString) return "text";
  if (schema instanceof z.ZodNumberFormat) return "integer";
  if (schema instanceof z.ZodNumber) return "number";
  if (schema instanceof z.ZodBoolean) return "boolean";
  if (schema instanceof z.ZodUnknown) return "any JSON";
  throw new Error(`${path}: the docs have no word for a ${schema.def.type}`);
}

/**
 * Every field with its type; those of objects inside by their paths, unless the object is a shape
 * of its own.
 */
function* fieldsOf(schema: z.ZodObject, prefix = ""): Generator<[string, string]> {
  for (const [name, field] of Object.entries(schema.shape) as [string, z.ZodType][]) {
    const path = `${prefix}${name}`;
    yield [path, typeOf(field, path)];
    let inner = field;
    let suffix = "";
    while (inner instanceof z.ZodNullable || inner instanceof z.ZodOptional) {
      inner = inner.unwrap() as z.ZodType;
    }
    if (inner instanceof z.ZodArray) [inner, suffix] = [inner.element as z.ZodType, "[]"];
    if (inner instanceof z.ZodObject && nameOf(inner) === undefined) {
      yield* fieldsOf(inner, `${path}${suffix}.`);
    }
  }
}
