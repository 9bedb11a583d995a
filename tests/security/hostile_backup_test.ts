/** A worker makes what no path reaches, so that a backup of all runs fails. */
import assert from "node:assert/strict";
import { runCli } from "../../src/cli/cli.ts";
import { Backup } from "../../src/registry/contract.ts";
import { fakeWorld } from "../cli/fakes.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";

const DEEP = `cd "$MOSAIC_RUN_DIR"; : >"$2"
i=0; while [ $i -lt 30 ]; do mkdir "$1" && cd -P "$1" || exit 3; i=$((i + 1)); done; : >x`;

Deno.test("backup: directories too deep for a path cost themselves, and the longest names are copied", async () => {
  await using daemon = await TestDaemon.start();
  const to = Deno.makeTempDirSync({ prefix: "mosaic-backup-" });
  try {
    const long = "n".repeat(255);
    const command = ["/bin/bash", "-c", DEEP, "sh", "d".repeat(200), long];
    const run = await submit(daemon, configOf({ command }));
    await untilState(daemon, run, "TERMINATED");
    const world = fakeWorld({}, { env: (name) => name === "MOSAIC_STATE_DIR" ? daemon.stateDir : undefined });
    assert.equal(await runCli(["backup", to, "-o", "json"], world), 1, world.stderr());
    const { left_out, runs, finished_at } = Backup.parse(JSON.parse(world.stdout()));
    assert.deepEqual([runs, left_out.length], [1, 1], JSON.stringify(left_out));
    assert.notEqual(finished_at, null);
    assert.match(left_out[0]!, /path is too long/);
    assert.ok(Deno.statSync(`${to}/trainer/custom_scripts/${run}/${long}`).isFile);
  } finally {
    await new Deno.Command("rm", { args: ["-rf", to] }).output();
  }
});
