/**
 * A worker, for worker_token_test.ts: arguments are the daemon's addresses of gRPC and of the API,
 * and the id of somebody else's run.
 */
import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { GrpcClient } from "../../harness/grpc_client.ts";
import { MosaicClient } from "../../../src/wire/client/client.ts";
import { MosaicError } from "../../../src/base/errors.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Ingest, ProxyMessageSchema } from "../../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { StreamCall } from "../../../src/wire/client/socket_stream.ts";

const [address, http, other] = Deno.args;
const runId = Deno.env.get("MOSAIC_RUN_ID")!;
const file = Deno.env.get("MOSAIC_TOKEN_FILE")!;
const token = Deno.readTextFileSync(file).trim();
const client = new GrpcClient(address!, { token, deadlineMs: 60_000 });
const api = new MosaicClient(http!, { token });
const { method } = TrainerService;

const register = () => client.unary(method.registerWorker, { runId, protoVersion: "MOSAIC/1.0" });

async function publish(run: string): Promise<void> {
  const upload = client.upload(method.publishRunSteps);
  upload.answer.catch(() => {});
  await upload.send({ runId: run, stepIndex: 0n, reward: 1 });
  upload.end();
  await upload.answer;
}

type ProxyInit = NonNullable<
  Exclude<MessageInitShape<typeof ProxyMessageSchema>, { $typeName: string }>["message"]
>;

/** The whole of what a proxy would say: the greeting, and that the worker has ended. */
async function deliver(token: string): Promise<void> {
  const stream = new StreamCall(Ingest.method.deliver, {
    target: http!,
    token,
    tls: undefined,
    serverName: undefined,
  });
  const send = (message: ProxyInit) =>
    stream.send(toBinary(ProxyMessageSchema, create(ProxyMessageSchema, { message })));
  send({ case: "hello", value: { protocol: "mosaic-ingest/1.0", runId, attempt: 1 } });
  send({ case: "exit", value: { code: 0 } });
  try {
    for await (const _ of stream.messages()) break;
  } finally {
    stream.cancel();
  }
}

const attempts: Record<string, () => Promise<unknown>> = {
  // As the original's workers begin: its proxy may not have connected yet.
  "registration of its run": () => register(),
  "heartbeat of its run": () => client.unary(method.heartbeat, { runId }),
  "steps of its run": () => publish(runId),
  "heartbeat of another run": () => client.unary(method.heartbeat, { runId: other }),
  "steps of another run": () => publish(other!),
  "deliver as its proxy": () => deliver(token),
  "deliver with what registering gives": async () => {
    const { sessionToken } = await register();
    await deliver(sessionToken);
  },
  "pause its run": async () => {
    const control = client.duplex(method.controlStream);
    control.send({ runId, event: { case: "pause", value: true } });
    for await (const _ of control) break;
  },
  "cancel its run": () => client.unary(method.cancelRun, { runId }),
  "list runs": () => client.unary(method.listRuns, {}),
  "read its telemetry": () => client.stream(method.streamRunSteps, { runId }).next(),
  "submit a run": () => client.unary(method.submitRun, { configJson: "{}" }),
  "stop the daemon": () => api.unary(Mosaic.method.shutdown, {}),
  "heartbeat without a token": async () => {
    const stranger = new GrpcClient(address!, { deadlineMs: 60_000 });
    await stranger.unary(method.heartbeat, { runId }).finally(() => stranger.close());
  },
};

const said: Record<string, string> = { mode: (Deno.statSync(file).mode! & 0o777).toString(8) };
for (const [name, attempt] of Object.entries(attempts)) {
  said[name] = await attempt().then(
    () => "done",
    (error) => error instanceof MosaicError ? error.code : String(error),
  );
}
Deno.writeTextFileSync(`${Deno.env.get("MOSAIC_RUN_DIR")}/said.json`, JSON.stringify(said));
client.close();
api.close();
