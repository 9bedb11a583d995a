import assert from "node:assert/strict";
import { create, type DescMethod } from "@bufbuild/protobuf";
import { ruleOf } from "../../../src/rpc/auth/access.ts";
import { gatekeeper } from "../../../src/rpc/auth/gatekeeper.ts";
import { ROLES } from "../../../src/wire/tokens.ts";
import { workerToken } from "../../../src/base/session_tokens.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { Health } from "../../../src/gen/grpc/health/v1/health_pb.ts";
import { ServerReflection } from "../../../src/gen/grpc/reflection/v1/reflection_pb.ts";
import { Ingest, ProxyMessageSchema } from "../../../src/gen/mosaic/v1/ingest_pb.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import type { RunRow } from "../../../src/registry/row_types.ts";
import { methodPath } from "../../../src/wire/method_path.ts";
import { hasCode } from "../../registry/fixture.ts";

const SERVED = [TrainerService, Mosaic, Ingest, Health, ServerReflection];

Deno.test("table: every method that is served is in it, and only the health service is open", () => {
  for (const service of SERVED) {
    for (const method of service.methods) {
      const rule = ruleOf(methodPath(method));
      assert.ok(rule, `${methodPath(method)} has no rule`);
      assert.equal(rule.needs === "open", service === Health, methodPath(method));
    }
  }
});

Deno.test("table: whatever changes something needs the admin token or the run's own", () => {
  const mayRead = SERVED.flatMap((s) => [...s.methods]).filter((m) =>
    ruleOf(methodPath(m))!.needs === "read"
  );
  assert.deepEqual(
    mayRead.map((m) => m.name).filter((name) =>
      !/^(Get|List|Watch|Stream|ValidateConfig|ServerReflectionInfo)/.test(name)
    ),
    [],
  );
});

const runs: Record<string, Partial<RunRow>> = {
  A: { sessionToken: "secret-a" },
  B: { sessionToken: null },
};
const keeper = gatekeeper({
  get: (runId) => runs[runId] as RunRow | undefined,
  pastAttempt: (token) => token === "secret-past" ? { runId: "A", attempt: 1 } : undefined,
  sessionTokens: () =>
    Object.entries(runs).flatMap(([runId, { sessionToken }]) =>
      sessionToken ? [{ runId, token: sessionToken }] : []
    ),
}, {
  holderOf: (token) => {
    if (token === "the-own") return { name: "ada", role: "operate", own: true };
    const role = ROLES.find((role) => token === `the-${role}`);
    return role && { name: `my-${role}`, role };
  },
}, {
  ofRun: (ref) => ref === "A" ? "ada" : ref === "B" ? "bob" : "",
  ofSweep: (ref) => ref === "lr" ? "ada" : "bob",
});
const path = methodPath;
const { method: trainer } = TrainerService;

Deno.test("gatekeeper: no credential, a wrong one, one that does not suffice", () => {
  assert.throws(
    () => keeper.enter(path(trainer.listRuns), ""),
    hasCode("unauthenticated", /requires a token/),
  );
  assert.throws(
    () => keeper.enter(path(trainer.listRuns), "guess"),
    hasCode("unauthenticated", /not one of/),
  );
  assert.throws(
    () => keeper.enter(path(trainer.submitRun), "the-read"),
    hasCode(
      "permission_denied",
      /^SubmitRun needs the role submit; the token my-read has the role read$/,
    ),
  );
  assert.throws(() => keeper.enter("/x.Y/Z", "the-admin"), hasCode("permission_denied"));
  assert.deepEqual(keeper.enter(path(trainer.listRuns), "the-read"), {
    type: "role",
    role: "read",
    name: "my-read",
  });
  assert.deepEqual(keeper.enter(path(trainer.submitRun), "the-admin"), {
    type: "role",
    role: "admin",
    name: "my-admin",
  });
  assert.deepEqual(keeper.enter(path(Health.method.check), ""), { type: "anybody" });
});

Deno.test("gatekeeper: what each role may do besides", () => {
  const may = (role: string) =>
    SERVED.flatMap(({ methods }) => methods).filter((method) => {
      try {
        return keeper.enter(path(method), `the-${role}`).type === "role";
      } catch (error) {
        assert.ok(hasCode("permission_denied")(error));
        return false;
      }
    }).map((method) => method.name).filter((name, i, all) => all.indexOf(name) === i);
  const besides = (role: string, before: string) => {
    const known = may(before);
    assert.deepEqual(known.filter((name) => !may(role).includes(name)), []);
    return may(role).filter((name) => !known.includes(name));
  };
  assert.deepEqual(besides("submit", "read").toSorted(), [
    "CreateSweep",
    "RecordCode",
    "SubmitRun",
  ]);
  assert.deepEqual(
    besides("operate", "submit").toSorted(),
    [
      "CancelRun",
      "ChangeSweep",
      "ControlStream",
      "EditRun",
      "NameArtifact",
      "ObserveFiles",
      "PauseRun",
      "ResetRun",
      "ResumeRun",
      "RetryRun",
      "ThrottleRun",
    ],
  );
  assert.ok(
    besides("admin", "operate").includes("DeleteRun") &&
      besides("admin", "operate").includes("Shutdown"),
  );
});

