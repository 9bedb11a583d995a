import assert from "node:assert/strict";
import { messagesOf } from "../../src/wire/http/connect.ts";
import { socketStream } from "../../src/wire/client/socket_stream.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { Ingest } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { endOfStream } from "../../src/rpc/connect/errors.ts";
import { readTextIfThere } from "../../src/os/files/files.ts";
import { until } from "../harness/wait.ts";
import { certificates } from "../rpc/auth/certificates.ts";
import { numbers, printSteps, RUN, Scene } from "./scene.ts";
import { FakeDaemon } from "./fake_daemon.ts";

function framed(...texts: string[]): number[] {
  return texts.flatMap((text) => [0, 0, 0, 0, text.length, ...new TextEncoder().encode(text)]);
}

async function textsOf(chunks: number[][]): Promise<string[]> {
  async function* body() {
    for (const chunk of chunks) yield Uint8Array.from(chunk);
  }
  return (await Array.fromAsync(messagesOf(body()))).map((bytes) =>
    new TextDecoder().decode(bytes)
  );
}

Deno.test("connect: messages are whole, however the bytes come, and a stream without its end has broken off", async () => {
  const bytes = [...framed("one", "", "three"), ...endOfStream()];
  const expected = ["one", "", "three"];
  assert.deepEqual(await textsOf([bytes]), expected);
  assert.deepEqual(await textsOf(bytes.map((byte) => [byte])), expected);
  for (let at = 1; at < bytes.length; at++) {
    assert.deepEqual(
      await textsOf([bytes.slice(0, at), bytes.slice(at)]),
      expected,
      `cut at ${at}`,
    );
    await assert.rejects(textsOf([bytes.slice(0, at)]), /broke off the stream/);
  }
  await assert.rejects(textsOf([[1, 0, 0, 0, 1, 65]]), /a message of 1 bytes with the flags 1/);
  await assert.rejects(textsOf([[0, 255, 255, 255, 255]]), /a message of 4294967295 bytes/);
});

Deno.test("socket stream: a refusal comes with its code, text and hint", async () => {
  const directory = Deno.makeTempDirSync();
  const daemon = new FakeDaemon();
  daemon.start(`unix:${directory}/daemon.sock`);
  const refusal = new MosaicError("not_found", "kein Lauf „ä“", {
    hint: "Schau mit mosaic list – ↯.",
  });
  daemon.refusal = refusal;
  const stream = socketStream(Ingest.method.deliver, { target: daemon.target });
  try {
    stream.send({ message: { case: "hello", value: { runId: RUN } } });
    await assert.rejects(Array.fromAsync(stream), (error) => {
      assert(error instanceof MosaicError);
      assert.deepEqual([error.code, error.message, error.hint], [
        "not_found",
        refusal.message,
        refusal.hint,
      ]);
      return true;
    });
  } finally {
    stream.cancel();
    await daemon.stop();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("socket stream: what is no daemon's API is told from one", async () => {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => new Response("no", { status: 403 }),
  );
  const stream = socketStream(Ingest.method.deliver, {
    target: `127.0.0.1:${(server.addr as Deno.NetAddr).port}`,
  });
  try {
    stream.send({ message: { case: "hello", value: { runId: RUN } } });
    await assert.rejects(Array.fromAsync(stream), /is not a daemon's API: HTTP status 403/);
  } finally {
    stream.cancel();
    await server.shutdown();
  }
});

Deno.test("socket stream: a daemon that goes ends the stream, one that is not there is named", async () => {
  const directory = Deno.makeTempDirSync();
  const daemon = new FakeDaemon();
  daemon.start(`unix:${directory}/daemon.sock`);
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
  const nobody = socketStream(Ingest.method.deliver, { target: daemon.target });
  await assert.rejects(Array.fromAsync(nobody), (error) => {
    return error instanceof MosaicError && /^no daemon answers at unix:\S+: .+/.test(error.message);
  });
  nobody.cancel();
  Deno.removeSync(directory, { recursive: true });
});

Deno.test("socket stream: what ends a call after its first answer is told, too", async () => {
  const daemon = new FakeDaemon();
  daemon.start();
  const stream = socketStream(Ingest.method.deliver, { target: daemon.target });
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
  const open = () =>
    socketStream(Ingest.method.deliver, { target: "127.0.0.1:1", token: "mst_ä\n" });
  assert.throws(open, (error) => {
    assert(error instanceof MosaicError && error.code === "invalid_argument");
    assert.match(error.message, /authorization has characters/);
    assert.doesNotMatch(error.message, /mst_/);
    return true;
  });
});

Deno.test("proxy: delivers over a Unix socket", async () => {
  await using scene = new Scene();
  scene.daemon.start(`unix:${scene.directory}/daemon.sock`);
  scene.announce();
  assert.equal(await scene.shell(printSteps(0, 50)).code(), 0);
  assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 50));
});

Deno.test("proxy: under permissions that an older mosaic has planned for a socket it delivers all the same", async () => {
  await using scene = new Scene();
  const socket = `unix:${scene.directory}/daemon.sock`;
  scene.daemon.start(socket);
  scene.announce();
  const net = `--allow-net=${socket}`;
  const proxy = scene.shell(printSteps(0, 50), {
    permissions: [
      "--allow-read",
      "--allow-write",
      "--allow-run=/bin/sh",
      "--allow-env",
      "--allow-sys",
      net,
    ],
  });
  assert.equal(await proxy.code(), 0, (await proxy.output).stderr);
  assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 50));
});

