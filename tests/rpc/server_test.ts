import assert from "node:assert/strict";
import { fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";
import { Client, credentials } from "@grpc/grpc-js";
import { Buffer } from "node:buffer";
import { connect as connectTcp } from "node:net";
import { connect } from "../../src/wire/client/client.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../src/gen/grpc/health/v1/health_pb.ts";
import {
  ServerReflection,
  type ServerReflectionRequest,
  type ServerReflectionResponse,
} from "../../src/gen/grpc/reflection/v1/reflection_pb.ts";
import { isLoopback, parseListen } from "../../src/wire/address/address.ts";
import { certificates } from "./auth/certificates.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import { executing, RecordedEngine, startRpc, withServer } from "./fixture.ts";

Deno.test("listen: addresses are read, and what is none is refused", () => {
  assert.deepEqual(parseListen("127.0.0.1:0"), { type: "tcp", host: "127.0.0.1", port: 0 });
  assert.deepEqual(parseListen("[::1]:50055"), { type: "tcp", host: "[::1]", port: 50055 });
  assert.deepEqual(parseListen("unix:/run/m.sock"), { type: "unix", path: "/run/m.sock" });
  assert.deepEqual(parseListen("unix:///run/m.sock"), { type: "unix", path: "/run/m.sock" });
  for (const text of ["", "50055", "host", "host:", "host:99999", "::1:80", "unix:", "a b:1"]) {
    assert.throws(() => parseListen(text), hasCode("invalid_argument"));
  }
});

Deno.test("listen: what only this machine can reach", () => {
  for (const text of ["127.0.0.1:1", "127.8.9.1:1", "localhost:1", "[::1]:1", "unix:/x"]) {
    assert.ok(isLoopback(parseListen(text)), text);
  }
  for (const text of ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "127.evil.com:1", "example.org:1"]) {
    assert.ok(!isLoopback(parseListen(text)), text);
  }
});

Deno.test("listen: a taken port is unavailable and named", async () => {
  await withServer(async ({ server, core }) => {
    await assert.rejects(
      startRpc(core, { listen: server.address, log: core.log }),
      hasCode("unavailable", new RegExp(`${server.address}.*in use`)),
    );
  });
});

Deno.test("listen: a Unix socket is private, a stale file is replaced, a live one is not", async () => {
  await using core = new RecordedEngine();
  const { directory } = core;
  const path = `${directory}/m.sock`;
  // What a killed server leaves behind.
  const killed = await new Deno.Command(Deno.execPath(), {
    args: [
      "eval",
      `Deno.listen({transport: "unix", path: ${JSON.stringify(path)}}); Deno.exit(0);`,
    ],
  }).output();
  assert.ok(killed.success);
  assert.ok(Deno.lstatSync(path).isSocket);
  const server = await startRpc(core, { listen: `unix:${path}`, log: core.log });
  try {
    assert.equal(Deno.lstatSync(path).mode! & 0o777, 0o600);
    const client = new GrpcClient(server.address);
    assert.equal(
      (await client.unary(TrainerService.method.getHealth, {})).listenAddress,
      `unix:${path}`,
    );
    client.close();
    await assert.rejects(
      startRpc(core, { listen: `unix:${path}`, log: core.log }),
      hasCode("unavailable", /in use/),
    );
  } finally {
    await server.stop(1000);
  }
  Deno.writeTextFileSync(`${directory}/file`, "precious");
  await assert.rejects(
    startRpc(core, { listen: `unix:${directory}/file`, log: core.log }),
    hasCode("unavailable", /is not a socket/),
  );
  assert.equal(Deno.readTextFileSync(`${directory}/file`), "precious");
});

Deno.test("stop: streams end as UNAVAILABLE, and nothing listens any more", async () => {
  await withServer(async ({ server, client }) => {
    const watching = (async () => {
      for await (const _ of client.stream(TrainerService.method.watchRuns, {})) {
        /* nothing comes */
      }
    })();
    await client.unary(TrainerService.method.getHealth, {});
    await Promise.all([
      assert.rejects(watching, hasCode("unavailable", /stopping/)),
      server.stop(20_000),
    ]);
    const other = new GrpcClient(server.address);
    await assert.rejects(other.unary(TrainerService.method.getHealth, {}), (error) => {
      assert.match((error as { hint: string }).hint, /mosaic up/);
      return hasCode("unavailable", /no daemon answers/)(error);
    });
    other.close();
  });
});

