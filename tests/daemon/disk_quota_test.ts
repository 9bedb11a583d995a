/** `--max-disk-per-user`: what one owner's runs take is bounded, and nobody else's runs suffer. */
import assert from "node:assert/strict";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { createToken, readTokens } from "../../src/wire/tokens.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { DiskQuota } from "../../src/dispatch/queue/disk_quota.ts";
import { createLogger } from "../../src/base/log.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { untilState } from "../harness/runs.ts";
import { hasCode } from "../registry/fixture.ts";
import { mosaic } from "../system/machine/cli.ts";

Deno.test("disk quota: who is beyond it is refused until there is room", async () => {
  const owners = new Map([["A", "ada"], ["B", "bob"], ["C", "ada"]]);
  let byRun = new Map([["A", 600], ["B", 900], ["C", 300]]);
  let changes = 0;
  const quota = new DiskQuota({
    maxBytes: 1000,
    measure: () =>
      Promise.resolve({
        byRun,
        byBase: { runs: 0, evals: 0, custom_scripts: 0 },
        telemetryByRun: new Map([["C", 200]]),
      }),
    owners: () => owners,
    onChanged: () => changes++,
    log: createLogger({ sinks: [] }),
  });
  quota.requireRoom("ada");
  await quota.look();
  assert.deepEqual([...quota.over.keys()], ["ada"]);
  assert.throws(
    () => quota.requireRoom("ada"),
    hasCode("resource_exhausted", /^ada's runs take .* of disk, and may take .*per-user/),
  );
  quota.requireRoom("bob");
  byRun = new Map([["B", 900]]);
  await quota.look();
  quota.requireRoom("ada");
  assert.equal(changes, 2);
});

Deno.test("disk quota: a daemon measures at its start, and refuses by name", async () => {
  const stateDir = Deno.makeTempDirSync();
  const args = ["--auth", "token"];
  const submit = async (daemon: TestDaemon, token: string) => {
    const client = new MosaicClient(daemon.http, { token });
    try {
      const command = ["sh", "-c", 'head -c 3000000 /dev/zero > "$MOSAIC_RUN_DIR/big"'];
      const configJson = configOf({ name: "big", command });
      return (await client.unary(TrainerService.method.submitRun, { configJson })).runId;
    } finally {
      client.close();
    }
  };
  let [ada, bob] = ["", ""];
  {
    await using before = await TestDaemon.start({ stateDir, args });
    const { tokensFile } = before.layout;
    ada = createToken(tokensFile, { name: "ada", role: "operate", own: true });
    bob = createToken(tokensFile, { name: "bob", role: "operate", own: true });
    await untilState(before, await submit(before, ada), "TERMINATED");
    await before.stop();
  }
  args.push("--max-disk-per-user", "2MB");
  await using daemon = await TestDaemon.start({ stateDir, args });
  const admin = new MosaicClient(daemon.http, {
    token: readTokens(daemon.layout.tokensFile)!.admin,
  });
  try {
    // The daemon's first measurement, or one after it.
    const usage = await admin.unary(Mosaic.method.getDiskUsage, {});
    assert.ok(usage.owners["ada"]! > 3_000_000n);
    assert.equal(usage.maxPerOwner, 2n << 20n);
  } finally {
    admin.close();
  }
  await assert.rejects(submit(daemon, ada), hasCode("resource_exhausted", /^ada's runs take /));
  await submit(daemon, bob);
  const { out, err } = await mosaic(["usage", "--state-dir", stateDir]);
  assert.match(out, /^ada .* of 2(\.0+)? Mi?B/m, err);
});
