/**
 * Builds the check that the proxy applies to each record, from a config's schema_id and
 * schema_definition.
 */
import { parsedJson } from "../../base/text/json_text.ts";
import type { RecordCheck } from "../lines/parsed_line.ts";
import { RECORDS } from "../../records/record_fields.ts";
import { builtinSchema, builtinSchemaIds, type TelemetrySchema } from "./builtin.ts";
import { type CompilePattern, compileSchema, type JsonSchema } from "./compile.ts";

export interface TelemetryValidator {
  /** Name of the schema, such as `telemetry.step.default@1`. */
  name: string;
  check: RecordCheck;
  /** Requested parts without effect: unknown ids and keywords, for the proxy's log. */
  notes: string[];
}

/**
 * Names under which the dialects write the same field: a schema may use any of them. Texts that
 * contain JSON (`action_json`) satisfy "required" and are otherwise not checked.
 */
const FIELDS = [...RECORDS.steps.fields, ...RECORDS.episodes.fields];
const SAME: readonly string[][] = [
  ["episode", "episode_index", "episode_id", "episode_number"],
  ["timestamp", "ts", "ts_unix_ns"],
  ...FIELDS.flatMap(({ names, read }) =>
    names === undefined || read === "episode" ? [] : [[...names]]
  ),
];
const ENCODED = [...new Set(FIELDS.filter(({ kind }) => kind === "json").map(({ json }) => json))];
const aliases = new Map(SAME.flatMap((names) => names.map((name) => [name, names] as const)));
const encoded = new Map(ENCODED.map((name) => [name, `${name}_json`]));

/** An episode's `reward` may be its total; a step's is only itself. */
function readField(
  kind: "step" | "episode",
): (record: Record<string, unknown>, name: string) => unknown {
  return (record, name) => {
    const value = record[name];
    if (value !== undefined) return value;
    if (name !== "reward" || kind === "episode") {
      for (const other of aliases.get(name) ?? []) {
        const same = record[other];
        // An id, or a number that counts from 1, is not the index itself: only its presence is
        // checked.
        if (same !== undefined) {
          return other === "episode_id" || other === "episode_number" ? 0 : same;
        }
      }
    }
    const text = encoded.get(name);
    return text !== undefined && typeof record[text] === "string"
      ? parsed(record[text])
      : undefined;
  };
}

function parsed(text: string): unknown {
  try {
    return parsedJson(text);
  } catch {
    return text;
  }
}

const NONE: readonly string[] = [];

function compile(schema: TelemetrySchema, notes: string[], patterns?: CompilePattern): RecordCheck {
  const step = schema.step && compileSchema(schema.step, "", notes, patterns, readField("step"));
  const episode = schema.episode &&
    compileSchema(schema.episode, "", notes, patterns, readField("episode"));
  let broken: string[] = [];
  return (kind, record) => {
    const check = kind === "step" ? step : episode;
    if (check === undefined) return NONE;
    check(record, broken);
    if (broken.length === 0) return NONE;
    const rules = broken;
    broken = [];
    return rules;
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * An inline definition is `{step?, episode?, version?}` with a JSON Schema for each, or one JSON
 * Schema for steps.
 */
function inlineSchema(id: string, definition: Record<string, unknown>): TelemetrySchema {
  const version = typeof definition.version === "number" ? definition.version : 1;
  const name = id === "" ? "inline" : id;
  if (isObject(definition.step) || isObject(definition.episode)) {
    return {
      id: name,
      version,
      step: definition.step as JsonSchema | undefined,
      episode: definition.episode as JsonSchema | undefined,
    };
  }
  const { version: _, id: __, ...schema } = definition;
  return { id: name, version, step: schema as JsonSchema };
}

/** What a config says. */
export interface SchemaChoice {
  id: string;
  definition: unknown;
}

/** Whether `telemetryValidator` needs patterns.ts. */
export function hasPattern(choice: SchemaChoice | null): boolean {
  return JSON.stringify(choice?.definition ?? null).includes('"pattern"');
}

/**
 * @param choice null, or neither id nor definition: checks nothing.
 * @param patterns needed for a choice that `hasPattern`
 * @returns undefined if nothing is to be checked.
 */
export function telemetryValidator(
  choice: SchemaChoice | null,
  patterns?: CompilePattern,
): TelemetryValidator | undefined {
  if (choice === null) return undefined;
  const notes: string[] = [];
  if (isObject(choice.definition) && Object.keys(choice.definition).length > 0) {
    const schema = inlineSchema(choice.id, choice.definition);
    try {
      const unsupported: string[] = [];
      const check = compile(schema, unsupported, patterns);
      for (const keyword of unsupported) {
        notes.push(`schema_definition: ${keyword} is not supported and not checked`);
      }
      return { name: `${schema.id}@${schema.version}`, check, notes };
    } catch (error) {
      notes.push(
        `schema_definition cannot be used: ${error instanceof Error ? error.message : error}`,
      );
    }
  }
  if (choice.id === "") {
    return notes.length === 0 ? undefined : { name: "none", check: () => NONE, notes };
  }
  const schema = builtinSchema(choice.id);
  if (schema === undefined) {
    // Workers may name schemas of their own (`cleanrl.ppo`): that is no mistake, but mosaic does
    // not know them.
    notes.push(
      `schema_id ${choice.id} is not built in (known: ${
        builtinSchemaIds().join(", ")
      }); nothing is checked`,
    );
    return { name: choice.id, check: () => NONE, notes };
  }
  return { name: `${schema.id}@${schema.version}`, check: compile(schema, notes), notes };
}