Deno.test("gatekeeper: the token of an attempt that is over is told apart from a wrong one, where it was good once", () => {
  const over = hasCode("failed_precondition", /^attempt 1 of run A has ended/);
  assert.throws(() => keeper.enter(path(Ingest.method.deliver), "secret-past"), over);
  assert.throws(() => keeper.enter(path(trainer.publishRunSteps), "secret-past"), over);
  assert.throws(
    () => keeper.enter(path(trainer.cancelRun), "secret-past"),
    hasCode("unauthenticated"),
  );
});

Deno.test("gatekeeper: a session token is good for its own run's publishing and nothing else", () => {
  const publish = path(trainer.publishRunSteps);
  const principal = keeper.enter(publish, "secret-a");
  keeper.admit(principal, publish, { runId: "A" });
  keeper.admit(principal, publish, { runId: "A" });
  assert.throws(
    () => keeper.admit(principal, publish, { runId: "B" }),
    hasCode("permission_denied", /that run only/),
  );
  for (const forged of ["B", "", "unknown"]) {
    const other = keeper.enter(publish, "secret-a");
    assert.throws(
      () => keeper.admit(other, publish, { runId: forged }),
      hasCode("permission_denied"),
    );
  }
  assert.throws(() => keeper.enter(publish, "secret-b"), hasCode("unauthenticated"));
  // The token goes with its run.
  runs.A = { sessionToken: null };
  assert.throws(() => keeper.enter(publish, "secret-a"), hasCode("unauthenticated"));
  runs.A = { sessionToken: "secret-a" };
  for (
    const method of [trainer.listRuns, trainer.cancelRun, trainer.watchRuns, Mosaic.method.getRun]
  ) {
    assert.throws(
      () => keeper.enter(path(method), "secret-a"),
      hasCode("unauthenticated"),
      method.name,
    );
  }
});

Deno.test("gatekeeper: a worker's token publishes for its run; delivering, and reporting its exit, is its proxy's", () => {
  const token = workerToken("secret-a");
  assert.notEqual(token, workerToken("secret-b"));
  for (
    const method of [
      trainer.publishRunSteps,
      trainer.publishRunEpisodes,
      trainer.heartbeat,
      trainer.registerWorker,
      trainer.controlStream,
    ]
  ) {
    keeper.admit(keeper.enter(path(method), token), path(method), { runId: "A" });
    // A run that nobody has begun has no token, nor has its worker.
    const admitted = keeper.enter(path(method), token);
    assert.throws(
      () => keeper.admit(admitted, path(method), { runId: "B" }),
      hasCode("permission_denied"),
    );
    for (const forged of [workerToken(""), ""]) {
      assert.throws(
        () => keeper.enter(path(method), forged),
        hasCode("unauthenticated"),
        method.name,
      );
    }
  }
  assert.throws(() => keeper.enter(path(Ingest.method.deliver), token), hasCode("unauthenticated"));
  assert.throws(() => keeper.enter(path(trainer.cancelRun), token), hasCode("unauthenticated"));
});

Deno.test("gatekeeper: a delivery is of the run that its hello names, which must be the token's own", () => {
  const deliver = path(Ingest.method.deliver);
  const hello = (runId: string) =>
    create(ProxyMessageSchema, { message: { case: "hello", value: { runId } } });
  const batch = create(ProxyMessageSchema, { message: { case: "batch", value: {} } });
  const principal = keeper.enter(deliver, "secret-a");
  keeper.admit(principal, deliver, hello("A"));
  keeper.admit(principal, deliver, batch);
  assert.throws(() => keeper.admit(principal, deliver, hello("B")), hasCode("permission_denied"));
  assert.throws(() => keeper.enter(deliver, "secret-b"), hasCode("unauthenticated"));
});

Deno.test("gatekeeper: a token for one's own runs reads everything and changes nothing of others, whatever the method", () => {
  const mosaic = Mosaic.method;
  const admit = (m: DescMethod, message: unknown) =>
    keeper.admit(keeper.enter(path(m), "the-own"), path(m), message);
  for (const m of [mosaic.cancelRun, mosaic.editRun, mosaic.retryRun, mosaic.pauseRun]) {
    admit(m, { run: "A" });
    assert.throws(
      () => admit(m, { run: "B" }),
      hasCode("permission_denied", /ada may change only its own runs.* bob's/),
    );
    assert.throws(() => admit(m, { run: "C" }), hasCode("permission_denied", /nobody's/));
  }
  admit(trainer.cancelRun, { runId: "A" });
  assert.throws(() => admit(trainer.cancelRun, { runId: "B" }), hasCode("permission_denied"));
  admit(mosaic.changeSweep, { sweep: "lr" });
  assert.throws(
    () => admit(mosaic.changeSweep, { sweep: "seeds" }),
    hasCode("permission_denied", /its own sweeps/),
  );
  for (const m of [mosaic.getRun, mosaic.listRuns, mosaic.streamLogs]) admit(m, { run: "B" });
  admit(trainer.submitRun, { runId: "" });
  const changing = [...Object.values(mosaic), ...Object.values(trainer)].filter((m) =>
    ruleOf(path(m))!.needs === "operate"
  );
  assert.ok(changing.length > 8);
  for (const m of changing) {
    assert.throws(
      () => admit(m, { run: "B", runId: "B", sweep: "seeds" }),
      hasCode("permission_denied"),
      m.name,
    );
  }
});
