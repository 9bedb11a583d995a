import assert from "node:assert/strict";

const ROOT = new URL("../../..", import.meta.url).pathname;
const page = Deno.readTextFileSync(`${ROOT}docs/explanation/security.md`);
const list = Deno.readTextFileSync(`${ROOT}tests/security/claims.md`);

/** The claims of a text with the lines below each, in order. */
function claimsOf(text: string): { name: string; tests: { path: string; name: string }[] }[] {
  return text.split(/^- (?=\*\*)/m).slice(1).map((claim) => ({
    name: /^\*\*(.+?)\.?\*\*/s.exec(claim)![1]!,
    tests: [...claim.matchAll(/^ {2}- `(tests\/\S+)`: (.+)$/gm)].map(([, path, name]) => ({
      path: path!,
      name: name!,
    })),
  }));
}

Deno.test("threat model: every test it names is there", () => {
  const named = claimsOf(list).flatMap(({ tests }) => tests);
  assert.ok(named.length > 150);
  for (const { path, name } of named) {
    const text = Deno.readTextFileSync(`${ROOT}${path}`);
    // Declared as a test; a mention in a comment does not count.
    const declared = new RegExp(`(?:\\(|name:)\\s*"${RegExp.escape(name)}"`).test(text);
    assert.ok(declared, `${path} has no test "${name}"`);
  }
});

Deno.test("threat model: the page has each claim with its number of tests, and says what holds", () => {
  const threats = page.slice(page.indexOf("## Threats"), page.indexOf("## What is not held"));
  const rows = [...threats.matchAll(/^\| ([^|]+) \| [^|]+ \| (\d+) \|$/gm)];
  const claims = claimsOf(list).map(({ name, tests }) => [name, String(tests.length)]);
  assert.deepEqual(rows.map(([, name, tests]) => [name, tests]), claims);
  assert.deepEqual(claimsOf(list).filter(({ tests }) => tests.length === 0), []);
});
