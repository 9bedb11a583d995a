import assert from "node:assert/strict";
import { create, toBinary } from "@bufbuild/protobuf";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic, ResetRequestSchema } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { envelope } from "../../src/wire/http/connect.ts";
import { methodPath } from "../../src/wire/method_path.ts";
import { configOf } from "../harness/configs.ts";
import { hasCode } from "../registry/fixture.ts";
import { until } from "../harness/wait.ts";
import { executing, testEachApiWay, waiting, withApi } from "./fixture.ts";

const { method } = Mosaic;

testEachApiWay(
  "GetRun: by id, prefix, name and @last, with transitions, config and telemetry's figures",
  async ({ client, core }) => {
    const waits = core.submit(configOf({ command: ["/bin/true"] })).runId;
    const id = executing(core);
    await core.proxyOf(id).batch({ steps: { n: 5 }, violations: { "step: reward": 2 } });
    for (const run of [id, "run-1", "@last", id.slice(0, 25)]) {
      assert.equal((await client.unary(method.getRun, { run })).runId, id);
    }
    const run = await client.unary(method.getRun, { run: id });
    assert.deepEqual(run.transitions.map((t) => t.toState), [
      "INIT",
      "HANDSHAKE",
      "READY",
      "EXECUTING",
    ]);
    assert.equal(run.transitions[0]!.fromState, "");
    assert.equal(run.state, "EXECUTING");
    assert.equal(run.outcome, "");
    assert.equal(run.configJson, core.registry.require(id).configJson);
    assert.match(
      (await client.unary(method.getRun, { run: waits })).waitingFor,
      /^a place among the 0 runs/,
    );
    assert.equal(run.telemetry?.violations["step: reward"], 2n);
    assert.equal(run.telemetry?.meanReward100, undefined);
    assert.equal(run.telemetry?.steps, 5n);
    assert.equal(
      run.telemetry?.stepsPerSecond,
      core.detail(core.registry.require(id)).telemetry.stepsPerSecond,
    );
    assert.equal(run.exitCode, undefined);
  },
);

testEachApiWay(
  "GetRun: unknown, ambiguous and empty references are told apart",
  async ({ client, core }) => {
    waiting(core, 1);
    waiting(core, 2);
    await assert.rejects(client.unary(method.getRun, { run: "nope" }), hasCode("not_found"));
    await assert.rejects(client.unary(method.getRun, { run: "01HZ" }), hasCode("invalid_argument"));
    await assert.rejects(
      client.unary(method.getRun, {}),
      hasCode("invalid_argument", /run is empty/),
    );
  },
);

testEachApiWay(
  "ListRuns: pages, filters and total; a state that is none is refused",
  async ({ client, core }) => {
    for (let n = 1; n <= 5; n++) core.add(`run-${n}`, { tags: n === 2 ? ["sweep"] : [] });
    executing(core, 6);
    const first = await client.unary(method.listRuns, { states: ["init"], limit: 3 });
    assert.equal(first.runs.length, 3);
    assert.equal(first.total, 5n);
    const second = await client.unary(method.listRuns, {
      states: ["INIT"],
      limit: 3,
      pageToken: first.nextPageToken,
    });
    assert.equal(second.runs.length, 2);
    assert.equal(second.nextPageToken, "");
    assert.equal(new Set([...first.runs, ...second.runs].map((run) => run.runId)).size, 5);
    const tagged = await client.unary(method.listRuns, { tags: ["sweep"] });
    assert.deepEqual(tagged.runs.map((run) => run.name), ["run-2"]);
    assert.deepEqual(tagged.runs[0]!.transitions, []);
    const named = await client.unary(method.listRuns, { nameContains: "n-4" });
    assert.deepEqual(named.runs.map((run) => run.name), ["run-4"]);
    await assert.rejects(
      client.unary(method.listRuns, { states: ["DONE"] }),
      hasCode("invalid_argument", /DONE.*INIT/),
    );
  },
);

