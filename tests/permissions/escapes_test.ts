/** What a part of mosaic cannot do under the permissions that are planned for it, tried under exactly those. */
import assert from "node:assert/strict";
import { flagsOf } from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/plan.ts";
import { realWorld } from "../../src/permissions/world.ts";
import type { Outcome, Places } from "./escapes.ts";

const ESCAPES = new URL("escapes.ts", import.meta.url).pathname;

/** These throw nothing: what they ask for is as if it were not there. */
const SILENT: Record<string, Outcome> = { "look at a variable": "nothing", "ask for more": "nothing" };

/**
 * What a permission does not hold: the runtime follows links that are there already, below a directory that it grants.
 * It makes none, so they are others' (a worker's); what is served from a run's directory is checked for them by itself.
 */
const FOLLOWED: Record<string, Outcome> = {
  "read through a link inside": "done",
  "write through a link inside": "nothing",
};

async function outcomes(flags: string[], places: Places): Promise<Record<string, Outcome>> {
  const out = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-check", "--no-prompt", "--quiet", ...flags, ESCAPES, JSON.stringify(places)],
    env: { A_SECRET_OF_SOMEBODY: "hunter2" },
    stdin: "null",
  }).output();
  const text = new TextDecoder().decode(out.stdout);
  assert.ok(out.success, `${text}\n${new TextDecoder().decode(out.stderr)}`);
  return JSON.parse(text);
}

Deno.test("escapes: everything that is not planned is refused", async (t) => {
  const directory = Deno.makeTempDirSync();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const places: Places = {
    outside: `${directory}/outside`,
    inside: `${directory}/state`,
    port: listener.addr.port,
  };
  const runDir = `${places.inside}/trainer/runs/R`;
  Deno.mkdirSync(places.outside);
  Deno.mkdirSync(`${runDir}/.mosaic`, { recursive: true });
  Deno.writeTextFileSync(`${places.outside}/secret.txt`, "hunter2");
  Deno.writeTextFileSync(`${places.outside}/module.js`, "export default 1;");
  Deno.symlinkSync(places.outside, `${places.inside}/link`);
  Deno.symlinkSync(places.outside, `${runDir}/link`);
  Deno.writeTextFileSync(
    `${runDir}/.mosaic/proxy-1.json`,
    JSON.stringify({ daemonJson: `${places.inside}/trainer/daemon.json` }),
  );
  const parts: [string, string[], Places, Record<string, Outcome>][] = [
    [
      "daemon",
      ["daemon", "--state-dir", places.inside, "--listen", "127.0.0.1:7", "--http", "127.0.0.1:8"],
      places,
      FOLLOWED,
    ],
    // Only its own run's directory: another run of the same daemon is outside for it.
    [
      "proxy",
      ["proxy", "--target", `unix:${places.inside}/d.sock`, "--run-id", "R", "--run-dir", runDir, "--", "sh"],
      { ...places, inside: runDir },
      FOLLOWED,
    ],
    ["client", ["list", "--target", "127.0.0.1:7", "--state-dir", places.inside], places, {}],
  ];
  try {
    for (const [name, words, where, known] of parts) {
      await t.step(name, async () => {
        const flags = flagsOf(await planFor(words, realWorld()));
        const found = await outcomes(flags, where);
        for (const [what, outcome] of Object.entries(found)) {
          assert.equal(outcome, known[what] ?? SILENT[what] ?? "refused", `${what}, under ${flags.join(" ")}`);
        }
        if (known === FOLLOWED) Deno.removeSync(`${places.outside}/new.txt`);
        assert.equal(Deno.readTextFileSync(`${places.outside}/secret.txt`), "hunter2");
        assert.equal([...Deno.readDirSync(places.outside)].length, 2);
      });
    }
    await t.step("without a plan the same attempts succeed: they are real", async () => {
      const found = await outcomes(["-A"], places);
      const real = [
        "read a file outside",
        "write a file outside",
        "connect elsewhere",
        "run a program",
        "look at a variable",
      ]
        .concat(["read through a link inside", "load a native library", "read the own environment as a file"]);
      for (const what of real) assert.ok(["done", "nothing"].includes(found[what]!), `${what}: ${found[what]}`);
    });
  } finally {
    listener.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
