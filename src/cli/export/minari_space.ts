/**
 * Gymnasium's spaces in the form of Minari 0.5 (minari/serialization.py): their JSON, the Parquet
 * columns that Minari's reader expects of each, and a worker's values as cells of those columns.
 */
import type { schemaFromColumnData } from "hyparquet-writer";
import { MosaicError } from "../../base/errors.ts";

type SchemaElement = ReturnType<typeof schemaFromColumnData>[number];

/** Without bounds, which change no column. */
export type Space =
  | { type: "numbers"; dtype: string; shape: number[] }
  | { type: "Discrete" }
  | { type: "Text" }
  | { type: "Dict"; of: [name: string, space: Space][] };

/** A step's value does not match its space. */
export class NotInSpace extends Error {}

const SCALARS: Record<
  string,
  { type: "BOOLEAN" | "INT32" | "INT64" | "FLOAT" | "DOUBLE"; converted?: string }
> = {
  float64: { type: "DOUBLE" },
  float32: { type: "FLOAT" },
  float16: { type: "FLOAT" },
  int64: { type: "INT64" },
  int32: { type: "INT32" },
  int16: { type: "INT32", converted: "INT_16" },
  int8: { type: "INT32", converted: "INT_8" },
  uint64: { type: "INT64", converted: "UINT_64" },
  uint32: { type: "INT64" },
  uint16: { type: "INT32", converted: "UINT_16" },
  uint8: { type: "INT32", converted: "UINT_8" },
  bool: { type: "BOOLEAN" },
};

/**
 * @param json as written by Minari and Python, with NaN and Infinity
 * @param what names it in errors
 * @throws MosaicError if a Minari data set cannot hold the space
 */
export function readSpace(json: string, what: string): Space {
  const invalid = (why: string) =>
    new MosaicError("invalid_argument", `${what} is not a space: ${why}`, {
      hint:
        `Give it as Minari writes spaces, such as '{"type":"Discrete","dtype":"int64","start":0,"n":2}'.`,
    });
  let given: unknown;
  try {
    // Bounds may be infinite, which JSON does not have; they are not needed here.
    given = JSON.parse(
      json.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (it) => it.startsWith('"') ? it : "null"),
    );
  } catch (error) {
    throw invalid((error as Error).message);
  }
  const read = (value: unknown): Space => {
    if (typeof value !== "object" || value === null) {
      throw invalid(`${JSON.stringify(value)} is no object with a type`);
    }
    const { type, dtype, shape, nvec, n, subspaces, low, high } = value as Record<string, unknown>;
    switch (type) {
      case "Box": {
        if (!Array.isArray(shape)) throw invalid("a Box needs a shape, a list of lengths");
        if (low === undefined || high === undefined) throw invalid("a Box needs low and high");
        if (dtype === "uint8" && shape.length >= 2 && shape[0] >= 32 && shape[1] >= 32) {
          throw new MosaicError(
            "failed_precondition",
            `${what} is of images (${shape.join("×")} bytes)`,
            {
              hint:
                "Minari keeps images as JPEG, which mosaic does not write. Record other observations.",
            },
          );
        }
        return numbers(dtype, shape);
      }
      case "MultiDiscrete":
        return numbers(dtype ?? "int64", shapeOf(nvec));
      case "MultiBinary":
        return numbers("int8", Array.isArray(n) ? n : [n]);
      case "Discrete":
        return { type };
      case "Text":
        return { type };
      case "Dict":
      case "Tuple":
        if (typeof subspaces !== "object" || subspaces === null) {
          throw invalid(`a ${type} needs subspaces`);
        }
        return {
          type: "Dict",
          of: Object.entries(subspaces).map(([name, space]) => [name, read(space)]),
        };
      default:
        throw invalid(
          `its type is ${
            JSON.stringify(type)
          }; it must be Box, Discrete, MultiDiscrete, MultiBinary, Text, Dict or Tuple`,
        );
    }
  };
  const numbers = (dtype: unknown, shape: unknown[]): Space => {
    if (typeof dtype !== "string" || SCALARS[dtype] === undefined) {
      throw invalid(`its dtype is ${JSON.stringify(dtype)}`);
    }
    if (!shape.every(Number.isSafeInteger)) throw invalid(`its shape is ${JSON.stringify(shape)}`);
    return { type: "numbers", dtype, shape: shape as number[] };
  };
  return read(given);
}

function shapeOf(value: unknown): number[] {
  return Array.isArray(value) ? [value.length, ...shapeOf(value[0])] : [];
}

/** The Parquet columns of a space, under `name`. */
export function schemaOf(space: Space, name: string): SchemaElement[] {
  const repetition_type = "REQUIRED" as const;
  switch (space.type) {
    case "Discrete":
      return [{ name, type: "INT64", repetition_type }];
    case "Text":
      return [{ name, type: "BYTE_ARRAY", converted_type: "UTF8", repetition_type }];
    case "numbers": {
      const { type, converted } = SCALARS[space.dtype]!;
      return [
        { name, repetition_type, num_children: 1, converted_type: "LIST" },
        { name: "list", repetition_type: "REPEATED", num_children: 1 },
        {
          name: "element",
          type,
          repetition_type,
          ...(converted === undefined ? {} : { converted_type: converted as "INT_8" }),
        },
      ];
    }
    case "Dict":
      return [
        { name, repetition_type, num_children: space.of.length },
        ...space.of.flatMap(([name, inner]) => schemaOf(inner, name)),
      ];
  }
}

