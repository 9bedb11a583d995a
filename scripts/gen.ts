/**
 * `deno task gen [--check]`: writes the generated files: `src/gen` from `proto/` (by buf and
 * protoc-gen-es, both pinned npm packages), from the table of record fields (`src/gen/records`) and
 * from the page's sources (`src/gen/page`), the messages of a run from the table of its fields, the
 * published JSON Schema of a config from `src/config/schema.ts`, and the generated pages of
 * `docs/reference` from `--help`, the contract of the JSON and the schema.
 * `--check` writes nothing into the tree and fails if the tree differs from what would be written.
 */
import { publishedSchema, SCHEMA_MAJOR } from "../src/config/schema.ts";
import { publishedSweepSchema } from "../src/sweeps/files/file_schema.ts";
import { docFiles } from "./gen/docs.ts";
import { clientFile, clientScript } from "./gen/client.ts";
import { pageFiles } from "./gen/page.ts";
import { withShapes } from "./gen/proto_shapes.ts";
import { recordFiles } from "./gen/records.ts";
import { runFiles } from "./gen/runs.ts";
import { taskArguments } from "./task_arguments.ts";

const BUF = "npm:@bufbuild/buf@1.74.0";
const { values } = taskArguments(import.meta.url, { check: { type: "boolean" } });
const root = new URL("..", import.meta.url).pathname;

async function generate(out: string): Promise<void> {
  const template = JSON.stringify({
    version: "v2",
    plugins: [{
      local: ["deno", "run", "--lock=dev.lock", "-A", "npm:@bufbuild/protoc-gen-es@2.17.0"],
      out,
      opt: ["target=ts", "import_extension=ts"],
    }],
  });
  const run = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--lock=dev.lock", "-A", BUF, "generate", "proto", "--template", template],
    cwd: root,
    env: { PATH: `${Deno.execPath().replace(/\/[^/]*$/, "")}:${Deno.env.get("PATH")}` },
  }).output();
  if (!run.success) {
    console.error(new TextDecoder().decode(run.stderr));
    Deno.exit(1);
  }
  for (const file of filesBelow(out).filter((name) => name.endsWith("_pb.ts"))) {
    const base = `${"../".repeat(file.split("/").length)}base`;
    const text = Deno.readTextFileSync(`${out}/${file}`);
    Deno.writeTextFileSync(`${out}/${file}`, withShapes(text, base));
  }
  Deno.mkdirSync(`${out}/records`, { recursive: true });
  for (const [name, text] of recordFiles()) Deno.writeTextFileSync(`${out}/records/${name}`, text);
  Deno.mkdirSync(`${out}/client`, { recursive: true });
  const [script, text] = await clientScript(root);
  Deno.writeTextFileSync(`${out}/client/${script}`, text);
  for (const [name, text] of await pageFiles(root)) {
    Deno.mkdirSync(`${out}/page`, { recursive: true });
    Deno.writeTextFileSync(`${out}/page/${name}`, text);
  }
}

const schemas = [
  [`schema/train-run-config.v${SCHEMA_MAJOR}.json`, publishedSchema(), "src/config/schema.ts"],
  ["schema/sweep.v1.json", publishedSweepSchema(), "src/sweeps/files/file_schema.ts"],
].map(([file, schema, from]) => ({ file, text: JSON.stringify(schema, null, 2) + "\n", from }));

function textOf(path: string): string | undefined {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

function filesBelow(dir: string, prefix = ""): string[] {
  return [...Deno.readDirSync(dir)].flatMap((e) =>
    e.isDirectory ? filesBelow(`${dir}/${e.name}`, `${prefix}${e.name}/`) : [prefix + e.name]
  ).sort();
}

if (values.check) {
  for (const [path, text] of runFiles(root)) {
    if (textOf(root + path) === text) continue;
    console.error(
      `${path} is not what src/runs/fields/run_fields.ts generates; run: deno task gen`,
    );
    Deno.exit(1);
  }
  for (const [path, text] of await docFiles(root)) {
    if (textOf(root + path) === text) continue;
    console.error(`${path} is not what scripts/gen/docs.ts generates; run: deno task gen`);
    Deno.exit(1);
  }
  const [client, clientText] = await clientFile(root);
  if (textOf(root + client) !== clientText) {
    console.error(
      `${client} is not what proto/ and src/registry/contract.ts generate; run: deno task gen`,
    );
    Deno.exit(1);
  }
  const fresh = Deno.makeTempDirSync();
  await generate(fresh);
  const expected = filesBelow(fresh);
  const have = filesBelow(`${root}src/gen`);
  const stale = expected.filter((f) =>
    !have.includes(f) ||
    Deno.readTextFileSync(`${fresh}/${f}`) !== Deno.readTextFileSync(`${root}src/gen/${f}`)
  );
  const surplus = have.filter((f) => !expected.includes(f));
  Deno.removeSync(fresh, { recursive: true });
  if (stale.length + surplus.length > 0) {
    console.error(
      `src/gen is not what proto/, src/records/record_fields.ts and src/ui/client/ generate: ${
        [...stale, ...surplus].join(", ")
      }; run: deno task gen`,
    );
    Deno.exit(1);
  }
  for (const { file, text, from } of schemas) {
    if (textOf(root + file) === text) continue;
    console.error(`${file} is not what ${from} generates; run: deno task gen`);
    Deno.exit(1);
  }
} else {
  // First: messages are generated from proto/.
  for (const [path, text] of runFiles(root)) Deno.writeTextFileSync(root + path, text);
  const [client, clientText] = await clientFile(root);
  Deno.writeTextFileSync(root + client, clientText);
  await generate(`${root}src/gen`);
  Deno.mkdirSync(`${root}schema`, { recursive: true });
  for (const { file, text } of schemas) Deno.writeTextFileSync(root + file, text);
  for (const [path, text] of await docFiles(root)) Deno.writeTextFileSync(root + path, text);
}
