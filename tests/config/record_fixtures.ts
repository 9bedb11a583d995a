/** Writes the expectation of each fixture that has none yet; never touches one that exists. */
import { describeFixture, fixtureNames, fixtureText } from "./fixtures.ts";

for (const name of fixtureNames()) {
  const path = new URL(`./fixtures/${name}.expected.json`, import.meta.url);
  const text = JSON.stringify(describeFixture(fixtureText(`${name}.json`)), null, 2) + "\n";
  try {
    Deno.writeTextFileSync(path, text, { createNew: true });
    console.log(`recorded ${name}`);
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
  }
}
