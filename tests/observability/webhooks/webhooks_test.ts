/** Webhooks against a real HTTP receiver. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { createLogger } from "../../../src/base/log.ts";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { newSecret } from "../../../src/observability/webhooks/signature.ts";
import { Counts } from "../../../src/observability/activity.ts";
import { eventLine } from "../../../src/ui/api/page_json.ts";
import { Webhooks } from "../../../src/observability/webhooks/webhooks.ts";
import { until } from "../../harness/wait.ts";
import { newRun } from "../../registry/fixture.ts";

interface Delivery {
  path: string;
  headers: Headers;
  body: string;
}

function receiver(answer: (delivery: Delivery) => number) {
  const got: Delivery[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const delivery = {
      path: new URL(request.url).pathname,
      headers: request.headers,
      body: await request.text(),
    };
    const status = answer(delivery);
    if (status === 200) got.push(delivery);
    return new Response(null, { status });
  });
  return {
    got,
    url: (path: string) => `http://127.0.0.1:${server.addr.port}${path}`,
    stop: () => server.shutdown(),
  };
}

function insertRun(registry: Registry, runId: string): void {
  registry.insert(newRun(1, { runId, name: `run ${runId}`, digest: runId }));
}

/** In the order of their first arrival: a delivery that a stop cut off is repeated. */
const seqs = (
  deliveries: Delivery[],
) => [...new Set(deliveries.map((d) => JSON.parse(d.body).data.seq))];

