/** What a part of mosaic cannot do under the permissions that it has, tried under exactly those. */
import assert from "node:assert/strict";
import { flagsOf } from "../../src/permissions/permissions.ts";
import { planFor } from "../../src/permissions/part_plan.ts";
import { realWorld } from "../../src/permissions/world.ts";
import { clientFlags } from "./client_flags.ts";
import { assertRefused, FOLLOWED, makePlaces, outcomes } from "./attempts.ts";
import type { Outcome, Places } from "./escapes.ts";

Deno.test("escapes: everything that is not planned is refused", async (t) => {
  const directory = Deno.makeTempDirSync();
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const places = makePlaces(directory, listener.addr.port);
  const runDir = `${places.inside}/trainer/runs/R`;
  Deno.mkdirSync(`${runDir}/.mosaic`, { recursive: true });
  Deno.symlinkSync(places.outside, `${runDir}/link`);
  Deno.writeTextFileSync(
    `${runDir}/.mosaic/proxy-1.json`,
    JSON.stringify({ daemonJson: `${places.inside}/trainer/daemon.json` }),
  );
  const daemon = ["--state-dir", places.inside, "--listen", "127.0.0.1:7", "--http", "127.0.0.1:8"];
  const proxy = [
    "--target",
    `unix:${places.inside}/d.sock`,
    "--run-id",
    "R",
    "--run-dir",
    runDir,
    "--",
    "sh",
  ];
  const parts: [string, string[], Places, Record<string, Outcome>][] = [
    [
      "daemon",
      flagsOf(await planFor("daemon", daemon, realWorld())),
      places,
      { ...FOLLOWED, "ask for the user": "done" },
    ],
    // Only its own run's directory: another run of the same daemon is outside for it.
    [
      "proxy",
      flagsOf(await planFor("proxy", proxy, realWorld())),
      { ...places, inside: runDir },
      FOLLOWED,
    ],
    [
      "client",
      clientFlags(["list", "--target", "127.0.0.1:7", "--state-dir", places.inside]),
      places,
      {},
    ],
  ];
  try {
    for (const [name, flags, where, known] of parts) {
      await t.step(name, () => assertRefused(flags, where, known));
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
        .concat([
          "read through a link inside",
          "load a native library",
          "read the own environment as a file",
        ]);
      for (const what of real) {
        assert.ok(["done", "nothing"].includes(found[what]!), `${what}: ${found[what]}`);
      }
    });
  } finally {
    listener.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