Deno.test("health: SERVING, follows the store, unknown services are told", async () => {
  await withServer(async ({ client, core }) => {
    const { method } = Health;
    for (const service of ["", TrainerService.typeName]) {
      assert.equal((await client.unary(method.check, { service })).status, Serving.SERVING);
    }
    await assert.rejects(client.unary(method.check, { service: "x.Y" }), hasCode("not_found"));
    const seen: Serving[] = [];
    for await (const { status } of client.stream(method.watch, { service: "" })) {
      seen.push(status);
      if (seen.length === 1) core.full = true;
      if (seen.length === 2) break;
    }
    assert.deepEqual(seen, [Serving.SERVING, Serving.NOT_SERVING]);
    const statuses = (await client.unary(method.list, {})).statuses;
    assert.equal(statuses[TrainerService.typeName]?.status, Serving.NOT_SERVING);
  });
});

Deno.test("reflection: lists services and gives files with all they import, under both names", async () => {
  await withServer(async ({ client, server }) => {
    const call = client.duplex(ServerReflection.method.serverReflectionInfo);
    const answers = call[Symbol.asyncIterator]();
    const ask = async (messageRequest: ServerReflectionRequest["messageRequest"]) => {
      call.send({ messageRequest });
      return ((await answers.next()).value as ServerReflectionResponse).messageResponse;
    };
    const services = await ask({ case: "listServices", value: "" });
    assert.equal(services.case, "listServicesResponse");
    const names = services.case === "listServicesResponse"
      ? services.value.service.map((s) => s.name)
      : [];
    assert.ok(
      names.includes("gymgui.trainer.TrainerService") && names.includes("grpc.health.v1.Health"),
      names.join(),
    );
    for (const value of ["gymgui.trainer.TrainerService", "gymgui.trainer.RunStep.reward"]) {
      const answer = await ask({ case: "fileContainingSymbol", value });
      assert.equal(answer.case, "fileDescriptorResponse");
      const files = answer.case === "fileDescriptorResponse"
        ? answer.value.fileDescriptorProto
        : [];
      const decoded = files.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes).name);
      assert.ok(decoded.includes("google/protobuf/timestamp.proto"), decoded.join());
    }
    const unknown = await ask({ case: "fileByFilename", value: "no.proto" });
    assert.equal(unknown.case === "errorResponse" && unknown.value.errorCode, 5);
    call.end();
    assert.equal((await answers.next()).done, true);

    const raw = new Client(server.address, credentials.createInsecure());
    const bytes = (b: Buffer) => b;
    const old = raw.makeBidiStreamRequest(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      bytes,
      bytes,
    );
    // list_services = ""
    old.write(Buffer.from([0x3a, 0]));
    const answer = await new Promise<Buffer>((resolve, reject) =>
      old.once("data", resolve).once("error", reject)
    );
    assert.ok(answer.includes("gymgui.trainer.TrainerService"));
    old.end();
    await new Promise((resolve) => old.once("end", resolve).resume());
    raw.close();
  });
});

/** A TCP connection that says nothing. */
function silent(address: string) {
  const [host, port] = address.split(":");
  const socket = connectTcp(Number(port), host);
  const opened = new Promise<void>((resolve) => socket.once("connect", () => resolve()));
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => {});
  // Else the end of what the server sends is not seen.
  socket.resume();
  return { socket, opened, closed };
}

