/**
 * Compiles a subset of JSON Schema to closures, with which the proxy checks a run's records line by
 * line. A record that violates a rule is counted under the rule's name and still stored: a check
 * must never lose data.
 */

/** The supported keywords; `compileSchema` reports any other, which has no effect. */
export interface JsonSchema {
  type?: string | string[];
  required?: string[];
  properties?: Record<string, JsonSchema>;
  enum?: unknown[];
  const?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  items?: JsonSchema;
}

/**
 * Makes the test of a `pattern`, in time linear in the text (patterns.ts). @throws for a pattern
 * that it does not know
 */
export type CompilePattern = (pattern: string) => (text: string) => boolean;

/** Appends the names of the violated rules, such as `reward: type`. */
type Check = (value: unknown, broken: string[]) => void;

const SILENT = new Set([
  "$schema",
  "$id",
  "title",
  "description",
  "default",
  "examples",
  "$comment",
]);

function typeMatches(type: string, value: unknown): boolean {
  switch (type) {
    case "number":
      return typeof value === "number";
    case "integer":
      return typeof value === "number" && Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "null":
      return value === null;
    case "string":
      return typeof value === "string";
    default:
      return typeof value === "boolean" && type === "boolean";
  }
}

/** @param unsupported receives the keywords without effect, as `path.keyword`. */
export function compileSchema(
  schema: JsonSchema,
  path: string,
  unsupported: string[],
  compilePattern: CompilePattern | undefined,
  read: (record: Record<string, unknown>, name: string) => unknown = (record, name) => record[name],
): Check {
  const checks: Check[] = [];
  const prefix = path === "" ? "" : `${path}: `;
  const rule = (name: string, holds: (value: unknown) => boolean) => {
    const text = prefix + name;
    checks.push((value, broken) => {
      if (!holds(value)) broken.push(text);
    });
  };
  for (const [keyword, bound] of Object.entries(schema)) {
    const limit = bound as number;
    switch (keyword) {
      case "type": {
        const types = Array.isArray(bound) ? bound as string[] : [bound as string];
        if (types.length === 1) rule("type", (value) => typeMatches(types[0]!, value));
        else rule("type", (value) => types.some((type) => typeMatches(type, value)));
        break;
      }
      case "enum":
        rule("enum", (value) => (bound as unknown[]).some((one) => same(one, value)));
        break;
      case "const":
        rule("const", (value) => same(bound, value));
        break;
      case "minimum":
        rule(keyword, (value) => typeof value !== "number" || value >= limit);
        break;
      case "maximum":
        rule(keyword, (value) => typeof value !== "number" || value <= limit);
        break;
      case "exclusiveMinimum":
        rule(keyword, (value) => typeof value !== "number" || value > limit);
        break;
      case "exclusiveMaximum":
        rule(keyword, (value) => typeof value !== "number" || value < limit);
        break;
      case "minLength":
        rule(keyword, (value) => typeof value !== "string" || value.length >= limit);
        break;
      case "maxLength":
        rule(keyword, (value) => typeof value !== "string" || value.length <= limit);
        break;
      case "minItems":
        rule(keyword, (value) => !Array.isArray(value) || value.length >= limit);
        break;
      case "maxItems":
        rule(keyword, (value) => !Array.isArray(value) || value.length <= limit);
        break;
      case "pattern": {
        if (compilePattern === undefined) throw new Error("patterns are not loaded");
        const matches = compilePattern(bound as string);
        // Identifiers are short.
        rule(keyword, (value) => typeof value !== "string" || value.length > 256 || matches(value));
        break;
      }
      case "items": {
        const check = compileSchema(bound as JsonSchema, `${path}[]`, unsupported, compilePattern);
        checks.push((value, broken) => {
          if (!Array.isArray(value)) return;
          const before = broken.length;
          // Report one bad item only: an image of bad pixels must not give a thousand reports.
          for (let i = 0; i < value.length && broken.length === before; i++) {
            check(value[i], broken);
          }
        });
        break;
      }
      case "required":
      case "properties":
        break;
      default:
        if (!SILENT.has(keyword)) unsupported.push(path === "" ? keyword : `${path}.${keyword}`);
    }
  }
  const required = new Set(schema.required ?? []);
  for (const name of new Set([...required, ...Object.keys(schema.properties ?? {})])) {
    const inner = path === "" ? name : `${path}.${name}`;
    const check = compileSchema(
      schema.properties?.[name] ?? {},
      inner,
      unsupported,
      compilePattern,
    );
    const missing = required.has(name) ? `${inner}: required` : undefined;
    checks.push((value, broken) => {
      if (typeof value !== "object" || value === null) return;
      const field = read(value as Record<string, unknown>, name);
      if (field !== undefined) check(field, broken);
      else if (missing !== undefined) broken.push(missing);
    });
  }
  return (value, broken) => {
    for (let i = 0; i < checks.length; i++) checks[i]!(value, broken);
  };
}

function same(a: unknown, b: unknown): boolean {
  return a === b || (typeof a === "object" && JSON.stringify(a) === JSON.stringify(b));
}
