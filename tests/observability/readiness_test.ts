/**
 * `/healthz`, `/readyz` and the gRPC health service on the same daemon's core: they say the same.
 */
import assert from "node:assert/strict";
import { STANDARD_BOUNDS } from "../../src/base/load_limits.ts";
import { GrpcClient } from "../harness/grpc_client.ts";
import { startServers } from "../../src/daemon/servers.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import {
  Health,
  HealthCheckResponse_ServingStatus as Serving,
} from "../../src/gen/grpc/health/v1/health_pb.ts";
import { readinessOf } from "../../src/observability/readiness.ts";
import { DatabaseSync } from "node:sqlite";
import { Registry } from "../../src/registry/registry.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { batch } from "../telemetry/harness.ts";
import { PlayedEngine } from "../harness/played_engine.ts";

Deno.test("health: alive, ready, and gRPC's in step: stopping, unwritable, too little room", async (t) => {
  await using core = new PlayedEngine();
  let accepting = true;
  const servers = await startServers(core, {
    bounds: STANDARD_BOUNDS,
    listen: "127.0.0.1:0",
    http: "127.0.0.1:0",
    socket: `${core.directory}/daemon.sock`,
    auth: "none",
    auditFile: `${core.directory}/audit.jsonl`,
    tls: undefined,
    tokensFile: `${core.directory}/tokens.json`,
    log: core.log,
    readiness: () => readinessOf(core, { accepting: () => accepting, diskFloorBytes: 1e9 }),
  });
  const client = new GrpcClient(servers.listen);
  /** Names of the checks that fail; and that every way of asking agrees. */
  const failing = async (): Promise<string[]> => {
    const alive = await fetch(`http://${servers.http}/healthz`);
    assert.deepEqual([alive.status, await alive.json()], [200, { ok: true }]);
    const answer = await fetch(`http://${servers.http}/readyz`);
    const { ready, checks } = await answer.json() as ReturnType<typeof readinessOf>;
    assert.equal(answer.status, ready ? 200 : 503);
    const expected = ready ? Serving.SERVING : Serving.NOT_SERVING;
    for (const service of ["", TrainerService.typeName]) {
      assert.equal((await client.unary(Health.method.check, { service })).status, expected);
    }
    assert.equal((await client.unary(TrainerService.method.getHealth, {})).healthy, ready);
    const names = Object.entries(checks).filter(([, { ok }]) => !ok).map(([name]) => name);
    assert.equal(ready, names.length === 0);
    return names;
  };
  try {
    await t.step("ready", async () => assert.deepEqual(await failing(), []));
    await t.step("telemetry cannot be written", async () => {
      core.telemetry.writable = () => false;
      assert.deepEqual(await failing(), ["telemetry"]);
      core.telemetry.writable = TelemetryStore.prototype.writable;
    });
    await t.step("the disk is nearly full", async () => {
      core.hostFacts = { diskAvailableBytes: 1000 };
      assert.deepEqual(await failing(), ["disk"]);
      core.hostFacts = {};
    });
    await t.step("stopping", async () => {
      accepting = false;
      assert.deepEqual(await failing(), ["accepting"]);
    });
  } finally {
    client.close();
    await servers.stop();
  }
});

Deno.test("registry: whether it can be written is found out by trying, and told when the trouble is over", () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-ready-" });
  let now = 0;
  const registry = Registry.open(`${directory}/registry.db`, { now: () => now });
  try {
    assert.equal(registry.writable(), true);
    const other = new DatabaseSync(`${directory}/registry.db`);
    other.exec("BEGIN IMMEDIATE");
    now += 60_000;
    assert.equal(registry.writable(), false);
    other.exec("ROLLBACK");
    other.close();
    assert.equal(registry.writable(), false, "asked again at once, it is not tried again");
    now += 60_000;
    assert.equal(registry.writable(), true);
  } finally {
    registry.close();
    Deno.removeSync(directory, { recursive: true });
  }
});

/** What compression makes no smaller than half. */
const randomText = (length: number): string =>
  crypto.getRandomValues(new Uint8Array(length / 2)).toHex();

Deno.test("telemetry: after a failed write it is tried again when nobody else does", () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-ready-" });
  let now = 0;
  const store = TelemetryStore.open(`${directory}/telemetry.sqlite`, {
    now: () => now,
    maxBytes: 1 << 20,
  });
  const observationJson = Array.from(
    { length: 3000 },
    (_, i) => JSON.stringify(randomText(2000) + i),
  );
  const tooMuch = () => store.ingest("R", 1, batch(0, 1, { steps: { n: 3000, observationJson } }));
  try {
    assert.equal(store.writable(), true);
    assert.throws(tooMuch, /disk is full/);
    assert.equal(store.writable(), false);
    now += 60_000;
    assert.throws(tooMuch, /disk is full/);
    assert.equal(store.writable(), false, "somebody tried just now");
    now += 60_000;
    assert.equal(store.writable(), true);
  } finally {
    store.close();
    Deno.removeSync(directory, { recursive: true });
  }
});