Deno.test("limits: a connection on which nobody calls is closed, over TLS too", async () => {
  const directory = Deno.makeTempDirSync();
  try {
    const { ca, server: tls } = certificates(directory);
    for (const options of [{}, { tls }]) {
      await withServer(async ({ server }) => {
        const client = new GrpcClient(
          server.address,
          "tls" in options ? { tls: { ca }, serverName: "localhost" } : {},
        );
        try {
          const leave = new AbortController();
          // On a slow machine its own first call may come too late, too.
          const watching = await until(async () => {
            const stream = client.stream(Health.method.watch, {}, leave.signal);
            return await stream.next().then(() => stream, () => undefined);
          }, { what: "a stream" });
          // One that was called on stays.
          let ended = false;
          const next = watching.next().finally(() => ended = true);
          await silent(server.address).closed;
          assert.equal(ended, false);
          leave.abort();
          await next;
        } finally {
          client.close();
        }
      }, { ...options, firstCallMs: 300 });
    }
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("limits: calls on connections beyond the bound are refused, and there is room again when some go", async () => {
  await withServer(async ({ server, client }) => {
    const held = [silent(server.address), silent(server.address)];
    await Promise.all(held.map(({ opened }) => opened));
    await assert.rejects(
      client.unary(TrainerService.method.getHealth, {}),
      hasCode("resource_exhausted", /3 connections are open; the limit is 2 \(--max-connections\)/),
    );
    // Twice as many as the bound leave no room for anybody.
    const more = [silent(server.address), silent(server.address), silent(server.address)];
    await Promise.any(more.map(({ closed }) => closed));
    for (const { socket } of more) socket.destroy();
    for (const { socket } of held) socket.destroy();
    await until(() => client.unary(TrainerService.method.getHealth, {}).catch(() => undefined), {
      what: "an answer",
    });
  }, { bounds: { maxConnections: 2 } });
});

Deno.test("limits: a message of 60 MB passes, one beyond 64 MiB is refused", async () => {
  await withServer(async ({ client }) => {
    const { submitRun } = TrainerService.method;
    // It has come whole, and is too much for a config.
    await assert.rejects(
      client.unary(submitRun, { configJson: "x".repeat(60_000_000) }, { deadlineMs: 60_000 }),
      hasCode(
        "invalid_argument",
        /^config_json of \S+ has 60000000 bytes; the bound is 8388608 bytes/,
      ),
    );
    await assert.rejects(
      client.unary(submitRun, { configJson: "x".repeat(70_000_000) }, { deadlineMs: 60_000 }),
      hasCode("resource_exhausted"),
    );
  });
});

Deno.test("limits: more streams than allowed are refused, and there is room again when some end", async () => {
  await withServer(async ({ client, core }) => {
    const id = executing(core);
    const leave = new AbortController();
    const first = client.stream(TrainerService.method.streamRunSteps, { runId: id }, leave.signal)
      [Symbol.asyncIterator]();
    const waiting = first.next();
    await assert.rejects(async () => {
      // The refusal may come only once the first stream is open at the server.
      for (;;) {
        const stop = AbortSignal.timeout(50);
        for await (
          const _ of client.stream(TrainerService.method.watchRuns, {}, stop)
        ) { /* snapshot */ }
      }
    }, hasCode("resource_exhausted", /1 streams are open/));
    leave.abort();
    await waiting;
    for (;;) {
      try {
        for await (const record of client.stream(TrainerService.method.watchRuns, {})) {
          assert.equal(record.runId, id);
          return;
        }
      } catch (error) {
        // Until the server has seen that the first one left.
        assert.ok(hasCode("resource_exhausted")(error));
      }
    }
  }, { bounds: { maxStreams: 1 } });
});

Deno.test("connect: a target is found by option, environment or daemon.json, else the error says how to start", () => {
  const stateDir = Deno.makeTempDirSync();
  try {
    const env = (name: string) => name === "MOSAIC_TARGET" ? "1.2.3.4:5" : undefined;
    assert.equal(connect({ target: "h:1", env }).target, "h:1");
    assert.equal(connect({ env }).target, "1.2.3.4:5");
    assert.throws(() => connect({ stateDir, env }), (error) => {
      assert.match((error as { hint: string }).hint, /mosaic up --state-dir/);
      return hasCode("unavailable", /no daemon runs in/)(error);
    });
    Deno.mkdirSync(`${stateDir}/trainer`);
    Deno.writeTextFileSync(`${stateDir}/trainer/daemon.json`, '{"socket":"/run/d.sock"}');
    assert.equal(connect({ stateDir, env }).target, "unix:/run/d.sock");
    for (const text of ['{"listen":"0.0.0.0:50055"}', "{torn"]) {
      Deno.writeTextFileSync(`${stateDir}/trainer/daemon.json`, text);
      assert.throws(
        () => connect({ stateDir, env }),
        hasCode("unavailable", /does not name the daemon's socket/),
      );
    }
  } finally {
    Deno.removeSync(stateDir, { recursive: true });
  }
});
