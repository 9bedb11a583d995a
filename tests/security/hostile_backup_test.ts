/** A worker makes what no path reaches, so that a backup of all runs fails. */
import assert from "node:assert/strict";
import { runCli } from "../../src/cli/cli.ts";
import { Backup } from "../../src/registry/contract.ts";
import { fakeWorld } from "../cli/fakes.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { submit, untilState } from "../harness/runs.ts";

const DEEP = `cd "$MOSAIC_RUN_DIR"; : >"$2"
truncate -s 200G holes; printf data | dd of=holes conv=notrunc bs=1 seek=107374182400 2>/dev/null
mkdir .mosaic-new backup.new; ln -s /etc/passwd .mosaic-new/x; : >.mosaic-new/y; : >$(printf 'not-utf-8-\\377')
i=0; while [ $i -lt 30 ]; do mkdir "$1" && cd -P "$1" || exit 3; i=$((i + 1)); done; : >x`;

Deno.test("backup: directories too deep cost themselves, holes of 200 GB nothing; names of any length are copied", async () => {
  await using daemon = await TestDaemon.start();
  const to = Deno.makeTempDirSync({ prefix: "mosaic-backup-" });
  try {
    const long = "n".repeat(255);
    const command = ["/bin/bash", "-c", DEEP, "sh", "d".repeat(200), long];
    const run = await submit(daemon, configOf({ command }));
    await untilState(daemon, run, "TERMINATED");
    const world = fakeWorld({}, {
      env: (name) => name === "MOSAIC_STATE_DIR" ? daemon.stateDir : undefined,
    });
    assert.equal(await runCli(["backup", to, "-o", "json"], world), 1, world.stderr());
    const { left_out, runs, finished_at } = Backup.parse(JSON.parse(world.stdout()));
    assert.notEqual(finished_at, null);
    assert.deepEqual([runs, left_out.length], [1, 2], JSON.stringify(left_out));
    assert.match(left_out[0]!, /path is too long/);
    assert.match(left_out[1]!, /not-utf-8-.*: its name is not UTF-8/);
    const copy = `${to}/trainer/custom_scripts/${run}`;
    assert.ok(Deno.statSync(`${copy}/${long}`).isFile);
    assert.deepEqual([...Deno.readDirSync(`${copy}/.mosaic-new`)].map(({ name }) => name).sort(), [
      "x",
      "y",
    ]);
    const { size, blocks } = Deno.statSync(`${copy}/holes`);
    assert.ok(size === 200 * 2 ** 30 && blocks! * 512 < 1 << 20, `${size} ${blocks}`);
    using holes = Deno.openSync(`${copy}/holes`);
    holes.seekSync(100 * 2 ** 30, Deno.SeekMode.Start);
    const bytes = new Uint8Array(8);
    holes.readSync(bytes);
    assert.equal(new TextDecoder().decode(bytes), "data\0\0\0\0");
  } finally {
    await new Deno.Command("rm", { args: ["-rf", to] }).output();
  }
});
