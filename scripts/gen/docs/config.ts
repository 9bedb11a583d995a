/** The tables of a config's fields in docs/reference/configuration.md, from its schema. */
import { publishedSchema } from "../../../src/config/schema.ts";
import { code, table, withLinks } from "./markdown.ts";

interface Schema {
  $ref?: string;
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: unknown;
  anyOf?: Schema[];
  enum?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  maxLength?: number;
  minLength?: number;
}

const PUBLISHED = publishedSchema() as unknown as Schema & {
  $defs: Record<string, Schema>;
};
const FLAT = PUBLISHED.anyOf![0]!;
const HEAD = ["Field", "Type, bounds, default", ""];
/** Objects whose fields have a table of their own. */
const APART = "metadata";

/** @returns the fields of the flat shape, those of `metadata` in a second table */
export function configFields(): string {
  const { [APART]: metadata, ...others } = FLAT.properties!;
  const flat = {
    ...FLAT,
    properties: { ...others, [APART]: { ...whole(metadata!), properties: {} } },
  };
  return `${table(HEAD, rows(flat))}\n### metadata\n\n${table(HEAD, rows(whole(metadata!)))}`;
}

function whole(schema: Schema): Schema {
  const name = schema.$ref?.replace("#/$defs/", "");
  const own = name === undefined ? schema : { ...PUBLISHED.$defs[name], ...schema };
  // `nullish` fields: the original writes null for absent values.
  const some = own.anyOf?.filter(({ type }) => type !== "null") ?? [];
  if (some.length !== 1) return own;
  const only = whole(some[0]!);
  return { ...only, ...own, anyOf: only.anyOf };
}

/** Objects, also those that are one of several forms. */
const objectsOf = (schema: Schema): Schema[] =>
  [schema, ...schema.anyOf?.map(whole) ?? []].filter(({ properties }) => properties !== undefined);

function rows(object: Schema, prefix = ""): string[][] {
  return Object.entries(object.properties ?? {}).flatMap(([name, given]) => {
    const field = whole(given);
    const item = whole(field.items ?? {});
    const [meaning, byDefault] = meaningOf(field.description ?? "");
    const required = object.required?.includes(name) ? "*" : "";
    return [
      [
        code(prefix + name) + required,
        typeOf(field) + (byDefault === "" ? "" : `; default: ${withLinks(byDefault)}`),
        withLinks(meaning),
      ],
      ...objectsOf(field).flatMap((one) => rows(one, `${prefix}${name}.`)),
      // The form of a stored config, of artifacts that were found, is not for people.
      ...name === "uses" ? [] : objectsOf(item).flatMap((one) => rows(one, `${prefix}${name}[].`)),
    ];
  });
}

/** A description ends with what is the default. */
function meaningOf(description: string): [meaning: string, byDefault: string] {
  const [, meaning = description, byDefault = ""] =
    /^(?:(.*?)[;.] )?[Dd]efault:? (.*)$/.exec(description) ?? [];
  const own = byDefault !== "" && meaning === description ? "" : meaning;
  return [lower(withoutPoint(own)), withoutPoint(byDefault)];
}

const withoutPoint = (text: string) => text.replace(/\.$/, "");
const lower = (text: string) =>
  text.replace(/^(?!MiB|Python)[A-Z](?=[a-z ])/, (letter) => letter.toLowerCase());

function typeOf(schema: Schema): string {
  if (schema.anyOf !== undefined) {
    return [...new Set(schema.anyOf.map((one) => typeOf(whole(one))))].join(", ");
  }
  if (schema.enum !== undefined) return schema.enum.map((one) => code(`"${one}"`)).join(", ");
  const type = [schema.type ?? []].flat().find((one) => one !== "null");
  if (type === "array") return `list of ${typeOf(whole(schema.items!))}`;
  if (type === "string" && schema.maxLength !== undefined) {
    return `string of ${schema.minLength ?? 0} to ${schema.maxLength} characters`;
  }
  if (type !== "integer" && type !== "number") return type ?? "any";
  const { minimum, exclusiveMinimum: above, exclusiveMaximum: below } = schema;
  const most = schema.maximum === Number.MAX_SAFE_INTEGER ? undefined : schema.maximum;
  if (minimum !== undefined && most !== undefined) return `${type} ${minimum} to ${most}`;
  if (above !== undefined && below !== undefined) return `${type} between ${above} and ${below}`;
  if (minimum !== undefined) return `${type} ≥ ${minimum}`;
  return above === undefined ? type : `${type} > ${above}`;
}
