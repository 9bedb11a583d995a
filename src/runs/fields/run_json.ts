/** The one JSON of a run, for the command line, the page and exports: from what the daemon knows, and from its messages. */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { rawJson } from "../../base/text/json_text.ts";
import type { Run } from "../../gen/mosaic/v1/mosaic_pb.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { propertyOf, RUN_FIELDS, type RunField, type RunFieldKind } from "./run_fields.ts";
import type { RunDetail, RunDetailJson, RunJson, RunRow, WholeRun } from "./run_types.ts";

type Properties = Record<string, unknown>;

interface Conversion {
  /** Where the value is null and JSON must not be. */
  empty: unknown;
  json(value: never): unknown;
  message(value: never, wide: boolean): unknown;
  /** The JSON of a message's value. */
  parsed(value: never): unknown;
}

const same = <T>(value: T) => value;
const list = <T>(values: readonly T[]) => [...values];
const text: Conversion = { empty: "", json: same, message: same, parsed: same };
const texts: Conversion = { empty: [], json: same, message: same, parsed: list };

const CONVERSIONS: Record<Exclude<RunFieldKind, "object">, Conversion> = {
  text,
  state: text,
  outcome: text,
  phase: text,
  base: text,
  integer: { empty: 0, json: same, message: (n: number, wide) => wide ? BigInt(n) : n, parsed: Number },
  number: { empty: 0, json: same, message: same, parsed: same },
  flag: { empty: false, json: isSet, message: isSet, parsed: same },
  time: {
    empty: "",
    json: (ms: number) => new Date(ms).toISOString(),
    message: (ms: number) => {
      const seconds = Math.floor(ms / 1000);
      return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
    },
    parsed: (at: Timestamp) => new Date(timeMs(at)!).toISOString(),
  },
  texts,
  integers: texts,
  counts: {
    empty: {},
    json: same,
    message: (counts: Record<string, number>) => mapped(counts, BigInt),
    parsed: (counts: Record<string, bigint>) => mapped(counts, Number),
  },
  process: {
    empty: 0,
    json: ({ pid }: ProcessRef) => pid,
    message: ({ pid }: ProcessRef) => BigInt(pid),
    parsed: Number,
  },
  config: { empty: null, json: configOf, message: same, parsed: configOf },
  any: {
    empty: null,
    json: same,
    message: (value: unknown) => JSON.stringify(value),
    parsed: (json: string) => json === "" ? null : JSON.parse(json),
  },
};

/** Unix milliseconds; null if it is not set. */
export function timeMs(at: Timestamp | undefined): number | null {
  return at === undefined ? null : Number(at.seconds) * 1000 + Math.floor(at.nanos / 1e6);
}

/** A time also counts as a flag: it is set, or null. */
function isSet(value: unknown): boolean {
  return value !== null && value !== false;
}

function mapped<A, B>(values: Record<string, A>, of: (value: A) => B): Record<string, B> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, of(value)]));
}

function configOf(json: string): unknown {
  return json === "" ? null : JSON.parse(rawJson(json));
}

/** A row of the table, prepared for many runs. */
interface Prepared {
  json: string;
  message: string;
  single: boolean;
  outline: boolean;
  read(parent: Properties, detail: RunDetail): unknown;
  jsonOf(value: unknown, detail: RunDetail): unknown;
  messageOf(value: unknown, detail: RunDetail): unknown;
  parsed(value: unknown): unknown;
}

const FIELDS = prepared(RUN_FIELDS);
const OF_MANY = FIELDS.filter(({ single }) => !single);
const OF_OUTLINES = FIELDS.filter(({ outline }) => outline);

function prepared(fields: readonly RunField[]): Prepared[] {
  return fields.flatMap((field) =>
    field.json === undefined ? [] : [{
      json: field.json,
      message: propertyOf(field.message ?? field.json),
      single: field.single === true,
      outline: field.outline === true,
      read: reader(field, field.json),
      ...field.fields === undefined ? ofValue(field) : ofObject(field, prepared(field.fields)),
    }]
  );
}

