/**
 * Writes what is generated: `src/gen` from `proto/` (buf and protoc-gen-es, both pinned npm packages).
 *
 * `--check` writes nothing into the tree and fails when the tree differs from what would be written.
 */
const BUF = "npm:@bufbuild/buf@1.74.0";
const root = new URL("..", import.meta.url).pathname;

async function generate(out: string): Promise<void> {
  const template = JSON.stringify({
    version: "v2",
    plugins: [{
      local: ["deno", "run", "-A", "npm:@bufbuild/protoc-gen-es@2.17.0"],
      out,
      opt: ["target=ts", "import_extension=ts"],
    }],
  });
  const run = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", BUF, "generate", "proto", "--template", template],
    cwd: root,
    env: { PATH: `${Deno.execPath().replace(/\/[^/]*$/, "")}:${Deno.env.get("PATH")}` },
  }).output();
  if (!run.success) {
    console.error(new TextDecoder().decode(run.stderr));
    Deno.exit(1);
  }
}

function filesBelow(dir: string, prefix = ""): string[] {
  return [...Deno.readDirSync(dir)].flatMap((e) =>
    e.isDirectory ? filesBelow(`${dir}/${e.name}`, `${prefix}${e.name}/`) : [prefix + e.name]
  ).sort();
}

if (Deno.args.includes("--check")) {
  const fresh = Deno.makeTempDirSync();
  await generate(fresh);
  const expected = filesBelow(fresh);
  const have = filesBelow(`${root}src/gen`);
  const stale = expected.filter((f) =>
    !have.includes(f) || Deno.readTextFileSync(`${fresh}/${f}`) !== Deno.readTextFileSync(`${root}src/gen/${f}`)
  );
  const surplus = have.filter((f) => !expected.includes(f));
  Deno.removeSync(fresh, { recursive: true });
  if (stale.length + surplus.length > 0) {
    console.error(`src/gen is not what proto/ generates: ${[...stale, ...surplus].join(", ")}; run: deno task gen`);
    Deno.exit(1);
  }
} else {
  await generate("src/gen");
}
