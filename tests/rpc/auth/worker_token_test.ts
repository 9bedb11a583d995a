/**
 * A worker that speaks gRPC itself, under --auth token: what its run's session token lets it do,
 * and what not.
 */
import assert from "node:assert/strict";
import { readTokens } from "../../../src/wire/tokens.ts";
import { GrpcClient } from "../../harness/grpc_client.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { until } from "../../harness/wait.ts";

const WORKER = new URL("grpc_worker.ts", import.meta.url).pathname;

Deno.test("a worker that calls gRPC itself publishes for its run with MOSAIC_TOKEN_FILE, and can do nothing else", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const { admin } = readTokens(daemon.layout.tokensFile)!;
  const client = new GrpcClient(daemon.address, { token: admin, deadlineMs: 60_000 });
  const submitted = async (command: string[]) =>
    (await client.unary(TrainerService.method.submitRun, { configJson: configOf({ command }) }))
      .runId;
  const ended = (run: string) =>
    until(async () => {
      const now = await daemon.client.unary(Mosaic.method.getRun, { run });
      return now.outcome === "" ? undefined : now;
    }, { what: `${run} to end`, state: () => daemon.output().slice(-2000) });
  try {
    const other = await submitted(["/bin/sh", "-c", "while :; do echo '{}'; sleep 0.2; done"]);
    const program = [
      Deno.execPath(),
      "run",
      "-A",
      "--no-check",
      WORKER,
      daemon.address,
      daemon.http,
      other,
    ];
    const run = await ended(await submitted(program));
    assert.equal(run.state, "TERMINATED", run.reason);
    const said = JSON.parse(Deno.readTextFileSync(`${run.directory}/said.json`));
    assert.deepEqual(said, {
      mode: "600",
      "registration of its run": "done",
      "heartbeat of its run": "done",
      "steps of its run": "done",
      "heartbeat of another run": "permission_denied",
      "steps of another run": "permission_denied",
      "deliver as its proxy": "unauthenticated",
      "deliver with what registering gives": "unauthenticated",
      "pause its run": "permission_denied",
      "cancel its run": "unauthenticated",
      "list runs": "unauthenticated",
      "read its telemetry": "unauthenticated",
      "submit a run": "unauthenticated",
      "stop the daemon": "unauthenticated",
      "heartbeat without a token": "unauthenticated",
    });
    assert.equal(run.telemetry?.steps, 1n);
    await client.unary(TrainerService.method.cancelRun, { runId: other });
    await ended(other);
  } finally {
    client.close();
  }
});