function reader({ column, from }: RunField, json: string): Prepared["read"] {
  if (column !== undefined) {
    const property = propertyOf(column);
    return (_, { row }) => (row as unknown as Properties)[property];
  }
  if (from !== undefined) {
    const path = from.split(".");
    return (_, detail) => path.reduce((at: unknown, name) => (at as Properties)[name], detail);
  }
  const property = propertyOf(json);
  return (parent) => parent[property];
}

type Conversions = Pick<Prepared, "jsonOf" | "messageOf" | "parsed">;

function ofValue({ kind, null: where, type, zero }: RunField): Conversions {
  const { empty, json, message, parsed } = CONVERSIONS[kind as Exclude<RunFieldKind, "object">];
  const wide = type === "uint64";
  const nullable = where === "json" || where === "both";
  const none = nullable ? null : empty;
  const isNone = (value: unknown) =>
    value === null || value === undefined ||
    (nullable && !zero && (value === "" || value === 0 || value === 0n));
  return {
    jsonOf: (value) => isNone(value) ? none : json(value as never),
    messageOf: (value) => value === null || value === undefined ? undefined : message(value as never, wide),
    parsed: (value) => isNone(value) ? none : parsed(value as never),
  };
}

function ofObject({ list, null: where }: RunField, fields: Prepared[]): Conversions {
  const [first] = fields;
  const isNone = (value: unknown, detail: RunDetail) =>
    value === null || (first!.read(value as Properties, detail) ?? null) === null;
  const one = (value: unknown): unknown =>
    value === undefined && where === "both" ? null : parsedObject(fields, (value ?? {}) as Properties);
  if (list) {
    const each = (of: typeof jsonObject) => (values: unknown, detail: RunDetail) =>
      (values as Properties[]).map((value) => of(fields, value, detail));
    return { jsonOf: each(jsonObject), messageOf: each(messageObject), parsed: (of) => (of as unknown[]).map(one) };
  }
  return {
    jsonOf: (value, detail) => isNone(value, detail) ? null : jsonObject(fields, value as Properties, detail),
    messageOf: (value, detail) =>
      isNone(value, detail) ? undefined : messageObject(fields, value as Properties, detail),
    parsed: one,
  };
}

function jsonObject(fields: readonly Prepared[], parent: Properties, detail: RunDetail): Properties {
  const json: Properties = {};
  for (const field of fields) json[field.json] = field.jsonOf(field.read(parent, detail), detail);
  return json;
}

function messageObject(fields: readonly Prepared[], parent: Properties, detail: RunDetail): Properties {
  const message: Properties = {};
  for (const field of fields) message[field.message] = field.messageOf(field.read(parent, detail), detail);
  return message;
}

function parsedObject(fields: readonly Prepared[], message: Properties): Properties {
  const json: Properties = {};
  for (const field of fields) json[field.json] = field.parsed(message[field.message]);
  return json;
}

export function runJson(detail: RunDetail): RunJson {
  return jsonObject(OF_MANY, detail as unknown as Properties, detail) as unknown as RunJson;
}

/** Of a row that has the columns of an outline. */
export function outlineJson(outline: Partial<RunRow>): Partial<RunJson> {
  const detail = { row: outline } as RunDetail;
  return jsonObject(OF_OUTLINES, {}, detail) as Partial<RunJson>;
}

export function runDetailJson(run: WholeRun): RunDetailJson {
  return jsonObject(FIELDS, run as unknown as Properties, run) as unknown as RunDetailJson;
}

/** What creates a message of the run: with the fields of a single run if it has them. */
export function runMessage(detail: RunDetail | WholeRun): Properties {
  return messageObject("transitions" in detail ? FIELDS : OF_MANY, detail as unknown as Properties, detail);
}

export function runJsonOf(message: Run): RunJson {
  return parsedObject(OF_MANY, message as unknown as Properties) as unknown as RunJson;
}

export function runDetailJsonOf(message: Run): RunDetailJson {
  return parsedObject(FIELDS, message as unknown as Properties) as unknown as RunDetailJson;
}
