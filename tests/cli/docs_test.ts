/**
 * The hand-written tables of docs/reference that are a contract are held against the code.
 */
import { strict as assert } from "node:assert";
import { EXIT } from "../../src/cli/link/exit.ts";
import { manualPages } from "../../src/manual/pages.ts";
import { EVENT_KINDS } from "../../src/registry/event_kinds.ts";

const PAGE = await Deno.readTextFile(new URL("../../docs/reference/cli.md", import.meta.url));

Deno.test("docs/reference/cli.md: names every exit code", () => {
  for (const code of Object.values(EXIT)) assert.match(PAGE, new RegExp(`^\\| ${code} \\|`, "m"));
});

Deno.test("docs/reference/observability.md: names every kind of event", async () => {
  const page = await Deno.readTextFile(
    new URL("../../docs/reference/observability.md", import.meta.url),
  );
  const table = page.slice(
    page.indexOf("| Kind | When | Data |"),
    page.indexOf("Every reader is a cursor"),
  );
  const named = [...table.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, cell]) =>
    cell!.match(/\w+/g)!
  );
  assert.deepEqual(named.sort(), [...EVENT_KINDS].sort());
});

Deno.test("README.md and docs: every table has its header, and each of its rows as many cells", async () => {
  const root = new URL("../../", import.meta.url);
  const pages = ["README.md"];
  pages.push(...(await manualPages()).map(({ name }) => `docs/${name}.md`));
  assert.ok(pages.length > 20);
  const wrong: string[] = [];
  for (const page of pages) {
    const text = (await Deno.readTextFile(new URL(page, root))).replace(/^```[^]*?^```/gm, "");
    for (const [table] of text.matchAll(/(?:^\|.*\n?)+/gm)) {
      const [head, rule, ...rows] = table.trimEnd().split("\n").map((line) => line.trimEnd());
      const cells = (line: string) => line.match(/(?<!\\)\|/g)!.length;
      if (!/^\|(?:[ :]*-+[ :]*\|)+$/.test(rule ?? "")) {
        wrong.push(`${page}: no header above: ${head}`);
      }
      for (const row of [rule ?? "", ...rows]) {
        if (!row.endsWith("|") || cells(row) !== cells(head!)) {
          wrong.push(`${page}: not as many cells: ${row.slice(0, 100)}`);
        }
      }
    }
  }
  assert.deepEqual(wrong, []);
});
