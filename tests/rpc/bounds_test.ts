/**
 * Bounds on the wire: each that is reached says what is too much, the bound and its option; proxies
 * stay served.
 */
import assert from "node:assert/strict";
import { GrpcClient } from "../harness/grpc_client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus,
} from "../../src/gen/grpc/health/v1/health_pb.ts";
import { Ingest } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { INGEST_PROTOCOL } from "../../src/wire/ingest_protocol.ts";
import { statusOf } from "../../src/wire/grpc_status.ts";
import { errorFromStatus } from "../harness/grpc_errors.ts";
import { UNIX_PEER } from "../../src/rpc/call/peer.ts";
import { OPEN_STREAMS, StreamBounds } from "../../src/rpc/call/stream_bounds.ts";
import { until } from "../harness/wait.ts";
import { hasCode } from "../registry/fixture.ts";
import { type AnyClient, executing, type Fixture, withApi, withServer } from "./fixture.ts";

/** A stream of the run's steps that the server knows of. */
async function following(core: Fixture["core"], client: GrpcClient, runId: string) {
  const count = () =>
    core.activity.subscribers.following().reduce((sum, f) => sum + f.subscribers, 0);
  const before = count();
  const stop = new AbortController();
  const ended = client.stream(TrainerService.method.streamRunSteps, { runId }, stop.signal).next();
  await until(() => count() === before + 1, { what: "a stream" });
  return async () => {
    stop.abort();
    await ended;
  };
}

async function refused(client: GrpcClient, runId: string, message: RegExp): Promise<void> {
  const next = client.stream(TrainerService.method.streamRunSteps, { runId }).next();
  await assert.rejects(next, hasCode("resource_exhausted", message));
}

/** Such a stream may be opened again. */
async function untilServed(open: () => AsyncGenerator<unknown, void>): Promise<void> {
  await until(async () => {
    const stream = open();
    const served = await stream.next().then(() => true, () => false);
    await stream.return();
    return served;
  }, { what: "a place for a stream" });
}

/** A proxy is welcomed. */
async function deliver(client: AnyClient, runId: string): Promise<bigint> {
  const call = client.duplex(Ingest.method.deliver);
  call.send({
    message: { case: "hello", value: { protocol: INGEST_PROTOCOL, runId, attempt: 1 } },
  });
  try {
    for await (const { message } of call) {
      if (message.case === "welcome") return message.value.windowBytes;
    }
    throw new Error("the stream ended without a welcome");
  } finally {
    call.cancel();
  }
}

Deno.test("bounds: streams in all, on a connection and of a run are counted apart", async () => {
  await withServer(async ({ client, core, server }) => {
    const [one, two] = [executing(core, 1), executing(core, 2)];
    const other = new GrpcClient(server.address);
    try {
      const leave = await following(core, client, one);
      await refused(
        other,
        one,
        /1 streams follow run \w+; the limit is 1 \(--max-streams-per-run\)/,
      );
      const leaveTwo = await following(core, client, two);
      await refused(
        client,
        two,
        /2 streams are open on this connection; .* 2 \(--max-streams-per-connection\)/,
      );
      const watching = other.stream(TrainerService.method.watchRuns, {});
      await watching.next();
      await refused(other, two, /3 streams are open; the limit is 3 \(--max-streams\)/);
      await Promise.all([leave(), leaveTwo(), watching.return()]);
      await untilServed(() => client.stream(TrainerService.method.watchRuns, {}));
    } finally {
      other.close();
    }
  }, { bounds: { maxStreams: 3, maxStreamsPerConnection: 2, maxStreamsPerRun: 1 } });
});

Deno.test("bounds: proxies are counted with none of the streams", async () => {
  await withApi("Connect, TCP", async ({ client, core }) => {
    const runId = executing(core);
    const watch = () => client.stream(TrainerService.method.watchRuns, {});
    const watching = watch();
    await watching.next();
    await assert.rejects(
      watch().next(),
      hasCode("resource_exhausted", /1 streams are open; the limit is 1/),
    );
    assert.equal(await deliver(client, runId), 65536n);
    await watching.return();
  }, { bounds: { maxStreams: 1, maxStreamsPerConnection: 1, windowBytes: 65536 } });
});

Deno.test("bounds: a stream that is over leaves every count", () => {
  const bounds = new StreamBounds({
    maxStreams: 1,
    maxStreamsPerConnection: 1,
    maxStreamsPerRun: 1,
  }, () => false);
  for (let round = 0; round < 3; round++) {
    const place = bounds.open("h:1");
    place.follows("R");
    assert.throws(() => place.follows("R"), hasCode("resource_exhausted"));
    assert.throws(() => bounds.open("h:2"), hasCode("resource_exhausted"));
    place.leave();
  }
});

Deno.test("bounds: streams of ended runs take no place from those of live ones, and have a bound of their own", () => {
  const limits = { maxStreams: 10, maxStreamsPerConnection: 2, maxStreamsPerRun: 100 };
  const bounds = new StreamBounds(limits, (runId) => runId === "ended");
  const opened = (runId: string) => {
    const place = bounds.open("gui:1");
    place.follows(runId);
    return place;
  };
  const ended = [opened("ended"), opened("ended")];
  const live = [opened("live"), opened("live")];
  assert.throws(
    () => bounds.open("gui:1"),
    hasCode("resource_exhausted", /2 streams are open on this connection/),
  );
  for (const place of [...ended, live[0]!]) place.leave();
  opened("live").leave();
  live[1]!.leave();
});

