/** Runs escapes.ts under some flags and tells what each attempt came to. */
import assert from "node:assert/strict";
import type { Outcome, Places } from "./escapes.ts";

const ESCAPES = new URL("escapes.ts", import.meta.url).pathname;

/** These throw nothing: what they ask for is as if it were not there. */
export const SILENT: Record<string, Outcome> = {
  "look at a variable": "nothing",
  "ask for more": "nothing",
};

/**
 * What a permission does not hold: the runtime follows links that are there already, below a
 * directory that it grants. It makes none, so they are others' (a worker's); what is served from a
 * run's directory is checked for them by itself.
 */
export const FOLLOWED: Record<string, Outcome> = {
  "read through a link inside": "done",
  "write through a link inside": "nothing",
};

export async function outcomes(flags: string[], places: Places): Promise<Record<string, Outcome>> {
  const out = await new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-check",
      "--no-prompt",
      "--quiet",
      ...flags,
      ESCAPES,
      JSON.stringify(places),
    ],
    env: { A_SECRET_OF_SOMEBODY: "hunter2" },
    stdin: "null",
  }).output();
  const text = new TextDecoder().decode(out.stdout);
  assert.ok(out.success, `${text}\n${new TextDecoder().decode(out.stderr)}`);
  return JSON.parse(text);
}

/** @param known what comes to something else than a refusal */
export async function assertRefused(
  flags: string[],
  places: Places,
  known: Record<string, Outcome>,
): Promise<void> {
  for (const [what, outcome] of Object.entries(await outcomes(flags, places))) {
    assert.equal(
      outcome,
      known[what] ?? SILENT[what] ?? "refused",
      `${what}, under ${flags.join(" ")}`,
    );
  }
  if ("write through a link inside" in known) Deno.removeSync(`${places.outside}/new.txt`);
  assert.equal(Deno.readTextFileSync(`${places.outside}/secret.txt`), "hunter2");
  assert.equal([...Deno.readDirSync(places.outside)].length, 2);
}

/** A secret outside, and a link to it inside. */
export function makePlaces(directory: string, port: number): Places {
  const places = { outside: `${directory}/outside`, inside: `${directory}/state`, port };
  Deno.mkdirSync(places.outside);
  Deno.mkdirSync(places.inside, { recursive: true });
  Deno.writeTextFileSync(`${places.outside}/secret.txt`, "hunter2");
  Deno.writeTextFileSync(`${places.outside}/module.js`, "export default 1;");
  Deno.symlinkSync(places.outside, `${places.inside}/link`);
  return places;
}
