import assert from "node:assert/strict";

const ROOT = new URL("../../..", import.meta.url).pathname;

Deno.test("threat model: every test it names is there", () => {
  const page = Deno.readTextFileSync(`${ROOT}docs/explanation/security.md`);
  const named = [...page.matchAll(/^ {2}- `(tests\/\S+)`: (.+)$/gm)];
  assert.ok(named.length > 20);
  for (const [, path, name] of named) {
    const text = Deno.readTextFileSync(`${ROOT}${path}`);
    // Declared as one; a mention in a comment is none.
    const declared = ['("', '(\n  "', 'name: "'].some((before) => text.includes(`${before}${name}"`));
    assert.ok(declared, `${path} has no test "${name}"`);
  }
});

Deno.test("threat model: every claim has a test, or says that nothing holds it", () => {
  const page = Deno.readTextFileSync(`${ROOT}docs/explanation/security.md`);
  const threats = page.slice(page.indexOf("## Threats"), page.indexOf("## What is not held"));
  const claims = threats.split(/^- /m).slice(1);
  const bare = claims.filter((claim) => !claim.includes("  - `tests/"));
  assert.deepEqual(bare, []);
});

Deno.test("threat model: the table has each claim with its number of tests, and says what holds", () => {
  const page = Deno.readTextFileSync(`${ROOT}docs/explanation/security.md`);
  const threats = page.slice(page.indexOf("## Threats"), page.indexOf("## What is not held"));
  const rows = [...threats.matchAll(/^\| [^|]+ \| ([^|]+) \| (\d+) \| [^|]+ \|$/gm)];
  const claims = threats.split(/^- /m).slice(1).map((claim) => {
    const name = /^\*\*(.+?)\.?\*\*/s.exec(claim)![1];
    return [name, String(claim.match(/^ {2}- `tests\//gm)!.length)];
  });
  assert.deepEqual(rows.map(([, name, tests]) => [name, tests]), claims);
});
