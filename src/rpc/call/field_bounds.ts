/** Compares each received message with the bounds of its fields (src/base/field_limits.ts). */
import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import {
  bytesOfText,
  DEFAULT_LIMITS,
  FIELD_LIMITS,
  type FieldLimit,
  isLonger,
} from "../../base/field_limits.ts";
import { MosaicError } from "../../base/errors.ts";

type Fields = Record<string, unknown>;
type Check = (message: Fields) => void;

/** The bound of a field; undefined if it has no size of its own: a number, a flag, one message. */
export function limitOf(field: DescField): FieldLimit | undefined {
  const kind = field.fieldKind === "scalar"
    ? field.scalar === ScalarType.STRING
      ? "string"
      : field.scalar === ScalarType.BYTES
      ? "bytes"
      : undefined
    : field.fieldKind === "list" || field.fieldKind === "map"
    ? field.fieldKind
    : undefined;
  if (kind === undefined) return undefined;
  const limit = FIELD_LIMITS[`${field.parent.typeName}.${field.name}`] ?? DEFAULT_LIMITS[kind];
  return kind === "list" || kind === "map"
    ? { entries: DEFAULT_LIMITS[kind].entries, ...limit }
    : limit;
}

/** One list of checks per type, because a worker sends many thousand messages a second. */
const checks = new Map<DescMessage, Check[]>();

/**
 * @throws MosaicError `invalid_argument` naming the first field beyond its bound, its size and the
 * bound
 */
export function requireBounds(schema: DescMessage, message: unknown): void {
  let known = checks.get(schema);
  if (known === undefined) {
    checks.set(schema, known = []);
    for (const field of schema.fields) known.push(checkOf(field));
  }
  for (const check of known) check(message as Fields);
}

function checkOf(field: DescField): Check {
  const read = readerOf(field);
  const limit = limitOf(field);
  if (field.fieldKind === "message") {
    return (message) => {
      const value = read(message);
      if (value !== undefined) requireBounds(field.message, value);
    };
  }
  if (limit === undefined) return () => {};
  if (field.fieldKind === "scalar") {
    return (message) => {
      const value = read(message) as string | Uint8Array | undefined;
      if (value === undefined) return;
      if (typeof value !== "string") {
        if (value.length > limit.bytes) {
          throw beyond(field, `${value.length} bytes`, `${limit.bytes} bytes`);
        }
      } else if (isLonger(value, limit.bytes)) {
        throw beyond(field, `${bytesOfText(value)} bytes`, `${limit.bytes} bytes`);
      }
    };
  }
  const inner = field.fieldKind === "list" || field.fieldKind === "map" ? field.message : undefined;
  return (message) => {
    const value = read(message) as unknown[] | Fields;
    const isList = Array.isArray(value);
    const entries = isList ? value : Object.values(value);
    if (entries.length > limit.entries!) {
      throw beyond(field, `${entries.length} entries`, `${limit.entries} entries`);
    }
    let bytes = 0;
    for (const entry of entries) bytes += sizeOf(entry);
    if (!isList) { for (const key of Object.keys(value)) bytes += sizeOf(key); }
    if (bytes > limit.bytes) throw beyond(field, `${bytes} bytes`, `${limit.bytes} bytes`);
    if (inner !== undefined) { for (const entry of entries) requireBounds(inner, entry); }
  };
}

/** Of a text or of bytes; the fields of a message have bounds of their own. */
function sizeOf(entry: unknown): number {
  return typeof entry === "string"
    ? bytesOfText(entry)
    : entry instanceof Uint8Array
    ? entry.length
    : 0;
}

function readerOf({ localName, oneof }: DescField): (message: Fields) => unknown {
  if (oneof === undefined) return (message) => message[localName];
  const group = oneof.localName;
  return (message) => {
    const { case: chosen, value } = message[group] as { case: string | undefined; value?: unknown };
    return chosen === localName ? value : undefined;
  };
}

function beyond({ name, parent }: DescField, size: string, most: string): MosaicError {
  return new MosaicError(
    "invalid_argument",
    `${name} of ${parent.typeName} has ${size}; the bound is ${most}`,
    {
      hint: "Send less in this field: every reader of the run would carry it.",
    },
  );
}
