/**
 * What a start loads. Any of Node's modules, except SQLite, takes 25 ms and 8 MiB:
 * docs/explanation/performance.md.
 */
import { strict as assert } from "node:assert";

const SRC = new URL("../../src/", import.meta.url);

interface Graph {
  modules: {
    specifier: string;
    dependencies?: { specifier: string; isDynamic?: boolean; code?: { specifier?: string } }[];
  }[];
}

/** Node's modules that our own files import as soon as `entry` is loaded. */
async function nodeModulesOf(entry: string): Promise<string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "--lock=dev.lock", new URL(entry, SRC).href],
    stderr: "inherit",
  }).output();
  const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as Graph;
  const found = new Set<string>();
  const seen = new Set([new URL(entry, SRC).href]);
  for (const url of seen) {
    for (
      const { isDynamic, code } of modules.find(({ specifier }) =>
        specifier === url
      )?.dependencies ?? []
    ) {
      const to = code?.specifier;
      if (to === undefined || isDynamic) continue;
      if (to.startsWith("node:")) found.add(`${url.slice(SRC.href.length)} ${to}`);
      else if (to.startsWith(SRC.href)) seen.add(to);
    }
  }
  assert.ok(seen.size > 5, "the graph is there");
  return [...found];
}

Deno.test("a daemon loads none of Node's modules before it is ready, except SQLite", async () => {
  const found = await nodeModulesOf("daemon.ts");
  assert.deepEqual(found.filter((one) => !one.endsWith(" node:sqlite")), []);
  assert.ok(found.length > 0);
});

for (const entry of ["main.ts", "cli/verbs/runs/list.ts", "wire/client/client.ts"]) {
  Deno.test(`${entry} loads none of Node's modules`, async () => {
    assert.deepEqual(await nodeModulesOf(entry), []);
  });
}
