/**
 * supports_pause of RegisterWorker: a worker that follows its run on a ControlStream is asked; any
 * other is stopped.
 */
import assert from "node:assert/strict";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { readTokens } from "../../../src/wire/tokens.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { GrpcClient } from "../../harness/grpc_client.ts";
import { until } from "../../harness/wait.ts";

const WORKER = new URL("pausing_worker.ts", import.meta.url).pathname;

Deno.test("supports_pause of RegisterWorker: who hears of it on a ControlStream is asked, who does not is stopped", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token"] });
  const { admin } = readTokens(daemon.layout.tokensFile)!;
  const client = new GrpcClient(daemon.address, { token: admin, deadlineMs: 60_000 });
  const { method } = Mosaic;
  const begun = async (...more: string[]) => {
    const command = [Deno.execPath(), "run", "-A", "--no-check", WORKER, daemon.address, ...more];
    const { runId: run } = await client.unary(TrainerService.method.submitRun, {
      configJson: configOf({ command }),
    });
    await until(
      async () => ((await daemon.client.unary(method.getRun, { run })).telemetry?.steps ?? 0n) > 0n,
      {
        what: "steps",
      },
    );
    return run;
  };
  const is = (run: string, state: string) =>
    until(async () => {
      const now = await daemon.client.unary(method.getRun, { run });
      return now.state === state ? now : undefined;
    }, { what: `${run} to be ${state}`, state: () => daemon.output().slice(-2000) });
  const isStopped = (pid: number) =>
    /^State:\s*T/m.test(Deno.readTextFileSync(`/proc/${pid}/status`));
  try {
    const asked = await begun();
    // Until its stream is there it would be stopped: what it hears shows that it is.
    await daemon.client.unary(method.throttleRun, { run: asked, maxRateHz: 100_000 });
    const { directory } = await daemon.client.unary(method.getRun, { run: asked });
    const names = () => [...Deno.readDirSync(directory)].map(({ name }) => name);
    await until(() => names().includes("listens"), { what: "its stream" });
    await daemon.client.unary(method.pauseRun, { run: asked });
    const { workerPid } = await is(asked, "PAUSED");
    assert(!isStopped(Number(workerPid)), "it has paused by itself");
    await daemon.client.unary(method.resumeRun, { run: asked });
    await is(asked, "TERMINATED");
    const said = (await Array.fromAsync(
      daemon.client.stream(method.streamTelemetry, { run: asked, kind: "events" }),
    ))
      .flatMap(({ jsonl }) => new TextDecoder().decode(jsonl).trim().split("\n")).map((line) =>
        JSON.parse(line).event
      );
    assert.deepEqual(said, ["paused", "resumed"]);

    const deaf = await begun("deaf");
    await daemon.client.unary(method.pauseRun, { run: deaf });
    const { workerPid: deafPid } = await is(deaf, "PAUSED");
    // The kernel stops the last of its threads a moment after the signal.
    await until(() => isStopped(Number(deafPid)), { what: "a deaf worker to be stopped" });
    await client.unary(TrainerService.method.cancelRun, { runId: deaf });
    await is(deaf, "CANCELLED");
  } finally {
    client.close();
  }
});
