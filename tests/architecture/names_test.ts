/** Files of src/ that have one name, against the table in docs/reference/development.md. */
import { strict as assert } from "node:assert";
import { filesOf, namesOfRows } from "./rooms.ts";

const SRC = new URL("../../src/", import.meta.url);
const DOC = new URL("../../docs/reference/development.md", import.meta.url);

Deno.test("files of src/ that have one name are in the table of docs/reference/development.md, and no others are", () => {
  const byName = new Map<string, string[]>();
  for (const file of filesOf(SRC)) {
    if (file.startsWith("gen/")) continue;
    const name = file.split("/").at(-1)!.replace(/\.tsx?$/, "");
    byName.set(name, [...byName.get(name) ?? [], file]);
  }
  assert.ok(byName.size > 500, "the files are there");
  const repeated = [...byName].filter(([, files]) => files.length > 1).map(([name]) => name);
  const rows = namesOfRows(Deno.readTextFileSync(DOC), "| Name | The one thing |\n|---|---|\n");
  assert.deepEqual(repeated.sort(), rows.flatMap(([names]) => names!).sort());
});
