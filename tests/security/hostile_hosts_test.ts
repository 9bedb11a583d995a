/** `mosaic list --all-hosts` where a host answers what is wrong, or what another host would say. */
import assert from "node:assert/strict";
import { listAllHosts } from "../../src/cli/hosts/all_hosts.ts";
import { runJsonOf } from "../../src/runs/fields/run_json.ts";
import { fakeRun, fakeWorld, ID_A } from "../cli/fakes.ts";

Deno.test("hostile hosts: an answer that cannot be shown costs its host only, and no host speaks as another", async () => {
  const home = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${home}/mosaic`);
    const names = ["none", "numbers", "half", "deep", "liar"];
    Deno.writeTextFileSync(
      `${home}/mosaic/hosts.json`,
      JSON.stringify(names.map((name) => ({ name, ssh: name, mosaic: "mosaic" }))),
    );
    const run = runJsonOf(fakeRun({ runId: ID_A, name: "mine\x1b[2J" }));
    const answers: Record<string, string> = {
      none: "[null]",
      numbers: JSON.stringify([{ ...run, submitted_at: 3 }]),
      half: JSON.stringify([{ run_id: ID_A, submitted_at: "2025-11-22T14:00:00Z" }]),
      deep: "[".repeat(100_000),
      liar: JSON.stringify([{ ...run, host: "(here)" }]),
    };
    const world = fakeWorld({}, {
      env: (name) => name === "XDG_CONFIG_HOME" ? home : undefined,
      runScript: (_script, words) => {
        const host = words.includes("ssh") ? words[words.indexOf("--") + 1]! : undefined;
        const stdout = host === undefined ? "[]" : answers[host]!;
        return Promise.resolve({ code: 0, signal: null, stdout, stderr: "" });
      },
    });
    assert.equal(await listAllHosts(world, [], {}), 3);
    assert.deepEqual(
      world.stderr().trimEnd().split("\n"),
      names.slice(0, 4).map((name) =>
        `mosaic: host ${name}: its answer is not a list of runs, as this version has them`
      ),
    );
    const [, ...rows] = world.stdout().trimEnd().split("\n");
    assert.equal(rows.length, 1);
    assert.match(rows[0]!, /^liar /);
    assert.ok(!rows[0]!.includes("\x1b"), "a terminal obeys nothing that another host wrote");
  } finally {
    Deno.removeSync(home, { recursive: true });
  }
});
