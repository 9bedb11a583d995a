/** Objects of a table of fields as JSON and as messages. Pure. */
import type { Timestamp } from "@bufbuild/protobuf/wkt";
import { rawJson } from "../../base/text/json_text.ts";
import type { ProcessRef } from "../../os/processes/identity.ts";
import { propertyOf, type RunField, type RunFieldKind } from "./run_fields.ts";

export type Properties = Record<string, unknown>;

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
  integer: {
    empty: 0,
    json: same,
    message: (n: number, wide) => wide ? BigInt(n) : n,
    parsed: Number,
  },
  number: { empty: 0, json: same, message: same, parsed: same },
  flag: { empty: false, json: isSet, message: isSet, parsed: same },
  time: {
    empty: "",
    json: isoOf,
    message: (ms: number) => {
      const seconds = Math.floor(ms / 1000);
      return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
    },
    parsed: (at: Timestamp) => isoOf(timeMs(at)!),
  },
  texts,
  integers: texts,
  numbers: texts,
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

/** null for a time that no calendar has: a row may be damaged. */
function isoOf(ms: number): string | null {
  const at = new Date(ms);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

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

/** A row of a table, prepared for many objects. */
interface Prepared {
  json: string;
  message: string;
  read(parent: Properties, root: Properties): unknown;
  jsonOf(value: unknown, root: Properties): unknown;
  messageOf(value: unknown, root: Properties): unknown;
  parsed(value: unknown): unknown;
}

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
    return (_, { row }) => (row as Properties)[property];
  }
  if (from !== undefined) {
    const path = from.split(".");
    return (_, root) => path.reduce((at: unknown, name) => (at as Properties)[name], root);
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
    messageOf: (value) =>
      value === null || value === undefined ? undefined : message(value as never, wide),
    parsed: (value) => isNone(value) ? none : parsed(value as never),
  };
}

function ofObject({ list, null: where }: RunField, fields: Prepared[]): Conversions {
  const [first] = fields;
  const isNone = (value: unknown, root: Properties) =>
    value === null || (first!.read(value as Properties, root) ?? null) === null;
  const one = (value: unknown): unknown =>
    value === undefined && where === "both"
      ? null
      : parsedObject(fields, (value ?? {}) as Properties);
  if (list) {
    const each = (of: typeof jsonObject) => (values: unknown, root: Properties) =>
      (values as Properties[]).map((value) => of(fields, value, root));
    return {
      jsonOf: each(jsonObject),
      messageOf: each(messageObject),
      parsed: (of) => (of as unknown[]).map(one),
    };
  }
  return {
    jsonOf: (value, root) =>
      isNone(value, root) ? null : jsonObject(fields, value as Properties, root),
    messageOf: (value, root) =>
      isNone(value, root) ? undefined : messageObject(fields, value as Properties, root),
    parsed: one,
  };
}

function jsonObject(fields: readonly Prepared[], parent: Properties, root: Properties): Properties {
  const json: Properties = {};
  for (const field of fields) json[field.json] = field.jsonOf(field.read(parent, root), root);
  return json;
}

function messageObject(
  fields: readonly Prepared[],
  parent: Properties,
  root: Properties,
): Properties {
  const message: Properties = {};
  for (const field of fields) {
    message[field.message] = field.messageOf(field.read(parent, root), root);
  }
  return message;
}

function parsedObject(fields: readonly Prepared[], message: Properties): Properties {
  const json: Properties = {};
  for (const field of fields) json[field.json] = field.parsed(message[field.message]);
  return json;
}

/** What a table makes of the daemon's objects, and of messages. */
export class FieldJson {
  readonly fields: readonly Prepared[];

  constructor(fields: readonly RunField[]) {
    this.fields = prepared(fields);
  }

  /** The JSON of an object of the daemon. */
  json<T>(source: object): T {
    return jsonObject(this.fields, source as Properties, source as Properties) as T;
  }

  /** What creates its message. */
  message(source: object): Properties {
    return messageObject(this.fields, source as Properties, source as Properties);
  }

  /** The same JSON from a message. */
  parsed<T>(message: object): T {
    return parsedObject(this.fields, message as Properties) as T;
  }
}
