/** The recorded configs and what is recorded of each. */
import { readConfig } from "../../src/config/config.ts";
import { prepareRun } from "../../src/config/prepare.ts";
import { Layout } from "../../src/base/layout.ts";

const directory = new URL("./fixtures/", import.meta.url);

export function fixtureText(file: string): string {
  return Deno.readTextFileSync(new URL(file, directory));
}

export function fixtureNames(): string[] {
  return [...Deno.readDirSync(directory)].map((entry) => entry.name)
    .filter((name) => name.endsWith(".json") && !name.endsWith(".expected.json"))
    .map((name) => name.slice(0, -".json".length)).sort();
}

/** Canonical form, digest, and what is stored for a run below the state directory /srv/var. */
export function describeFixture(text: string) {
  const read = readConfig(text);
  const runId = read.requestedRunId ?? "01BX5ZZKBKACTAV9WEVGEMMVRZ";
  const { configJson, ...prepared } = prepareRun(read, { runId, layout: new Layout("/srv/var") });
  return { canonical: read.canonicalJson, digest: read.digest, stored: configJson, prepared };
}