testEachApiWay(
  "verbs: each reaches the core for the run that was named, and answers the run",
  async ({ client, core }) => {
    const id = executing(core);
    core.addSteps(id, 1, 100);
    assert.equal((await client.unary(method.pauseRun, { run: "run-1" })).state, "PAUSED");
    assert.equal((await client.unary(method.resumeRun, { run: "run-1" })).state, "EXECUTING");
    assert.equal(
      (await client.unary(method.throttleRun, { run: "run-1", maxRateHz: 25 })).maxRateHz,
      25,
    );
    const cancelled = await client.unary(method.cancelRun, { run: "run-1", graceSeconds: 1.5 });
    assert.equal(cancelled.state, "CANCELLED");
    assert.equal(cancelled.outcome, "canceled");
    assert.deepEqual(core.proxyOf(id).stops, [1.5]);
    assert.equal((await client.unary(method.retryRun, { run: "run-1" })).attempt, 2);
    await assert.rejects(
      client.unary(method.deleteRun, { run: "run-1" }),
      hasCode("failed_precondition"),
    );
    const reset = await client.unary(method.resetRun, { run: "run-1", fromCheckpoint: "c.pt" });
    assert.deepEqual([reset.attempt, core.registry.require(id).resumeFrom], [2, "c.pt"]);
    await client.unary(method.cancelRun, { run: "run-1" });
    const written = async () => ((await core.diskUsage()).byRun.get(id) ?? 0) > 0;
    await until(written, { what: "the files of the cancelled attempt to be written" });
    const usage = await client.unary(method.getDiskUsage, {});
    const { byRun, byBase, telemetryByRun } = await core.diskUsage();
    const bytes = (of: Iterable<[string, number]>) =>
      Object.fromEntries([...of].map(([key, n]) => [key, BigInt(n)]));
    assert.deepEqual([usage.runs, usage.telemetry], [bytes(byRun), bytes(telemetryByRun)]);
    assert.deepEqual(usage.directories, bytes(Object.entries(byBase)));
    assert.ok(usage.runs[id]! > 0n && usage.telemetry[id]! > 0n, "it has a directory and steps");
    assert.ok((await client.unary(method.deleteRun, { run: "run-1" })).keptUntil !== undefined);
    await assert.rejects(client.unary(method.getRun, { run: id }), hasCode("not_found"));
    assert.deepEqual(
      (await client.unary(method.listRuns, { deleted: true })).runs.map(({ runId }) => runId),
      [id],
    );
    assert.equal((await client.unary(method.restoreRun, { run: "run-1" })).runId, id);
    assert.ok(
      (await client.unary(method.deleteRun, { run: "run-1", forever: true })).freedBytes > 0n,
    );
    await assert.rejects(client.unary(method.getRun, { run: id }), hasCode("not_found"));
    assert.deepEqual(core.calls, [
      `pause ${id}`,
      `resume ${id}`,
      `throttle ${id} 25`,
      `cancel ${id} 1.5`,
      `reset ${id} c.pt`,
      `cancel ${id} default`,
    ]);
  },
);

testEachApiWay(
  "CancelRun: a grace period that is none is refused before anything happens",
  async ({ client, core }) => {
    executing(core);
    for (const graceSeconds of [-1, NaN, 1e9]) {
      await assert.rejects(
        client.unary(method.cancelRun, { run: "@last", graceSeconds }),
        hasCode("invalid_argument"),
      );
    }
    assert.deepEqual(core.calls, []);
  },
);

testEachApiWay(
  "ValidateConfig, ListSeries, GetSeries, ListArtifacts, GetHost, Shutdown",
  async ({ client, core }) => {
    const id = executing(core);
    const validated = await client.unary(method.validateConfig, { configJson: "[]" });
    assert.deepEqual(
      validated.violations.map(({ path, message }) => ({ path, message })),
      core.validate("[]").violations,
    );
    assert.ok(validated.violations.length > 0);
    core.addSteps(id, 1, 1000);
    const { series } = await client.unary(method.listSeries, { run: id });
    assert.deepEqual(series.map((s) => [s.name, s.last]), [["reward", 1]]);
    core.addSteps(id, 1001, 1001, { reward: NaN });
    const [reward] = (await client.unary(method.listSeries, { run: id })).series;
    assert.deepEqual([reward!.points, reward!.last, reward!.mean, reward!.maxStep], [
      1001n,
      1,
      1,
      1n,
    ]);
    const chart = await client.unary(method.getSeries, {
      run: id,
      name: "reward",
      fromX: 0n,
      toX: 0n,
    });
    assert.ok(
      chart.buckets.length > 250 && chart.buckets.length <= 500,
      `${chart.buckets.length} buckets`,
    );
    assert.equal(chart.buckets[0]!.mean, 1);
    await assert.rejects(
      client.unary(method.getSeries, { run: id }),
      hasCode("invalid_argument", /name is empty/),
    );
    core.registry.putArtifact({
      runId: id,
      path: "a.pt",
      kind: "checkpoint",
      bytes: 5,
      sha256: "ff",
      step: 0,
      windowId: "0x46",
      at: 1,
    });
    const { artifacts } = await client.unary(method.listArtifacts, { run: id });
    const [{ path, bytes, step, windowId }] = artifacts as [typeof artifacts[0] & object];
    assert.deepEqual([path, bytes, step, windowId], ["a.pt", 5n, 0n, "0x46"]);
    const host = await client.unary(method.getHost, {});
    assert.equal(host.version, "1.2.3-test");
    assert.deepEqual(host.gpus.map((gpu) => [gpu.slot, gpu.runId, gpu.name])[0], [
      0,
      "",
      "Test GPU",
    ]);
    assert.equal(host.runsByState["EXECUTING"], 1n);
    await client.unary(method.shutdown, {});
    assert.match(core.calls.at(-1)!, /^shutdown /);
  },
);

