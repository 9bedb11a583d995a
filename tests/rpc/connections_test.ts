/** The listener of page and API under clients that come and go, hold on, or take nothing. */
import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { connect as connectHttp2 } from "node:http2";
import { connect as connectSocket } from "node:net";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Health } from "../../src/gen/grpc/health/v1/health_pb.ts";
import { Ingest } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic, TelemetryRequestSchema } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { envelope } from "../../src/wire/http/connect.ts";
import { writeAll } from "../../src/wire/http/http1.ts";
import { methodPath } from "../../src/wire/method_path.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { configOf } from "../harness/configs.ts";
import { submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import { executing, withApi } from "./fixture.ts";

/** Of 10 KB each. */
const ROWS = 8000;

Deno.test("gRPC serves the original's contract alone, and says how many connections have gone", async () => {
  await using daemon = await TestDaemon.start();
  for (let i = 0; i < 3; i++) {
    const client = new GrpcClient(daemon.address);
    assert.equal(
      (await client.unary(TrainerService.method.getHealth, {})).listenAddress,
      daemon.address,
    );
    assert.ok(await client.unary(Health.method.check, { service: TrainerService.typeName }));
    await assert.rejects(client.unary(Mosaic.method.getHost, {}), hasCode("unimplemented"));
    client.close();
  }
  const closed = async () => {
    const text = await (await fetch(`http://${daemon.http}/metrics`)).text();
    return Number(/^mosaic_grpc_closed_connections_total (\d+)/m.exec(text)?.[1]);
  };
  await until(async () => await closed() === 3, {
    what: "three connections to be counted",
    state: closed,
  });
});

Deno.test("half-open connections: two thousand that say nothing keep nobody waiting", async () => {
  await withApi("Connect, TCP", async ({ client, url }) => {
    const port = Number(new URL(url).port);
    const silent = Array.from({ length: 2000 }, () => connectSocket({ host: "127.0.0.1", port }));
    try {
      await Promise.all(silent.map((socket, i) =>
        new Promise<void>((resolve, reject) => {
          socket.once("error", reject);
          // Some have begun to say something.
          socket.once("connect", () =>
            i % 2 === 0 ? resolve() : socket.write("POST /mosaic.v1.", () => resolve()));
        })
      ));
      assert.equal((await client.unary(Mosaic.method.getHost, {})).version, "1.2.3-test");
    } finally {
      for (const socket of silent) socket.destroy();
    }
  });
});

/** Asks for all steps of a run in a form of the protocol, and reads nothing of the answer. */
async function askForSteps(url: string, run: string, type: string): Promise<Deno.TcpConn> {
  const { host, port } = new URL(url);
  const body = envelope(
    type.endsWith("json")
      ? new TextEncoder().encode(JSON.stringify({ run, kind: "steps" }))
      : toBinary(TelemetryRequestSchema, create(TelemetryRequestSchema, { run, kind: "steps" })),
  );
  const head = `POST ${methodPath(Mosaic.method.streamTelemetry)} HTTP/1.1\r\nhost: ${host}\r\n` +
    `content-type: ${type}\r\ncontent-length: ${body.length}\r\n\r\n`;
  const connection = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
  await writeAll(connection, new TextEncoder().encode(head));
  await writeAll(connection, body);
  return connection;
}

Deno.test("slow readers: one that takes nothing is ended, in whatever form it asked", async (t) => {
  for (const type of ["application/connect+json", "application/grpc-web+proto"]) {
    await t.step(type, () =>
      withApi("Connect, TCP", async ({ core, url }) => {
        const run = executing(core);
        core.observationJson = JSON.stringify("x".repeat(10_000));
        core.addSteps(run, 0, ROWS - 1);
        using _stalled = await askForSteps(url, run, type);
        const ended = () => core.activity.rpcCalls.entries();
        const call = `${methodPath(Mosaic.method.streamTelemetry).slice(1)} unavailable`;
        await until(() => ended().some(([name]) => name === call), {
          what: "the stalled stream to end",
          state: ended,
        });
      }, { stallMs: 1000 }));
  }
});

Deno.test("slow readers: answers that nobody takes count against a bound, and are dropped", async () => {
  await withApi("Connect, TCP", async ({ core, url }) => {
    core.registry.update(executing(core), {
      configJson: JSON.stringify({ x: "x".repeat(7 << 20) }),
    });
    const { host, port } = new URL(url);
    const connection = connectHttp2(`http://${host}`, { settings: { initialWindowSize: 0 } });
    // The daemon ends a connection whose answers nobody takes.
    connection.on("error", () => {});
    const codes = Array.from({ length: 6 }, () =>
      new Promise<number>((resolve, reject) => {
        const call = connection.request({
          ":method": "POST",
          ":path": methodPath(Mosaic.method.getRun),
          "content-type": "application/proto",
          "content-length": "7",
        });
        call.on("response", (headers) => resolve(Number(headers[":status"]))).on("error", reject);
        // run: "@last"
        call.end(Uint8Array.of(10, 5, ...new TextEncoder().encode("@last")));
      }));
    const all = await Promise.allSettled(codes);
    const statuses = all.map((one) => one.status === "fulfilled" ? one.value : 0);
    assert.equal(statuses.filter((status) => status === 200).length, 4, `${statuses}`);
    assert.equal(statuses.filter((status) => status === 429).length, 2, `${statuses}`);
    connection.on("error", () => {}).destroy();
    const client = new MosaicClient(`127.0.0.1:${port}`);
    try {
      // A connection of its own has bytes of its own.
      assert.ok(
        (await client.unary(Mosaic.method.getRun, { run: "@last" })).configJson.length > 7 << 20,
      );
    } finally {
      client.close();
    }
  }, { stallMs: 60_000 });
});

Deno.test("slow readers: one that takes nothing stops what it reads, keeps nobody waiting, and is ended", async () => {
  await withApi("Connect, TCP", async ({ core, url }) => {
    const run = executing(core);
    core.observationJson = JSON.stringify("x".repeat(10_000));
    core.addSteps(run, 0, ROWS - 1);
    const fast = new MosaicClient(new URL(url).host);
    const before = Deno.memoryUsage().rss;
    const stalled = await askForSteps(url, run, "application/connect+proto");
    try {
      let last = 0n;
      for await (
        const { lastSeq } of fast.stream(Mosaic.method.streamTelemetry, { run, kind: "steps" })
      ) {
        last = lastSeq;
      }
      assert.equal(last, BigInt(ROWS));
      const ended = () => core.activity.rpcCalls.entries();
      const call = `${methodPath(Mosaic.method.streamTelemetry).slice(1)} unavailable`;
      await until(() => ended().some(([name]) => name === call), {
        what: "the stalled stream to end",
        state: ended,
      });
      assert.ok(Deno.memoryUsage().rss - before < 150 << 20, "what waits for a reader is bounded");
    } finally {
      stalled.close();
      fast.close();
    }
  }, { stallMs: 3000 });
});

/** Sends a request byte by byte, and gives the whole answer. */
async function exchange(url: string, request: string): Promise<string> {
  const { hostname, port } = new URL(url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  await connection.write(new TextEncoder().encode(request));
  return await new Response(connection.readable).text();
}

Deno.test("hostile pages: calls of the API from another site, or under another name, are refused", async () => {
  await withApi("Connect, TCP", async ({ url, core }) => {
    const call = (headers: Record<string, string>) =>
      fetch(`${url}/mosaic.v1.Mosaic/Shutdown`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: "{}",
      });
    for (
      const headers of [
        { origin: "http://evil.example" },
        { origin: "null" },
        { "sec-fetch-site": "cross-site" },
        { "sec-fetch-site": "same-origin" },
      ] as Record<string, string>[]
    ) {
      const answer = await call(headers);
      assert.equal(answer.status, 403, JSON.stringify(headers));
      assert.equal((await answer.json()).code, "permission_denied");
    }
    // `fetch` sends no Host of a caller's own.
    const raw =
      `POST /mosaic.v1.Mosaic/Shutdown HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n` +
      `content-type: application/json\r\ncontent-length: 2\r\n\r\n{}`;
    assert.match(await exchange(url, raw), /^HTTP\/1\.1 403 [^]*permission_denied/);
    // A webhook of some program of this user, or a form, in every type that one may have.
    for (const type of ["application/json", "application/json; charset=utf-8"]) {
      const answer = await call({ "content-type": type });
      assert.equal(answer.status, 403, type);
      assert.match(
        (await answer.json()).message,
        /^the header connect-protocol-version is missing/,
      );
    }
    assert.deepEqual(core.calls, []);
    const own = await call({ "connect-protocol-version": "1" });
    assert.equal(own.status, 200);
    await own.body?.cancel();
    assert.equal(core.calls.length, 1);
  });
});

Deno.test("the daemon's socket: its user needs no token, others cannot open it, and TCP asks for one", async () => {
  await using daemon = await TestDaemon.start({ args: ["--auth", "token", "--listen", "none"] });
  const path = `${daemon.layout.trainer}/daemon.sock`;
  assert.equal(Deno.statSync(path).mode! & 0o777, 0o600);
  assert.equal(Deno.statSync(daemon.layout.trainer).mode! & 0o077, 0);
  const owner = new MosaicClient(`unix:${path}`);
  const stranger = new MosaicClient(daemon.http);
  try {
    assert.equal((await owner.unary(Mosaic.method.getHost, {})).listen, "");
    await assert.rejects(stranger.unary(Mosaic.method.getHost, {}), hasCode("unauthenticated"));
  } finally {
    owner.close();
    stranger.close();
  }
});

Deno.test("a killed daemon's socket takes no connection for the next one, though its workers live", async () => {
  await using daemon = await TestDaemon.start();
  const path = `${daemon.layout.trainer}/daemon.sock`;
  const run = await submit(
    daemon,
    configOf({ command: ["/bin/sh", "-c", 'echo \'{"type":"step"}\'; exec sleep 60'] }),
  );
  await untilState(daemon, run, "EXECUTING");
  await daemon.kill9();
  // What the killed one left: a name that nobody answers at, whoever holds its listener.
  assert.ok(Deno.lstatSync(path).isSocket);
  await daemon.restart();
  const client = new MosaicClient(`unix:${path}`, { deadlineMs: 5000 });
  try {
    for (let i = 0; i < 20; i++) {
      assert.equal((await client.unary(Mosaic.method.getHost, {})).pid, BigInt(daemon.pid));
    }
    assert.equal((await client.unary(Mosaic.method.getRun, { run })).state, "EXECUTING");
  } finally {
    client.close();
  }
});

Deno.test("hostile proxies: before its hello is admitted, a delivery may say no more than a hello has", async () => {
  await withApi("Connect, TCP", async ({ url }) => {
    // The head of a message of 1 MiB.
    const answer = await fetch(url + methodPath(Ingest.method.deliver), {
      method: "POST",
      headers: { "content-type": "application/connect+proto", authorization: "Bearer rubbish" },
      body: Uint8Array.of(0, 0, 16, 0, 0),
    });
    assert.match(await answer.text(), /resource_exhausted.*1048576 bytes/);
  });
});
