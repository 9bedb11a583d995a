/** Runs whose proxy somebody else starts. */
import assert from "node:assert/strict";
import { MosaicError } from "../../../src/base/errors.ts";
import { configOf } from "../../harness/configs.ts";
import { EngineFixture, PlayedProxy } from "../../harness/engine.ts";

const external = (more: Record<string, unknown> = {}) =>
  configOf({ command: ["unused"], metadata: { worker: { external: true }, ...more } });

/** Pids of another host: here they may belong to anybody. */
const elsewhere = (start: string) => ({
  proxy: { pid: 1, identity: `other-boot/${start}` },
  worker: { pid: 7, identity: `other-boot/${start}1` },
});

function open(f: EngineFixture, runId: string, start = "100"): PlayedProxy {
  const proxy = new PlayedProxy();
  const { attempt } = f.row(runId);
  proxy.session = f.engine.openProxy(
    { runId, attempt, ...elsewhere(start) },
    proxy,
  );
  proxy.position = proxy.session.journalPosition;
  return proxy;
}

Deno.test("an external run waits for its proxy as long as it takes, and starts nothing itself", async () => {
  await using f = EngineFixture.start({ handshakeTimeoutSeconds: 0.01 });
  const { runId } = f.engine.submit(external());
  const { directory } = f.engine.detail(await f.state(runId, "HANDSHAKE"));
  assert.deepEqual(f.proxies.started, []);
  assert.equal(Deno.statSync(`${directory}/.mosaic/session-token`).mode! & 0o777, 0o600);
  const other = f.engine.submit(configOf({ command: ["/bin/true"] }));
  await f.state(other.runId, "FAULTED");
  assert.equal(f.row(runId).state, "HANDSHAKE");

  const proxy = open(f, runId);
  assert.equal(f.row(runId).state, "READY");
  await proxy.steps(3);
  proxy.exit();
  assert.equal((await f.state(runId, "TERMINATED")).outcome, "succeeded");
});

Deno.test("an external run: its network may break; another start of its container is refused", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(external());
  await f.state(runId, "HANDSHAKE");
  const first = open(f, runId);
  await first.steps(2);
  first.close();
  assert.throws(
    () => open(f, runId, "200"),
    (error) =>
      error instanceof MosaicError && error.code === "failed_precondition" &&
      /another/.test(error.message),
  );
  const again = open(f, runId);
  assert.equal(again.position, first.position);
  again.exit({ code: 3 });
  assert.equal((await f.state(runId, "FAULTED")).exitCode, 3);
});

Deno.test("an external run is cancelled through its proxy; before there is one, at once", async () => {
  await using f = EngineFixture.start();
  const waiting = f.engine.submit(external());
  await f.state(waiting.runId, "HANDSHAKE");
  f.engine.cancel(waiting.runId);
  await f.state(waiting.runId, "CANCELLED");

  const { runId } = f.engine.submit(external());
  await f.state(runId, "HANDSHAKE");
  const proxy = open(f, runId);
  f.engine.cancel(runId, { graceSeconds: 1 });
  assert.equal(proxy.stops.length, 1);
  proxy.exit({ code: null, signal: "SIGTERM" });
  await f.state(runId, "CANCELLED");
});

Deno.test("an external run: a time limit for the handshake holds where it is asked for", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(external({ handshake_timeout_seconds: 0.05 }));
  assert.match((await f.state(runId, "FAULTED")).reason ?? "", /handshake_timeout/);
});

Deno.test("an external run's proxy that starts its worker when it is welcomed: it hears what the worker begins with, and no second one starts another", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({
    command: ["unused"],
    environment: { LR: "0.1" },
    metadata: { worker: { external: true } },
  }));
  await f.state(runId, "HANDSHAKE");
  const hello = (identity: string, worker: { pid: number; identity: string } | null = null) => {
    const proxy = new PlayedProxy();
    const { attempt } = f.row(runId);
    const of = { runId, attempt, proxy: { pid: 1, identity } };
    proxy.session = f.engine.openProxy({ ...of, worker, startsWorker: worker === null }, proxy);
    proxy.position = proxy.session.journalPosition;
    return proxy;
  };
  const first = hello("pod/1");
  assert.deepEqual(first.session.workerSettings, {
    environment: { LR: "0.1" },
    resumeFrom: null,
    fetch: false,
  });
  // Its link broke before the welcome came.
  first.close();
  const again = hello("pod/1");
  const another = (error: unknown) =>
    error instanceof MosaicError && /comes with another/.test(error.message);
  assert.throws(() => hello("pod/2"), another);
  again.session.workerStarted({ pid: 7, identity: "pod/1w" });
  assert.throws(() => hello("pod/1"), another);
  assert.throws(() => hello("pod/2", { pid: 7, identity: "pod/2w" }), another);
  again.close();
  const last = hello("pod/1", { pid: 7, identity: "pod/1w" });
  assert.equal(last.session.workerSettings, undefined);
  last.exit();
  await f.state(runId, "TERMINATED");
});
