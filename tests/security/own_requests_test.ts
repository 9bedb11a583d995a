/**
 * A daemon is made to call itself, as its own user: by webhooks to its own addresses, by redirects,
 * by a relay.
 */
import assert from "node:assert/strict";
import { MosaicError } from "../../src/base/errors.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { OwnListeners } from "../../src/observability/webhooks/own_listeners.ts";
import { SENT_BY_DAEMON } from "../../src/wire/sender_headers.ts";
import { configOf } from "../harness/configs.ts";
import { ConnectClient } from "../harness/connect_client.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { submit, untilState } from "../harness/runs.ts";
import { until } from "../harness/wait.ts";

const SHUTDOWN = "/mosaic.v1.Mosaic/Shutdown";
const STARTS = LONG_TESTS ? 21 : 5;

Deno.test("own listeners: every name of an address is it, other ports and hosts are not", async () => {
  const names: Record<string, string[]> = {
    "evil.example": ["203.0.113.5", "::ffff:127.0.0.1"],
    "far.example": ["203.0.113.5"],
  };
  const own = new OwnListeners(
    ["127.0.0.1:8055", "[::1]:50055", "unix:/x", ""],
    (name) => Promise.resolve(names[name] ?? []),
  );
  for (
    const host of [
      ...[
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "127.1",
      ],
      ...["[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "0", "127.0.0.1."],
    ]
  ) {
    assert.match(await own.of(`http://${host}:8055/x`) ?? host, /^127\.0\.0\.1:8055$/, host);
    assert.throws(
      () => own.refuseNamed(`https://${host}:8055/x`, "metadata.webhook"),
      /is this daemon itself/,
      host,
    );
    assert.equal(await own.of(`http://${host}:8056/x`), undefined, host);
    assert.equal(await own.of(`http://${host}:50055/x`), "[::1]:50055", host);
  }
  assert.equal(await own.of("http://evil.example:8055"), "127.0.0.1:8055");
  assert.equal(await own.of("http://far.example:8055"), undefined);
  const all = new OwnListeners(["0.0.0.0:80"]);
  for (const { address } of Deno.networkInterfaces()) {
    const host = address.includes(":") ? `[${address}]` : address;
    if (!address.includes("%") && !address.startsWith("fe80")) {
      assert.equal(await all.of(`http://${host}/`), "0.0.0.0:80");
    }
  }
});

Deno.test("a run names the daemon's own addresses as a webhook: refused, however they are written", async () => {
  await using daemon = await TestDaemon.start();
  for (const port of [daemon.http, daemon.address].map((address) => address.split(":")[1])) {
    for (const host of ["127.0.0.1", "localhost", "0x7f.1", "[::ffff:127.0.0.1]", "0.0.0.0"]) {
      const url = `http://${host}:${port}${SHUTDOWN}`;
      for (const webhook of [url, { url }]) {
        await assert.rejects(
          submit(daemon, configOf({ command: ["/bin/true"], metadata: { webhook } })),
          (error) =>
            error instanceof MosaicError && error.code === "permission_denied" &&
            /this daemon itself/.test(error.message),
          url,
        );
      }
    }
  }
});

Deno.test("a webhook that reaches the daemon by a redirect or a relay stops it at none of its starts", async () => {
  let target = "";
  const answers: number[] = [];
  const place = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const location = `http://${target}${SHUTDOWN}`;
    if (new URL(request.url).pathname === "/redirect") {
      return new Response(null, { status: 307, headers: { location } });
    }
    // As a name does whose address changes between the check and the connection.
    const { method, headers } = request;
    const answer = await fetch(location, { method, headers, body: await request.text() });
    answers.push(answer.status);
    return answer;
  });
  const url = (path: string) => `http://127.0.0.1:${place.addr.port}${path}`;
  try {
    await using daemon = await TestDaemon.start({
      args: ["--webhook", url("/relay"), "--auth", "none"],
    });
    target = daemon.http;
    for (let start = 1; start <= STARTS; start++) {
      const before = answers.length;
      const webhook = url(start % 2 === 0 ? "/redirect" : "/relay");
      const run = await submit(
        daemon,
        configOf({ name: `n${start}`, command: ["/bin/true"], metadata: { webhook } }),
      );
      await untilState(daemon, run, "TERMINATED");
      await until(() => answers.length >= before + 4, {
        what: "the daemon to be sent its own requests",
      });
      assert.equal(daemon.died, undefined);
      if (start < STARTS) await daemon.restart();
    }
    assert.deepEqual([...new Set(answers)], [403]);
    assert.doesNotMatch(daemon.output(), /asked to stop/);
  } finally {
    await place.shutdown();
  }
});

Deno.test("what a daemon has sent is refused at every listener, and a uid alone changes nothing", async () => {
  await using daemon = await TestDaemon.start();
  const url = `http://${daemon.http}`;
  const run = await submit(daemon, configOf({ command: ["/bin/sleep", "600"] }));
  await untilState(daemon, run, "READY");
  const post = async (
    path: string,
    headers: Record<string, string>,
    body = JSON.stringify({ run }),
  ) => {
    const answer = await fetch(url + path, { method: "POST", headers, body });
    return `${answer.status} ${await answer.text()}`;
  };
  const program = { "connect-protocol-version": "1" };
  const json = { "content-type": "application/json" };
  for (
    const path of [
      SHUTDOWN,
      "/mosaic.v1.Mosaic/GetHost",
      `/api/runs/${run}/cancel`,
      `/mlflow/${run}/api/2.0/mlflow/runs/create`,
      "/healthz",
    ]
  ) {
    assert.match(
      await post(path, { ...json, ...program, ...SENT_BY_DAEMON }),
      /^403 .*a daemon has sent this request/,
      path,
    );
  }
  for (const { methods, typeName } of [Mosaic]) {
    for (const { name, methodKind } of methods) {
      const changes = !/^(Get|List|Stream|Validate)/.test(name);
      if (methodKind !== "unary" || !changes) continue;
      assert.match(
        await post(`/${typeName}/${name}`, json),
        /^403 .*connect-protocol-version is missing/,
        name,
      );
    }
  }
  const config = configOf({ name: "other", command: ["/bin/true"] });
  const submitted = JSON.stringify({ configJson: config });
  assert.match(
    await post("/gymgui.trainer.TrainerService/SubmitRun", json, submitted),
    /^403 .*connect-protocol-version/,
  );
  // Forms and scripts of other origins can send these types without asking.
  for (
    const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "TEXT/PLAIN;application/proto",
    ]
  ) {
    assert.match(await post(SHUTDOWN, { "content-type": type }, "{}"), /^(415|403) /, type);
  }
  assert.equal((await daemon.client.unary(Mosaic.method.getRun, { run })).cancelRequested, false);
  // Programs: by the header, or by what Connect and gRPC-Web are sent in.
  assert.match(
    await post(
      "/mosaic.v1.Mosaic/PauseRun",
      { ...json, ...program },
      JSON.stringify({ run: "none" }),
    ),
    /^404 /,
  );
  for (const options of [{ json: true }, {}, { protocol: "grpc-web" }] as const) {
    const client = new ConnectClient(url, options);
    try {
      const { runId } = await client.unary(Mosaic.method.editRun, {
        run,
        notes: JSON.stringify(options),
      });
      assert.equal(runId, run);
    } finally {
      client.close();
    }
  }
});
