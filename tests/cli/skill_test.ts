import assert from "node:assert/strict";
import { runCli } from "../../src/cli/cli.ts";
import { SKILL } from "../../src/cli/text/skill_text.ts";
import { VERBS } from "../../src/cli/verbs.ts";
import { fakeWorld } from "./fakes.ts";

const WORDS = 1500;

Deno.test("skill: a head that names it, and few words", async () => {
  const world = fakeWorld();
  assert.equal(await runCli(["skill"], world), 0);
  assert.equal(world.stdout(), SKILL);
  assert.match(SKILL, /^---\nname: mosaic\ndescription: .+\n---\n/);
  assert.ok(SKILL.split(/\s+/).length < WORDS);
});

Deno.test("skill: every verb and option in it exists", async () => {
  const commands = [...SKILL.matchAll(/\bmosaic ([a-z]+)((?:(?! -- )[^`\n#])*)/g)].filter((
    [, verb],
  ) => verb !== "command");
  assert.ok(commands.length > 20);
  for (const [command, verb, rest] of commands) {
    const known = VERBS.find(({ name }) => name === verb);
    assert.ok(known, command);
    // A part has its help elsewhere.
    if (known.load === undefined) continue;
    const world = fakeWorld();
    assert.equal(await runCli([verb!, "--help"], world), 0, command);
    for (const [option] of rest!.matchAll(/(?<=\s)--?[a-z][a-z-]*(?=\s|$)/g)) {
      assert.match(world.stdout(), new RegExp(`(^|[ ,])${option}\\b`, "m"), command);
    }
  }
});
