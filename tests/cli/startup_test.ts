import { strict as assert } from "node:assert";
import { MAIN } from "../harness/daemon.ts";

interface Graph {
  roots: string[];
  redirects: Record<string, string>;
  modules: {
    specifier: string;
    dependencies?: { specifier: string; isDynamic?: boolean; code?: { specifier?: string } }[];
  }[];
}

Deno.test("start-up: what mosaic --help loads holds no library: no gRPC, no protobuf, no argument parser", async () => {
  const { stdout, success } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json", MAIN] }).output();
  assert.ok(success);
  const graph = JSON.parse(new TextDecoder().decode(stdout)) as Graph;
  const modules = new Map(graph.modules.map((m) => [m.specifier, m]));
  const loaded = new Set(graph.roots);
  for (const specifier of loaded) {
    for (const dependency of modules.get(specifier)?.dependencies ?? []) {
      if (dependency.isDynamic || dependency.code?.specifier === undefined) continue;
      loaded.add(dependency.code.specifier);
    }
  }
  const foreign = [...loaded].filter((s) => !s.startsWith("file:"));
  assert.deepEqual(foreign, []);
  assert.ok([...loaded].some((s) => s.endsWith("/src/cli/overview.ts")));
  assert.ok(loaded.size < 20, [...loaded].join("\n"));
});
