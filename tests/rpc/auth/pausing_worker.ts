/**
 * A worker that registers with supports_pause, for worker_pause_test.ts. Argument: the daemon's
 * address, or also "deaf".
 */
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { GrpcClient } from "../../harness/grpc_client.ts";

const [address, deaf] = Deno.args;
const runId = Deno.env.get("MOSAIC_RUN_ID")!;
const token = Deno.readTextFileSync(Deno.env.get("MOSAIC_TOKEN_FILE")!).trim();
const client = new GrpcClient(address!, { token, deadlineMs: 60_000 });
await client.unary(TrainerService.method.registerWorker, { runId, supportsPause: true });

let paused = false;
let step = 0;
const timer = setInterval(() => {
  if (!paused) console.log(JSON.stringify({ type: "step", step_index: step++, reward: 1 }));
}, 20);
if (deaf === undefined) {
  const control = client.duplex(TrainerService.method.controlStream);
  control.send({ runId });
  for await (const { event } of control) {
    if (event.case === "maxRateHz") {
      Deno.writeTextFileSync(`${Deno.env.get("MOSAIC_RUN_DIR")}/listens`, "");
    }
    if (event.case !== "pause" && event.case !== "resume") continue;
    paused = event.case === "pause";
    console.log(JSON.stringify({ event: paused ? "paused" : "resumed", steps: step }));
    if (!paused) break;
  }
  clearInterval(timer);
  client.close();
}
