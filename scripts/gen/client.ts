/**
 * The types of the TypeScript client: `src/os/ts_client/mosaic.ts` has them between two marks, from
 * the messages of the API (proto/) and the records' contract. `src/gen/client/mosaic.js` is the
 * client without its types, for runtimes that need that.
 */
import { z } from "zod";
import config from "../../deno.json" with { type: "json" };
import { Episode, Point, Step, WorkerEvent } from "../../src/registry/contract.ts";

const CLIENT = "src/os/ts_client/mosaic.ts";
const PROTO = "proto/mosaic/v1/mosaic.proto";
const BEGIN = `// Written by "deno task gen" from ${PROTO} and src/registry/contract.ts\n`;
const END = "// End of what is written\n";

/** Messages that the client returns, with their names there; those inside them follow. */
const RETURNED = new Map([["Run", "RunData"], ["SeriesListResponse.Item", "SeriesData"], [
  "Sweep",
  "SweepData",
]]);
const RECORDS: Record<string, z.ZodObject> = { Step, Episode, WorkerEvent, Point };

interface Field {
  name: string;
  type: string;
  form: "one" | "maybe" | "list" | "map";
  about: string;
}

/** Path and text. @param root the checkout, ending with a slash */
export async function clientFile(root: string): Promise<[path: string, text: string]> {
  const text = Deno.readTextFileSync(root + CLIENT);
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`${CLIENT} has no lines ${BEGIN}${END}`);
  const part = typesOf(messagesOf(Deno.readTextFileSync(root + PROTO)));
  return [CLIENT, await formatted(text.slice(0, from + BEGIN.length) + part + text.slice(to))];
}

/** @param root the checkout, ending with a slash */
export async function clientScript(root: string): Promise<[name: string, text: string]> {
  const out = Deno.makeTempFileSync({ suffix: ".js" });
  try {
    const args = [
      "bundle",
      "--lock=dev.lock",
      "--platform=deno",
      "--external=node:*",
      "--quiet",
      `--output=${out}`,
      CLIENT,
    ];
    const bundle = await new Deno.Command(Deno.execPath(), { args, cwd: root }).output();
    if (!bundle.success) {
      throw new Error(`deno bundle ${CLIENT}: ${new TextDecoder().decode(bundle.stderr)}`);
    }
    return ["mosaic.js", Deno.readTextFileSync(out)];
  } finally {
    Deno.removeSync(out);
  }
}

