import { strict as assert } from "node:assert";
import { VERBS } from "../../src/cli/verbs.ts";

interface Graph {
  roots: string[];
  modules: {
    specifier: string;
    dependencies?: { specifier: string; isDynamic?: boolean; code?: { specifier?: string } }[];
  }[];
}

const graph = await graphOf(new URL("../../src/main.ts", import.meta.url).pathname);
const modules = new Map(graph.modules.map((m) => [m.specifier, m]));

async function graphOf(entry: string): Promise<Graph> {
  const { stdout, success } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", entry],
  }).output();
  assert.ok(success);
  return JSON.parse(new TextDecoder().decode(stdout));
}

/** What is there before the first line of these modules runs. */
function loadedWith(...roots: string[]): string[] {
  const loaded = new Set(roots);
  for (const specifier of loaded) {
    for (const dependency of modules.get(specifier)?.dependencies ?? []) {
      if (dependency.isDynamic || dependency.code?.specifier === undefined) continue;
      loaded.add(dependency.code.specifier);
    }
  }
  return [...loaded];
}

const moduleNamed = (path: string) =>
  [...modules.keys()].find((specifier) => specifier.endsWith(`/src/${path}`))!;
/** In the folder of its group. */
const moduleOfVerb = (name: string) =>
  [...modules.keys()].find((specifier) =>
    specifier.includes("/src/cli/verbs/") && specifier.endsWith(`/${name.replace("-", "_")}.ts`)
  )!;
const foreign = (loaded: string[]) =>
  loaded.filter((s) => !s.startsWith("file:") || s.includes("/src/gen/"));

Deno.test("start-up: what mosaic --help loads holds no library: no gRPC, no protobuf, no argument parser", () => {
  const loaded = loadedWith(...graph.roots);
  assert.deepEqual(foreign(loaded), []);
  assert.ok(loaded.some((s) => s.endsWith("/src/cli/overview.ts")));
  assert.ok(loaded.length <= 22, loaded.join("\n"));
});

Deno.test("start-up: what each verb's help loads holds no gRPC, no protobuf, no schemas: only the argument parser", () => {
  for (const { name, load } of VERBS) {
    const verb = load === undefined ? moduleNamed(ENTRIES[name]!) : moduleOfVerb(name);
    assert.ok(verb !== undefined, name);
    const loaded = loadedWith(verb);
    assert.ok(loaded.length > 1, name);
    assert.deepEqual(
      // The client for TypeScript is a text.
      foreign(loaded).filter((s) => !/^(npm:\/?commander@|node:)|\/src\/gen\/client\//.test(s)),
      [],
      name,
    );
  }
});

/** Of the verbs that parse their own arguments. */
const ENTRIES: Record<string, string> = {
  daemon: "daemon/start/command_line.ts",
  up: "daemon/start/command_line.ts",
  proxy: "proxy.ts",
};