testEachApiWay(
  "errors: a defect says nothing of its inside to the client, and everything to the log",
  async ({ client, core }) => {
    executing(core);
    core.failure = new TypeError("secret path /etc/x");
    await assert.rejects(client.unary(method.getRun, { run: "@last" }), (error) => {
      assert.ok(!(error as Error).message.includes("secret"));
      return hasCode("internal")(error);
    });
    assert.ok(core.logLines.some((line) => line.includes("secret path")));
  },
);

testEachApiWay("errors: a very long message is cut, not lost", async ({ client }) => {
  // Each unknown key is a violation of its own.
  const configJson = JSON.stringify(
    Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`ä${i}`, 1])),
  );
  const { submitRun } = TrainerService.method;
  await assert.rejects(
    client.unary(submitRun, { configJson }),
    hasCode("invalid_argument", /more characters/),
  );
  assert.equal((await client.unary(method.listRuns, {})).runs.length, 0);
});

Deno.test("errors: every code of MosaicError crosses the wire unchanged", async () => {
  const { statusOf } = await import("../../src/wire/grpc_status.ts");
  const { errorFromStatus } = await import("../harness/grpc_errors.ts");
  const { MosaicError } = await import("../../src/base/errors.ts");
  const codes = [
    "invalid_argument",
    "not_found",
    "already_exists",
    "failed_precondition",
    "resource_exhausted",
    "out_of_range",
    "unauthenticated",
    "permission_denied",
    "unimplemented",
    "unavailable",
    "deadline_exceeded",
    "aborted",
  ] as const;
  for (const code of codes) {
    const back = errorFromStatus(
      statusOf(new MosaicError(code, "text\nof two lines", { hint: `hint for ${code}` })),
    );
    assert.deepEqual([back.code, back.message, back.hint], [
      code,
      "text\nof two lines",
      `hint for ${code}`,
    ]);
  }
});

Deno.test("deadlines: a call that takes longer than its connect-timeout-ms or grpc-timeout is answered with deadline_exceeded", async () => {
  await withApi("Connect, TCP", async ({ core, url }) => {
    const run = executing(core);
    let resetting = 0;
    core.reset = () => {
      resetting++;
      return new Promise(() => {});
    };
    const call = async (timeout: string) => {
      const answer = await fetch(url + methodPath(method.resetRun), {
        method: "POST",
        signal: AbortSignal.timeout(20_000),
        headers: { "content-type": "application/proto", "connect-timeout-ms": timeout },
        body: toBinary(ResetRequestSchema, create(ResetRequestSchema, { run })) as Uint8Array<
          ArrayBuffer
        >,
      });
      return [answer.status, await answer.json()];
    };
    assert.deepEqual(await call("300"), [
      504,
      { code: "deadline_exceeded", message: "the call took longer than its 300 ms" },
    ]);
    assert.equal(resetting, 1);
    const [status, { code, message }] = await call("soon");
    assert.deepEqual([status, code], [400, "invalid_argument"]);
    assert.match(message, /connect-timeout-ms is "soon"/);
    assert.equal(resetting, 1);
    const web = await fetch(url + methodPath(method.resetRun), {
      method: "POST",
      signal: AbortSignal.timeout(20_000),
      headers: { "content-type": "application/grpc-web+proto", "grpc-timeout": "300m" },
      body: envelope(toBinary(ResetRequestSchema, create(ResetRequestSchema, { run }))),
    });
    assert.match(await web.text(), /grpc-status: 4\r\ngrpc-message: the%20call%20took%20longer/);
    assert.equal(resetting, 2);
  });
});