Deno.test("webhooks: every event in order, signed, through failures and a restart", async () => {
  const directory = Deno.makeTempDirSync();
  const registry = Registry.open(`${directory}/registry.db`);
  let refusals = 3;
  const server = receiver(() => refusals-- > 0 ? 503 : 200);
  const secret = newSecret();
  const options = {
    runs: registry,
    log: createLogger({ level: "error" }),
    stateFile: `${directory}/webhooks.json`,
    secret,
    daemonUrl: server.url("/all"),
    targetOfRun: () => undefined,
    firstRetryMs: 1,
  };
  try {
    const first = new Webhooks(options);
    insertRun(registry, "01HZZZZZZZZZZZZZZZZZZZZZZ1");
    registry.apply("01HZZZZZZZZZZZZZZZZZZZZZZ1", { type: "spawned" });
    const total = registry.eventHead();
    await until(() => seqs(server.got).length >= total, { what: "all events to arrive" });
    await first.close();
    insertRun(registry, "01HZZZZZZZZZZZZZZZZZZZZZZ2");
    const second = new Webhooks(options);
    await until(() => seqs(server.got).length >= registry.eventHead(), {
      what: "events of the time between to arrive",
    });
    await second.close();
    assert.deepEqual(
      seqs(server.got),
      Array.from({ length: registry.eventHead() }, (_, i) => i + 1),
    );
    for (const { headers, body } of server.got) {
      const key = Uint8Array.from(atob(secret.slice("whsec_".length)), (c) => c.charCodeAt(0));
      const text = `${headers.get("webhook-id")}.${headers.get("webhook-timestamp")}.${body}`;
      const expected = `v1,${createHmac("sha256", key).update(text).digest("base64")}`;
      assert.equal(headers.get("webhook-signature"), expected);
    }
    assert.equal(JSON.parse(server.got[0]!.body).type, "run.queued");
    assert.equal(JSON.parse(server.got[0]!.body).data.run_name, "run 01HZZZZZZZZZZZZZZZZZZZZZZ1");
  } finally {
    registry.close();
    await server.stop();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("webhooks: cursors that cannot be read keep nothing from starting, and a registry that throws ends no loop", async () => {
  const directory = Deno.makeTempDirSync();
  const registry = Registry.open(`${directory}/registry.db`);
  const server = receiver(() => 200);
  const errors: string[] = [];
  let throwing = 0;
  const runs = new Proxy(registry, {
    get(target, name) {
      if (name === "eventsSince" && throwing-- > 0) throw new Error("the registry is locked");
      const value = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  Deno.writeTextFileSync(`${directory}/webhooks.json`, '{"seen": 1, "targ');
  const webhooks = new Webhooks({
    runs,
    log: createLogger({ level: "error", sinks: [(line) => errors.push(line)] }),
    stateFile: `${directory}/webhooks.json`,
    secret: newSecret(),
    daemonUrl: server.url("/all"),
    targetOfRun: () => undefined,
    firstRetryMs: 1,
  });
  try {
    assert.match(errors.join(""), /webhook cursors cannot be read/);
    assert.ok(
      [...Deno.readDirSync(directory)].some(({ name }) =>
        name.startsWith("webhooks.json.damaged-")
      ),
    );
    throwing = 6;
    insertRun(registry, "01HZZZZZZZZZZZZZZZZZZZZZZ1");
    await until(() => seqs(server.got).length >= registry.eventHead(), {
      what: "the events to arrive",
    });
    assert.match(errors.join(""), /a side service failed and is started again/);
  } finally {
    await webhooks.close();
    registry.close();
    await server.stop();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("webhooks: a run's own URL gets that run's events; a refused event holds nobody up", async () => {
  const directory = Deno.makeTempDirSync();
  const registry = Registry.open(`${directory}/registry.db`);
  const server = receiver((delivery) => delivery.path === "/gone" ? 410 : 200);
  const warnings: string[] = [];
  const webhooks = new Webhooks({
    runs: registry,
    log: createLogger({ level: "warn", sinks: [(line) => warnings.push(line)] }),
    stateFile: `${directory}/webhooks.json`,
    secret: newSecret(),
    targetOfRun: (runId) =>
      runId.endsWith("1")
        ? { url: server.url("/one"), events: ["queued", "completed", "deleted"], secretFile: null }
        : runId.endsWith("2")
        ? { url: server.url("/gone"), events: null, secretFile: null }
        : undefined,
    firstRetryMs: 1,
  });
  try {
    for (const n of [1, 2, 3]) {
      insertRun(registry, `01HZZZZZZZZZZZZZZZZZZZZZZ${n}`);
      registry.apply(`01HZZZZZZZZZZZZZZZZZZZZZZ${n}`, { type: "spawned" });
    }
    registry.appendEvent("01HZZZZZZZZZZZZZZZZZZZZZZ1", "completed", { steps: 3 });
    await until(() => server.got.some((d) => JSON.parse(d.body).type === "run.completed"), {
      what: "the last event",
    });
    await until(() => warnings.length > 0, { what: "the refused events to be told" });
    assert.ok(server.got.every((d) => d.path === "/one"));
    const expected = registry.eventsSince(0, { runId: "01HZZZZZZZZZZZZZZZZZZZZZZ1", limit: 100 })
      .filter((e) => e.kind !== "state").map((e) => e.seq);
    assert.deepEqual(seqs(server.got), expected);
    assert.match(warnings[0]!, /HTTP 410/);
  } finally {
    await webhooks.close();
    registry.close();
    await server.stop();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("webhooks: a run's own URL is let go of when the run is over, and gets the events of a later attempt", async () => {
  const directory = Deno.makeTempDirSync();
  // Everything happened an hour ago, so that a run is over for good as soon as it has ended.
  const registry = Registry.open(`${directory}/registry.db`, { now: () => Date.now() - 3_600_000 });
  const server = receiver(() => 200);
  const stateFile = `${directory}/webhooks.json`;
  let configured = true;
  const webhooks = new Webhooks({
    runs: registry,
    log: createLogger({ level: "error" }),
    stateFile,
    secret: newSecret(),
    targetOfRun: () =>
      !configured ? undefined : ({
        url: server.url("/own"),
        events: ["queued", "completed", "failed", "deleted"],
        secretFile: null,
      }),
    firstRetryMs: 1,
  });
  const types = () => server.got.map((d) => JSON.parse(d.body).type);
  try {
    const run = "01HZZZZZZZZZZZZZZZZZZZZZZ1";
    insertRun(registry, run);
    registry.apply(run, { type: "spawned" });
    registry.apply(run, { type: "exited_ok" }, {}, () => ({ kind: "completed", data: {} }));
    await until(() => types().length === 2, { what: "the end to arrive", state: types });
    await until(() => !(readTextIfThere(stateFile) ?? run).includes(run), {
      what: "the run to be let go of",
    });
    registry.apply(
      run,
      { type: "retry", reason: "by hand" },
      {},
      () => ({ kind: "queued", data: {} }),
    );
    registry.apply(run, { type: "spawned" });
    registry.apply(
      run,
      { type: "failed", reason: "exit_code_3" },
      {},
      () => ({ kind: "failed", data: {} }),
    );
    await until(() => types().length === 4, { what: "the second end to arrive", state: types });
    await until(() => !(readTextIfThere(stateFile) ?? run).includes(run), {
      what: "the run to be let go of again",
    });
    webhooks.runWillGo(run);
    configured = false;
    registry.delete(run);
    await until(() => types().length === 5, {
      what: "the last word of the run to arrive",
      state: types,
    });
    assert.deepEqual(types(), [
      "run.queued",
      "run.completed",
      "run.queued",
      "run.failed",
      "run.deleted",
    ]);
    await until(() => !(readTextIfThere(stateFile) ?? run).includes(run), {
      what: "the run to be forgotten",
    });
  } finally {
    await webhooks.close();
    registry.close();
    await server.stop();
    Deno.removeSync(directory, { recursive: true });
  }
});

Deno.test("webhooks: an event that cannot be encoded is counted, named and skipped, and the next ones go out", async () => {
  const directory = Deno.makeTempDirSync();
  const file = `${directory}/registry.db`;
  const server = receiver(() => 200);
  const warnings: string[] = [];
  {
    using made = closing(Registry.open(file));
    insertRun(made.registry, "01HZZZZZZZZZZZZZZZZZZZZZZ1");
    // As an earlier version stored them.
    using db = new DatabaseSync(file);
    const insert = db.prepare(
      "INSERT INTO events (at, run_id, run_name, kind, attempt, data_json) VALUES (?, '01HZZZZZZZZZZZZZZZZZZZZZZ1', 'n', 'alert', 1, ?)",
    );
    insert.run(1, `{"deep":${"[".repeat(20_000)}${"]".repeat(20_000)}}`);
    insert.run(1, "{");
    insert.run(Number.MAX_SAFE_INTEGER, "{}");
  }
  using opened = closing(Registry.open(file));
  const { registry } = opened;
  // From now on they are bounded when they are written.
  registry.appendEvent("01HZZZZZZZZZZZZZZZZZZZZZZ1", "alert", {
    deep: JSON.parse("[".repeat(5000) + "]".repeat(5000)),
    n: 1,
  });
  registry.appendEvent("01HZZZZZZZZZZZZZZZZZZZZZZ1", "alert", {
    long: "x".repeat(2 << 20),
    telemetry_seq: 7,
  });
  registry.appendEvent("01HZZZZZZZZZZZZZZZZZZZZZZ1", "completed", { steps: 3 });
  Deno.writeTextFileSync(
    `${directory}/webhooks.json`,
    JSON.stringify({ seen: 0, targets: [{ url: server.url("/all"), seq: 0 }] }),
  );
  const counts = new Counts();
  const webhooks = new Webhooks({
    runs: registry,
    log: createLogger({ level: "warn", sinks: [(line) => warnings.push(line)] }),
    stateFile: `${directory}/webhooks.json`,
    secret: newSecret(),
    daemonUrl: server.url("/all"),
    targetOfRun: () => undefined,
    firstRetryMs: 1,
    counts,
  });
  try {
    const bodies = () => server.got.map(({ body }) => JSON.parse(body));
    await until(() => bodies().some(({ type }) => type === "run.completed"), {
      what: "the event after them",
    });
    assert.deepEqual(bodies().map(({ data }) => data.seq), [1, 3, 5, 6, 7]);
    assert.deepEqual([bodies()[2].data.n, bodies()[3].data.telemetry_seq], [1, 7]);
    assert.match(bodies()[2].data.left_out, /^is nested 50\d\d deep; the bound is 500$/);
    assert.match(bodies()[3].data.left_out, /^has 2097\d+ bytes; the bound is 1048576$/);
    await until(() => new Map(counts.entries()).get("delivered") === 5, {
      what: "the last delivery to be counted",
    });
    assert.deepEqual(Object.fromEntries(counts.entries()), { delivered: 5, not_encodable: 2 });
    const named = warnings.map((line) => Number(/"seq":(\d+)/.exec(line)?.[1]));
    assert.deepEqual(named, [2, 4]);
    // The page's list of events, which JSON carries as well.
    const lines = registry.eventsSince(0, { limit: 100 }).map((row) =>
      JSON.stringify(eventLine(row))
    );
    assert.equal(lines.length, 7);
    assert.match(lines[1]!, /"left_out":"is nested 2000\d deep/);
  } finally {
    await webhooks.close();
    await server.stop();
    Deno.removeSync(directory, { recursive: true });
  }
});

const closing = (registry: Registry) => ({ registry, [Symbol.dispose]: () => registry.close() });