Deno.test("bounds: health streams, for which nobody needs a token, are few per address and take no place from others", async () => {
  await withServer(async ({ client, core, server }) => {
    const stop = new AbortController();
    const watch = (of: GrpcClient) => of.stream(Health.method.watch, {}, stop.signal);
    // One address, however many connections.
    const clients = [client, new GrpcClient(server.address), new GrpcClient(server.address)];
    try {
      const open = Array.from({ length: OPEN_STREAMS.ofAddress }, (_, i) => watch(clients[i % 3]!));
      for (const stream of open) await stream.next();
      await assert.rejects(
        watch(clients[1]!).next(),
        hasCode("resource_exhausted", /32 health streams are open from 127/),
      );
      assert.equal(
        (await client.unary(Health.method.check, {})).status,
        HealthCheckResponse_ServingStatus.SERVING,
      );
      const leave = await following(core, client, executing(core, 1));
      await leave();
      stop.abort();
      await untilServed(() => client.stream(Health.method.watch, {}));
    } finally {
      stop.abort();
      for (const each of clients.slice(1)) each.close();
    }
  }, { bounds: { maxStreams: 1 } });
});

Deno.test("bounds: health streams are bounded over all addresses, and Unix sockets by that alone", () => {
  const bounds = new StreamBounds({
    maxStreams: 1,
    maxStreamsPerConnection: 1,
    maxStreamsPerRun: 1,
  }, () => false);
  const places = Array.from(
    { length: OPEN_STREAMS.all },
    (_, i) => bounds.openToAnybody(i % 2 === 0 ? UNIX_PEER : `${UNIX_PEER}:${i}`),
  );
  assert.throws(
    () => bounds.openToAnybody(UNIX_PEER),
    hasCode("resource_exhausted", /512 health streams/),
  );
  places.pop()!.leave();
  const place = bounds.openToAnybody("[::1]:5");
  place.leave();
  bounds.open("h:1").leave();
});

Deno.test("bounds: a connection beyond the limit is told so and closed", async () => {
  await withServer(async ({ client, server }) => {
    const [second, third] = [1, 2].map(() => new GrpcClient(server.address));
    const health = (of: GrpcClient) => of.unary(TrainerService.method.getHealth, {});
    try {
      await health(client);
      await health(second!);
      await assert.rejects(
        health(third!),
        hasCode("resource_exhausted", /the limit is 2 \(--max-connections\)/),
      );
      await health(client);
    } finally {
      for (const each of [second, third]) each!.close();
    }
  }, { bounds: { maxConnections: 2 } });
});

Deno.test("bounds: a request that is too large names its method, its size and the option", async () => {
  await withServer(async ({ client }) => {
    const { submitRun } = TrainerService.method;
    await assert.rejects(
      client.unary(submitRun, { configJson: "x".repeat(2000) }),
      hasCode("resource_exhausted", /SubmitRun has \d+ bytes; the limit is 1000 \(--max-message\)/),
    );
  }, { bounds: { maxMessageBytes: 1000 } });
});

Deno.test("bounds: who follows a log gets its lines up to the rate, the number of the others, and no line of them twice", async () => {
  await withApi("Connect, TCP", async ({ client, core }) => {
    const runId = executing(core);
    const path = core.logFile(core.registry.require(runId), "stdout");
    Deno.writeTextFileSync(path, "there already\n");
    const stop = new AbortController();
    let text = "";
    let suppressed = 0;
    const reading = (async () => {
      for await (
        const chunk of client.stream(
          Mosaic.method.streamLogs,
          { run: runId, follow: true },
          stop.signal,
        )
      ) {
        text += new TextDecoder().decode(chunk.text);
        suppressed += Number(chunk.suppressedLines);
      }
    })();
    await until(() => text !== "", { what: "what was there" });
    const lines = Array.from({ length: 5000 }, (_, i) => `line ${i}\n`);
    Deno.writeTextFileSync(path, lines.join(""), { append: true });
    const shown = () => text.split("\n").length - 2;
    await until(() => shown() + suppressed === lines.length, {
      what: "all lines to be shown or counted",
    });
    stop.abort();
    await reading;
    assert.ok(shown() >= 10 && suppressed > 0, `${shown()} shown, ${suppressed} suppressed`);
    assert.equal(new Set(text.split("\n")).size, text.split("\n").length);
  }, { bounds: { logLines: 10 } });
});

Deno.test("bounds: when to try again travels as gRPC's own pushback", () => {
  const status = statusOf(
    new MosaicError("resource_exhausted", "too many", { hint: "Later.", retryAfterMs: 250 }),
  );
  assert.equal(status.metadata!.get("grpc-retry-pushback-ms")[0], "250");
  const { code, message, hint, retryAfterMs } = errorFromStatus(status);
  assert.deepEqual([code, message, hint, retryAfterMs], [
    "resource_exhausted",
    "too many",
    "Later.",
    250,
  ]);
});