Deno.test("a call in a form that is not spoken, or of a method that is not there, is told what is", async () => {
  await withApi("Connect, TCP", async ({ url }) => {
    const said = async (path: string, type: string, verb = "POST") => {
      const init = {
        method: verb,
        headers: { "content-type": type },
        ...(verb === "POST" ? { body: "{}" } : {}),
      };
      const answer = await fetch(`${url}${path}`, init);
      const { code, message } = await answer.json();
      return `${answer.status} ${code} ${message}`;
    };
    const [getHost, streamEvents] = [methodPath(method.getHost), methodPath(method.streamEvents)];
    const unary =
      "GetHost takes application/json and application/proto, and application/grpc-web+proto";
    assert.equal(
      await said(getHost, "text/plain"),
      `415 invalid_argument content-type is "text/plain": ${unary}`,
    );
    assert.match(
      await said(methodPath(TrainerService.method.getHealth), "application/grpc+proto"),
      /^415 .*\ngRPC itself is served at .* --listen\.$/,
    );
    // At that address it would find nothing.
    assert.match(
      await said(getHost, "application/grpc+proto"),
      /^415 .*\nmosaic\.v1\.Mosaic is not served over gRPC itself: let the client use Connect or gRPC-Web\.$/,
    );
    const compressed = {
      method: "POST",
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
    };
    const refused = await fetch(`${url}${getHost}`, { ...compressed, body: "{}" });
    assert.deepEqual([refused.status, (await refused.json()).message], [
      501,
      'content-encoding is "gzip"; the daemon accepts only identity\nSend the request uncompressed.',
    ]);
    assert.match(
      await said(streamEvents, "application/json"),
      /^415 .*takes application\/connect\+json and/,
    );
    assert.equal(
      await said(getHost, "application/json", "GET"),
      "405 invalid_argument the HTTP method is GET: GetHost is called by POST",
    );
    const got = await fetch(`${url}${getHost}`);
    await got.body!.cancel();
    assert.equal(got.headers.get("allow"), "POST");
    assert.match(
      await said("/mosaic.v1.Mosaic/Nope", "application/json"),
      /^501 unimplemented this daemon has no method mosaic\.v1\.Mosaic\/Nope\nIs the client of a later version\?/,
    );
    // Not the page's refusal of a foreign site's request, which would send the caller the wrong
    // way.
    assert.match(
      await said("/mosaic.v2.Mosaic/GetHost", "application/proto"),
      /^501 unimplemented this daemon has no service mosaic\.v2\.Mosaic at this address\nIs the client of a later/,
    );
    assert.match(
      await said("/grpc.health.v1.Health/Check", "application/grpc-web+proto"),
      /^501 unimplemented .* at this address\nHealth checks and reflection are served over gRPC, at the address of --listen\.$/,
    );
  });
});

Deno.test("a deadline that is longer than a timer can wait does not pass at once", async () => {
  await withApi("Connect, TCP", async ({ url }) => {
    const call = (type: string, header: string, value: string) =>
      fetch(`${url}${methodPath(method.getHost)}`, {
        method: "POST",
        headers: { "content-type": type, [header]: value },
        body: type === "application/json"
          ? "{}"
          : type === "application/proto"
          ? ""
          : new Uint8Array(5),
      });
    const binary = await call("application/proto", "connect-timeout-ms", "9999999999");
    assert.equal(binary.status, 200);
    await binary.body?.cancel();
    const json = await call("application/json", "connect-timeout-ms", "9999999999");
    assert.equal((await json.json()).version, "1.2.3-test");
    const web = await call("application/grpc-web+proto", "grpc-timeout", "99999999H");
    assert.match(await web.text(), /grpc-status: 0\r\n$/);
    const wrong = await call("application/grpc-web+proto", "grpc-timeout", "1 day");
    assert.match(
      decodeURIComponent(await wrong.text()),
      /grpc-timeout is "1 day"; it must be up to 8 digits and a unit/,
    );
  });
});
