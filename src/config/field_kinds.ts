/**
 * The building blocks of the config schema: each describes the expected value, for the list of
 * violations.
 */
import * as z from "zod";

/**
 * Creates a schema at its first use: creating all of them takes long, and a daemon that starts has
 * no config to check.
 */
export function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => made ??= make();
}

/** At most 60 characters of a value, for a message. */
export function shown(value: unknown): string {
  if (typeof value === "number") return String(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`;
}

/** An error function for zod that says what is expected and what was found. */
function expects(what: string): { error: (issue: { input?: unknown }) => string } {
  return {
    error: ({ input }) =>
      input === undefined
        ? `is missing; it must be ${what}`
        : `must be ${what}, not ${shown(input)}`,
  };
}

export function integer(least: number, most: number = Number.MAX_SAFE_INTEGER) {
  const what = most === Number.MAX_SAFE_INTEGER
    ? `an integer of at least ${least}`
    : `an integer from ${least} to ${most}`;
  return z.int(expects(what)).min(least, expects(what)).max(most, expects(what));
}

/** A number of seconds (or the like) above, or not below, a bound. */
export function quantity(unit: string, bound: { above: number } | { least: number }) {
  return "above" in bound
    ? z.number(expects(`a number of ${unit} above ${bound.above}`)).gt(
      bound.above,
      expects(`a number of ${unit} above ${bound.above}`),
    )
    : z.number(expects(`a number of ${unit} of at least ${bound.least}`)).min(
      bound.least,
      expects(`a number of ${unit} of at least ${bound.least}`),
    );
}

export function flag() {
  return z.boolean(expects("true or false"));
}

export function text(what = "a string") {
  return z.string(expects(what));
}

/** A non-empty string; `most` counts characters (code points), as JSON Schema does. */
export function filledText(most?: number) {
  const what = most === undefined ? "a non-empty string" : `a string of 1 to ${most} characters`;
  const base = z.string(expects(what)).min(1, expects(what));
  if (most === undefined) return base;
  return base.refine((value) => [...value].length <= most, expects(what)).meta({ maxLength: most });
}

/** A string that matches the pattern, which is part of the published schema. */
export function matching(pattern: RegExp, what: string) {
  return z.string(expects(what)).regex(pattern, expects(what));
}

/**
 * Text that can be an argument or an environment value: without NUL, at which the kernel would cut
 * it.
 */
export function argument() {
  // deno-lint-ignore no-control-regex
  return text().regex(/^[^\u0000]*$/u, { error: "must not hold a NUL character" });
}

export function oneOf<const T extends readonly string[]>(values: T) {
  return z.enum(values, expects(`one of ${values.map((v) => `"${v}"`).join(", ")}`));
}

export function list<T extends z.ZodType>(item: T, what: string) {
  return z.array(item, expects(`an array of ${what}`));
}

/** An object that rejects unknown keys. */
export function closed<T extends z.ZodRawShape>(shape: T) {
  return z.strictObject(shape, expects(`an object with ${Object.keys(shape).join(", ")}`));
}

/** An object that checks its known keys and accepts any others. */
export function open<T extends z.ZodRawShape>(shape: T) {
  return z.looseObject(shape, expects("an object"));
}

export function record<T extends z.ZodType>(key: z.ZodString, value: T, what: string) {
  return z.record(key, value, expects(what));
}

export function anyObject() {
  return z.record(z.string(), z.unknown(), expects("an object"));
}

export function either<T extends readonly [z.ZodType, ...z.ZodType[]]>(what: string, options: T) {
  return z.union(options, expects(what));
}