Deno.test("proxy: delivers over TLS, to a daemon whose certificate has another name, and not to one that it does not know", async () => {
  await using scene = new Scene();
  const { ca, server, client } = certificates(scene.directory);
  const tls = { cert: Deno.readTextFileSync(server.cert), key: Deno.readTextFileSync(server.key) };
  scene.daemon.start("127.0.0.1:0", tls);
  Deno.writeTextFileSync(`${scene.directory}/token`, "secret\n");
  const deliver = (ca: string) => {
    const args = [
      "--target",
      scene.daemon.target,
      "--run-id",
      RUN,
      "--tls-ca",
      ca,
      "--tls-server-name",
      "localhost",
    ];
    return scene.bare([
      ...args,
      "--token-file",
      `${scene.directory}/token`,
      "--",
      "sh",
      "-c",
      printSteps(0, 50),
    ], {
      env: { MOSAIC_STATE_DIR: `${scene.directory}/state` },
    });
  };
  const stranger = deliver(client.cert);
  const log = () =>
    readTextIfThere(`${scene.directory}/state/trainer/runs/${RUN}/logs/proxy.log`) ?? "";
  await until(() => /TLS with the daemon at \S+ failed: .*certificate/.test(log()), {
    what: "it to be refused",
    state: log,
  });
  await stranger.kill();
  assert.deepEqual([scene.daemon.tokens, scene.daemon.hellos.length], [[], 0]);
  assert.equal(await deliver(ca).code(), 0);
  assert.deepEqual(scene.daemon.steps.map((s) => s.step), numbers(0, 50));
  assert.deepEqual(scene.daemon.tokens, ["Bearer secret"]);
});

Deno.test("proxy: a proxy for HTTP in the environment is none of its business", async () => {
  await using scene = new Scene();
  scene.daemon.start();
  const env = {
    http_proxy: "http://127.0.0.1:9",
    HTTP_PROXY: "http://127.0.0.1:9",
    ALL_PROXY: "http://127.0.0.1:9",
  };
  const args = [
    "--target",
    scene.daemon.target,
    "--run-id",
    RUN,
    "--",
    "sh",
    "-c",
    printSteps(0, 5),
  ];
  const proxy = scene.bare(args, { env: { ...env, MOSAIC_STATE_DIR: `${scene.directory}/state` } });
  assert.equal(await proxy.code(), 0);
  assert.equal(scene.daemon.steps.length, 5);
});
