/**
 * Every shape that was ever accepted stays accepted, with the same canonical form, digest and
 * stored form. The expectations are written once, when a fixture is added (`deno run -A
 * tests/config/record_fixtures.ts`), and never changed.
 */
import assert from "node:assert/strict";
import { readConfig } from "../../src/config/config.ts";
import { planOf } from "../../src/config/plan.ts";
import { describeFixture, fixtureNames, fixtureText } from "./fixtures.ts";

for (const name of fixtureNames()) {
  Deno.test(`config fixture: ${name} is read as it was when it was added`, () => {
    const expected = JSON.parse(fixtureText(`${name}.expected.json`));
    assert.deepEqual(describeFixture(fixtureText(`${name}.json`)), expected);
  });
}

Deno.test("config: the digests are those of the original", () => {
  const digest = (name: string) => readConfig(fixtureText(`${name}.json`)).digest;
  assert.equal(
    digest("flat-minimal"),
    "f313e9d7d913f1ec6948ec8f691fa3f514c577ba327b17ba322572990822ec41",
  );
  assert.equal(
    digest("flat-numbers"),
    "5ffb213a4f21fa5697638dce5f0c40f4080cbb3c14d9cbd3e2235502734cb869",
  );
  assert.equal(
    digest("flat-numbers-other-key-order"),
    "e1559ddc717f9d22befc247ee270201f3958f0c4cb6befbc4127fdc8c91f2851",
  );
});

Deno.test("config: a stored form is itself a config and keeps its plan", () => {
  for (const name of fixtureNames()) {
    const { stored } = describeFixture(fixtureText(`${name}.json`));
    assert.doesNotThrow(() => planOf(stored), name);
    // The registry is read by other programs: the text is strict JSON and pure ASCII.
    assert.doesNotThrow(() => JSON.parse(stored), name);
    assert.match(stored, /^[\x20-\x7e]*$/, name);
  }
});
