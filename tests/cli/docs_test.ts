/** docs/cli.md is a contract: what it says of verbs, exit codes and shapes is held against the code. */
import { strict as assert } from "node:assert";
import { EXIT } from "../../src/cli/exit.ts";
import { runDetailJson } from "../../src/cli/json.ts";
import { FIELDS, KINDS } from "../../src/cli/records.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { fakeRun } from "./fakes.ts";

const PAGE = await Deno.readTextFile(new URL("../../docs/cli.md", import.meta.url));

Deno.test("docs/cli.md: names every verb, every exit code, every field of a run and of a record", () => {
  for (const { name } of VERBS.filter((v) => v.name !== "completions")) {
    assert.match(PAGE, new RegExp(`\`${name}[ \`]`), name);
  }
  for (const code of Object.values(EXIT)) assert.match(PAGE, new RegExp(`^\\| ${code} \\|`, "m"));
  const run = runDetailJson(fakeRun());
  for (const field of [...Object.keys(run), ...Object.keys(run.telemetry), ...Object.keys(run.capabilities!)]) {
    assert.ok(PAGE.includes(`\`${field}\``), field);
  }
  for (const kind of KINDS) {
    const row = PAGE.split("\n").find((line) => line.startsWith(`| ${kind} `))!;
    assert.deepEqual([...row.matchAll(/`([a-z_]+)`/g)].map((m) => m[1]), FIELDS[kind]);
  }
});
