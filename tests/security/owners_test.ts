/**
 * Several people with tokens of their own on one daemon: whose runs are whose, and as whom they
 * run.
 */
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { createToken } from "../../src/wire/tokens.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { PlannedDaemon } from "../harness/planned_daemon.ts";
import { getRun, submit, untilState } from "../harness/runs.ts";
import { hasCode } from "../registry/fixture.ts";
import { mosaic } from "../system/machine/cli.ts";

/** Users of every Debian and Ubuntu. */
const [ADA, BOB] = ["games", "nobody"] as const;

function personOf(daemon: TestDaemon, name: string) {
  const token = createToken(daemon.layout.tokensFile, { name, role: "operate", own: true });
  return { token, client: new MosaicClient(daemon.http, { token }) };
}

/** As the page's script does. @returns status and answer */
async function onPage(
  daemon: TestDaemon,
  token: string,
  path: string,
): Promise<{ status: number; text: string }> {
  const headers = { authorization: `Bearer ${token}` };
  const session = await (await fetch(`http://${daemon.http}/api/session`, { headers })).json();
  const init = { method: "POST", headers: { ...headers, "x-mosaic-token": session.token } };
  const answer = await fetch(`http://${daemon.http}${path}`, init);
  return { status: answer.status, text: await answer.text() };
}

Deno.test("owners: a token for one's own runs operates those, by API, page and many at once, and no other's", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const [ada, bob] = [personOf(daemon, ADA), personOf(daemon, BOB)];
  try {
    const configJson = configOf({ command: ["sleep", "600"] });
    const { runId: adas } = await ada.client.unary(TrainerService.method.submitRun, { configJson });
    const other = configOf({ name: "bobs", command: ["sleep", "601"] });
    const { runId: bobs } = await bob.client.unary(TrainerService.method.submitRun, {
      configJson: other,
    });
    const mine = await ada.client.unary(Mosaic.method.listRuns, { mine: true });
    assert.deepEqual(mine.runs.map(({ runId, owner }) => [runId, owner]), [[adas, ADA]]);
    assert.equal(
      (await ada.client.unary(Mosaic.method.listRuns, { where: `owner = ${BOB}` })).runs.length,
      1,
    );

    const refused = hasCode(
      "permission_denied",
      new RegExp(`${ADA} may change only its own runs, and .* ${BOB}'s`),
    );
    const edit = { run: bobs, addTags: ["x"] };
    await assert.rejects(ada.client.unary(Mosaic.method.editRun, edit), refused);
    await assert.rejects(ada.client.unary(Mosaic.method.cancelRun, { run: "bobs" }), refused);
    await assert.rejects(
      ada.client.unary(TrainerService.method.cancelRun, { runId: bobs }),
      refused,
    );
    const page = await onPage(daemon, ada.token, `/api/runs/${bobs}/cancel`);
    assert.equal(page.status, 403);
    assert.match(page.text, /may change only its own runs/);
    assert.equal((await onPage(daemon, ada.token, `/api/runs/${adas}/cancel`)).status, 200);
    await untilState(daemon, adas, "CANCELLED");
    await bob.client.unary(Mosaic.method.cancelRun, { run: bobs });
    await untilState(daemon, bobs, "CANCELLED");

    // Nor does she delete his, also when hers of the same name is not in the trash.
    await assert.rejects(ada.client.unary(Mosaic.method.deleteRun, { run: bobs }), refused);
    assert.equal((await onPage(daemon, ada.token, `/api/runs/${bobs}/delete`)).status, 403);
    await bob.client.unary(Mosaic.method.deleteRun, { run: bobs });
    await ada.client.unary(Mosaic.method.editRun, { run: adas, name: "bobs" });
    await assert.rejects(ada.client.unary(Mosaic.method.restoreRun, { run: "bobs" }), refused);
    await bob.client.unary(Mosaic.method.restoreRun, { run: "bobs" });
    assert.equal((await onPage(daemon, ada.token, `/api/runs/${adas}/delete`)).status, 200);
    await ada.client.unary(Mosaic.method.restoreRun, { run: adas });
  } finally {
    ada.client.close();
    bob.client.close();
  }
});

Deno.test("owners: a sweep belongs to who began it", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const [ada, bob] = [personOf(daemon, ADA), personOf(daemon, BOB)];
  try {
    const config = JSON.parse(configOf({ command: ["true"] }));
    const parts = [{ axes: [{ name: "i", values: [1, 2] }] }];
    const specJson = JSON.stringify({ name: "lr", config, pass: "flags", parts, budget: {} });
    await ada.client.unary(Mosaic.method.createSweep, { specJson });
    const pause = { sweep: "lr", action: "pause" };
    await assert.rejects(
      bob.client.unary(Mosaic.method.changeSweep, pause),
      hasCode("permission_denied", /its own sweeps/),
    );
    assert.equal((await onPage(daemon, bob.token, "/api/sweeps/lr/cancel")).status, 403);
    await ada.client.unary(Mosaic.method.changeSweep, pause);
  } finally {
    ada.client.close();
    bob.client.close();
  }
});

Deno.test("owners: --own is for the role operate", async () => {
  const stateDir = Deno.makeTempDirSync();
  const create = (...args: string[]) =>
    mosaic(["token", "create", "--state-dir", stateDir, "--own", ...args]);
  const wrong = await create("--name", "a", "--role", "submit");
  assert.equal(wrong.code, 2, wrong.err);
  assert.match(wrong.err, /role submit cannot be limited to its own runs/);
  assert.equal((await create("--name", "b", "--role", "operate")).code, 0);
  const { out } = await mosaic(["token", "list", "--state-dir", stateDir]);
  assert.match(out, /^b\s+operate \(own runs\)/m);
});

Deno.test({
  name:
    "owners: with --worker-user @owner each run is a process of its owner's user, and others' are refused",
  ignore: Deno.uid() !== 0,
  async fn() {
    await using planned = await PlannedDaemon.start(["--worker-user", "@owner"]);
    const { daemon } = planned;
    // The test's own directory is above it.
    for (const directory of [daemon.stateDir, dirname(daemon.stateDir)]) {
      if (directory !== "/tmp") await Deno.chmod(directory, 0o711);
    }
    const configJson = configOf({
      command: ["/bin/sh", "-c", "id -un; echo step 3 loss 0.5 >&2"],
      metadata: {
        worker: {
          script: "/bin/sh",
          arguments: ["-c", "id -un; echo step 3 loss 0.5 >&2"],
          use_grpc: false,
        },
      },
    });
    for (const name of [ADA, BOB]) {
      const { client } = personOf(daemon, name);
      try {
        const { runId } = await client.unary(TrainerService.method.submitRun, { configJson });
        await untilState(daemon, runId, "TERMINATED");
        assert.equal((await mosaic(["logs", "--target", daemon.target, runId])).out, `${name}\n`);
        // The log of standard error is read with the daemon's rights, and nothing is said not to be
        // read.
        const { telemetry } = await getRun(daemon, runId);
        assert.deepEqual([telemetry!.metrics, telemetry!.violations], [1n, {}]);
      } finally {
        client.close();
      }
    }
    const stranger = personOf(daemon, "no-such-user");
    try {
      await assert.rejects(
        stranger.client.unary(TrainerService.method.submitRun, { configJson }),
        hasCode("failed_precondition", /knows no user "no-such-user"/),
      );
    } finally {
      stranger.client.close();
    }
    // Root's own runs would be root's.
    await assert.rejects(submit(daemon, configJson), hasCode("failed_precondition", /root/));
  },
});