async function formatted(text: string): Promise<string> {
  const format = new Deno.Command(Deno.execPath(), {
    args: ["fmt", `--line-width=${config.fmt.lineWidth}`, "--ext=ts", "-"],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const writer = format.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  const { success, stdout } = await format.output();
  if (!success) throw new Error("deno fmt failed");
  return new TextDecoder().decode(stdout);
}

/** By name; those inside others as Outer.Inner. */
function messagesOf(proto: string): Map<string, Field[]> {
  const messages = new Map<string, Field[]>();
  const open: string[] = [];
  let about: string[] = [];
  for (const line of proto.split("\n").map((text) => text.trim())) {
    const [, message] = /^message (\w+) \{(\})?$/.exec(line) ?? [];
    const field = /^(?:(repeated|optional) )?(map<\w+, (\w+)>|[\w.]+) (\w+) = \d+;$/.exec(line);
    if (line.startsWith("//")) {
      about.push(line.slice(2).trim());
      continue;
    }
    if (message !== undefined) {
      open.push(message);
      messages.set(open.join("."), []);
      if (line.endsWith("}")) open.pop();
    } else if (line === "}") open.pop();
    else if (field !== null && open.length > 0) {
      const [, label, type, valueType, name] = field;
      messages.get(open.join("."))!.push({
        name: name!.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
        type: valueType ?? type!,
        form: valueType !== undefined
          ? "map"
          : label === "repeated"
          ? "list"
          : label === "optional"
          ? "maybe"
          : "one",
        about: about.join(" "),
      });
    }
    about = [];
  }
  return messages;
}

/** How the client reads a field's JSON: "text", "number", "flag", "time", or a message's name. */
function kindOf(type: string): string {
  if (type === "google.protobuf.Timestamp") return "time";
  if (type === "string" || type === "bytes") return "text";
  if (type === "bool") return "flag";
  if (/^(u?int|sint|s?fixed)(32|64)$|^double$|^float$/.test(type)) return "number";
  return RETURNED.get(type) ?? type;
}

const TYPES: Record<string, string> = {
  text: "string",
  number: "number",
  flag: "boolean",
  time: "string | null",
};

function typesOf(messages: ReadonlyMap<string, Field[]>): string {
  const wanted = new Set(RETURNED.keys());
  for (const name of wanted) {
    const fields = messages.get(name);
    if (fields === undefined) throw new Error(`${PROTO} has no message ${name}`);
    for (const { type } of fields) {
      if (TYPES[kindOf(type)] === undefined) {
        wanted.add(messages.has(`${name}.${type}`) ? `${name}.${type}` : type);
      }
    }
  }
  const parts: string[] = [];
  const shapes: string[] = [];
  for (const name of wanted) {
    const shown = RETURNED.get(name) ?? name.replace(".", "");
    const fields = messages.get(name)!;
    parts.push(
      `export interface ${shown} {\n${
        fields.map((field) =>
          `${field.about === "" ? "" : `/** ${field.about} */\n`}${field.name}: ${typeOf(field)};\n`
        ).join("")
      }}\n`,
    );
    shapes.push(
      `${shown}: { ${fields.map((field) => `${field.name}: ${shapeOf(field)}`).join(", ")} }`,
    );
  }
  for (const [name, schema] of Object.entries(RECORDS)) {
    parts.push(`export interface ${name} ${recordType(schema)}\n`);
  }
  return `${parts.join("\n")}\n/** How each field is read. */\nconst SHAPES = {\n${
    shapes.join(",\n")
  }\n} as const satisfies Shapes;\n`;
}

function typeOf({ type, form }: Field): string {
  const one = TYPES[kindOf(type)] ?? kindOf(type);
  if (form === "list") return `${one}[]`;
  if (form === "map") return `Record<string, ${one}>`;
  return form === "maybe" || TYPES[kindOf(type)] === undefined ? `${one} | null` : one;
}

function shapeOf({ type, form }: Field): string {
  const kind = kindOf(type);
  const words = form === "one" ? kind : `${form} ${kind}`;
  return JSON.stringify(words);
}

/** Of a schema of the contract. */
function recordType(schema: z.ZodType): string {
  if (schema instanceof z.ZodNullable) return `${recordType(schema.unwrap() as z.ZodType)} | null`;
  if (schema instanceof z.ZodOptional) return recordType(schema.unwrap() as z.ZodType);
  if (schema instanceof z.ZodArray) return `(${recordType(schema.element as z.ZodType)})[]`;
  if (schema instanceof z.ZodRecord) {
    return `Record<string, ${recordType(schema.valueType as z.ZodType)}>`;
  }
  if (schema instanceof z.ZodUnion) {
    return schema.options.map((one) => recordType(one as z.ZodType)).join(" | ");
  }
  if (schema instanceof z.ZodEnum) {
    return schema.options.map((one) => JSON.stringify(one)).join(" | ");
  }
  if (schema instanceof z.ZodLiteral) {
    return [...schema.values].map((one) => JSON.stringify(one)).join(" | ");
  }
  if (schema instanceof z.ZodNumber || schema instanceof z.ZodNumberFormat) return "number";
  if (schema instanceof z.ZodBoolean) return "boolean";
  if (schema instanceof z.ZodUnknown) return "unknown";
  if (schema instanceof z.ZodString || schema instanceof z.ZodStringFormat) return "string";
  if (schema instanceof z.ZodObject) {
    const fields = Object.entries(schema.shape as Record<string, z.ZodType>);
    return `{\n${
      fields.map(([name, field]) =>
        `${name}${field instanceof z.ZodOptional ? "?" : ""}: ${recordType(field)};\n`
      )
        .join("")
    }}`;
  }
  throw new Error(`the client has no type for a ${schema.def.type}`);
}
