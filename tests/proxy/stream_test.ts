import { Server, ServerCredentials } from "@grpc/grpc-js";
import assert from "node:assert/strict";
import { messages, socketStream } from "../../src/wire/socket_stream.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { Ingest } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { rawService } from "../../src/wire/definition.ts";
import { statusOf } from "../../src/wire/status.ts";
import { until } from "../harness/wait.ts";
import { numbers, printSteps, RUN, Scene } from "./scene.ts";
import { FakeDaemon } from "./fake_daemon.ts";

function framed(...texts: string[]): number[] {
  return texts.flatMap((text) => [0, 0, 0, 0, text.length, ...new TextEncoder().encode(text)]);
}

async function textsOf(pieces: number[][]): Promise<string[]> {
  async function* body() {
    for (const piece of pieces) yield Uint8Array.from(piece);
  }
  return (await Array.fromAsync(messages(body()))).map((bytes) => new TextDecoder().decode(bytes));
}

Deno.test("socket stream: messages are whole, however the bytes come", async () => {
  const bytes = framed("one", "", "three");
  const expected = ["one", "", "three"];
  assert.deepEqual(await textsOf([bytes]), expected);
  assert.deepEqual(await textsOf(bytes.map((byte) => [byte])), expected);
  for (let at = 1; at < bytes.length; at++) {
    assert.deepEqual(await textsOf([bytes.slice(0, at), bytes.slice(at)]), expected, `cut at ${at}`);
  }
  await assert.rejects(textsOf([[1, 0, 0, 0, 1, 65]]), /a message of 1 bytes, coded 1/);
  await assert.rejects(textsOf([[0, 255, 255, 255, 255]]), /a message of 4294967295 bytes/);
});

Deno.test("socket stream: a refusal comes with its code, text and hint", async () => {
  const server = new Server();
  const refusal = new MosaicError("not_found", "kein Lauf „ä“", { hint: "Schau mit mosaic list – ↯." });
  server.addService(rawService(Ingest), {
    // deno-lint-ignore no-explicit-any
    deliver: (call: any) => call.emit("error", statusOf(refusal)),
  });
  const directory = Deno.makeTempDirSync();
  const target = `unix:${directory}/daemon.sock`;
  await new Promise<number>((resolve, reject) =>
    server.bindAsync(target, ServerCredentials.createInsecure(), (e, p) => e === null ? resolve(p) : reject(e))
  );
  const stream = socketStream(Ingest.method.deliver, { target, token: undefined });
  try {
    stream.send({ message: { case: "hello", value: { runId: RUN } } });
    await assert.rejects(Array.fromAsync(stream), (error) => {
      assert(error instanceof MosaicError);
      assert.deepEqual([error.code, error.message, error.hint], ["not_found", refusal.message, refusal.hint]);
      return true;
    });
    stream.cancel();
    let stopped = false;
    server.tryShutdown(() => stopped = true);
    await until(() => stopped, { what: "the daemon to stop: no request is left open" });
  } finally {
    stream.cancel();
    server.forceShutdown();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("socket stream: a daemon that goes ends the stream, one that is not there is named", async () => {
  const directory = Deno.makeTempDirSync();
  const daemon = new FakeDaemon();
  await daemon.start(`unix:${directory}/daemon.sock`);
  const stream = socketStream(Ingest.method.deliver, { target: daemon.target, token: "t" });
  try {
    stream.send({ message: { case: "hello", value: { runId: RUN } } });
    const reader = stream[Symbol.asyncIterator]();
    assert.equal((await reader.next()).value.message.case, "welcome");
    assert.deepEqual(daemon.tokens, ["Bearer t"]);
    const end = reader.next().catch((error) => error);
    await daemon.stop();
    assert.equal((await end).code, "unavailable", String(await end));
  } finally {
    stream.cancel();
  }
  const nobody = socketStream(Ingest.method.deliver, { target: daemon.target, token: undefined });
  await assert.rejects(Array.fromAsync(nobody), (error) => {
    return error instanceof MosaicError && /^no daemon answers at unix:\S+: .+/.test(error.message);
  });
  nobody.cancel();
  Deno.removeSync(directory, { recursive: true });
});

Deno.test("socket stream: what ends a call after its first answer is told, too", async () => {
  const daemon = new FakeDaemon();
  await daemon.start();
  const stream = socketStream(Ingest.method.deliver, { target: daemon.target, token: undefined });
  try {
    stream.send({ message: { case: "hello", value: { runId: RUN } } });
    const reader = stream[Symbol.asyncIterator]();
    assert.equal((await reader.next()).value.message.case, "welcome");
    const end = reader.next().catch((error) => error);
    daemon.cut();
    const { code, message } = await end;
    assert.deepEqual([code, message], ["aborted", "cut"]);
  } finally {
    stream.cancel();
    await daemon.stop();
  }
});

Deno.test("socket stream: a token that no header may have is refused without showing it", () => {
  const open = () => socketStream(Ingest.method.deliver, { target: "127.0.0.1:1", token: "mst_ä\n" });
  assert.throws(open, (error) => {
    assert(error instanceof MosaicError && error.code === "invalid_argument");
    assert.match(error.message, /authorization has characters/);
    assert.doesNotMatch(error.message, /mst_/);
    return true;
  });
});

Deno.test("proxy: delivers over a Unix socket", async () => {
  await using scene = new Scene();
  await scene.daemon.start(`unix:${scene.directory}/daemon.sock`);
  scene.announce();
  assert.equal(await scene.shell(printSteps(0, 50)).code(), 0);
  assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 50));
});

Deno.test("proxy: under permissions that an older mosaic has planned for a socket it delivers all the same", async () => {
  await using scene = new Scene();
  const socket = `unix:${scene.directory}/daemon.sock`;
  await scene.daemon.start(socket);
  scene.announce();
  const net = `--allow-net=${socket}`;
  const proxy = scene.shell(printSteps(0, 50), {
    permissions: ["--allow-read", "--allow-write", "--allow-run=/bin/sh", "--allow-env", "--allow-sys", net],
  });
  assert.equal(await proxy.code(), 0, (await proxy.output).stderr);
  assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 50));
});

Deno.test("proxy: a proxy for HTTP in the environment is none of its business", async () => {
  await using scene = new Scene();
  await scene.daemon.start();
  const env = { http_proxy: "http://127.0.0.1:9", HTTP_PROXY: "http://127.0.0.1:9", ALL_PROXY: "http://127.0.0.1:9" };
  const args = ["--target", scene.daemon.target, "--run-id", RUN, "--", "sh", "-c", printSteps(0, 5)];
  const proxy = scene.bare(args, { env: { ...env, MOSAIC_STATE_DIR: `${scene.directory}/state` } });
  assert.equal(await proxy.code(), 0);
  assert.equal(scene.daemon.steps.length, 5);
});