/** The cell of a value. @throws NotInSpace */
export function cellOf(space: Space, value: unknown): unknown {
  switch (space.type) {
    case "Discrete":
      return scalar("int64", value);
    case "Text":
      if (typeof value !== "string") throw new NotInSpace(`${short(value)} is no text`);
      return value;
    case "numbers": {
      const { dtype, shape } = space;
      const cells: unknown[] = [];
      const flatten = (value: unknown, depth: number) => {
        if (depth === shape.length) return void cells.push(scalar(dtype, value));
        if (!Array.isArray(value) || value.length !== shape[depth]) {
          throw new NotInSpace(`${short(value)} does not have the shape (${shape.join(", ")})`);
        }
        for (const inner of value) flatten(inner, depth + 1);
      };
      flatten(value, 0);
      return cells;
    }
    case "Dict": {
      if (typeof value !== "object" || value === null) {
        throw new NotInSpace(`${short(value)} is no object`);
      }
      const fields = value as Record<string, unknown>;
      return Object.fromEntries(space.of.map(([name, inner]) => {
        if (!(name in fields)) {
          throw new NotInSpace(`${short(value)} has no ${JSON.stringify(name)}`);
        }
        return [name, cellOf(inner, fields[name])];
      }));
    }
  }
}

function scalar(dtype: string, given: unknown): unknown {
  const { type } = SCALARS[dtype]!;
  // Many libraries write an action as an array of one element.
  const value = Array.isArray(given) && given.length === 1 ? given[0] : given;
  if (type === "BOOLEAN" && (typeof value === "boolean" || value === 0 || value === 1)) {
    return Boolean(value);
  }
  if (type === "FLOAT" || type === "DOUBLE") {
    if (typeof value === "number") return value;
    if (value === null) return NaN;
  }
  const whole = typeof value === "boolean" ? Number(value) : value;
  if (type === "INT32" && Number.isSafeInteger(whole)) return whole;
  if (type === "INT64" && Number.isSafeInteger(whole)) return BigInt(whole as number);
  throw new NotInSpace(`${short(value)} is no ${dtype}`);
}

/** The cell in the last row, which has an observation and no action. */
export function emptyCell(space: Space): unknown {
  switch (space.type) {
    case "Discrete":
      return 0n;
    case "Text":
      return "";
    case "numbers": {
      const { type } = SCALARS[space.dtype]!;
      const zero: unknown = type === "BOOLEAN" ? false : type === "INT64" ? 0n : 0;
      return new Array(space.shape.reduce((a, b) => a * b, 1)).fill(zero);
    }
    case "Dict":
      return Object.fromEntries(space.of.map(([name, inner]) => [name, emptyCell(inner)]));
  }
}

/** Derives a space from the values, if none was given. */
export class SeenSpace {
  #lowest = Infinity;
  #highest = -Infinity;
  #whole = true;
  #shape: number[] | undefined;

  /** @throws NotInSpace if no space contains this value and the earlier ones */
  add(value: unknown): void {
    const shape = shapeOf(value);
    this.#shape ??= shape;
    if (String(shape) !== String(this.#shape)) {
      throw new NotInSpace(
        `${short(value)} has the shape (${shape}), earlier ones (${this.#shape})`,
      );
    }
    const flat: unknown[] = Array.isArray(value) ? value.flat(Infinity) : [value];
    if (
      flat.length !== shape.reduce((a, b) => a * b, 1) ||
      flat.some((it) => typeof it !== "number" && it !== null)
    ) {
      throw new NotInSpace(`${short(value)} is no number and no array of numbers`);
    }
    if (shape.length > 0) return;
    if (!Number.isSafeInteger(value)) this.#whole = false;
    this.#lowest = Math.min(this.#lowest, value as number);
    this.#highest = Math.max(this.#highest, value as number);
  }

  /** In Minari's form: single integers are discrete, all others unbounded doubles. */
  get json(): string {
    const shape = this.#shape ?? [];
    if (shape.length === 0 && this.#whole) {
      const start = Math.min(0, this.#lowest);
      return JSON.stringify({
        type: "Discrete",
        dtype: "int64",
        start,
        n: this.#highest - start + 1,
      });
    }
    const filled = (bound: string, depth = 0): string =>
      depth === shape.length
        ? bound
        : `[${new Array(shape[depth]).fill(filled(bound, depth + 1)).join(", ")}]`;
    return `{"type": "Box", "dtype": "float64", "shape": [${shape}], "low": ${
      filled("-Infinity")
    }, ` +
      `"high": ${filled("Infinity")}}`;
  }
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= 80 ? text : `${text.slice(0, 79)}…`;
}
