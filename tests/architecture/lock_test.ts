import { strict as assert } from "node:assert";

const ROOT = new URL("../..", import.meta.url).pathname;

Deno.test("deno.lock names exactly what mosaic itself imports: a first start downloads nothing else", async () => {
  const { imports } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.json`));
  const { specifiers } = JSON.parse(await Deno.readTextFile(`${ROOT}deno.lock`));
  assert.deepEqual(Object.keys(specifiers).sort(), (Object.values(imports) as string[]).sort());
});

Deno.test("dev.lock pins every package of deno.lock to the same version", async () => {
  const run = JSON.parse(await Deno.readTextFile(`${ROOT}deno.lock`)).specifiers as Record<
    string,
    string
  >;
  const dev = JSON.parse(await Deno.readTextFile(`${ROOT}dev.lock`)).specifiers as Record<
    string,
    string
  >;
  for (const [specifier, version] of Object.entries(run)) {
    assert.equal(dev[specifier], version, specifier);
  }
});
