import assert from "node:assert/strict";
import { readConfig } from "../../src/config/config.ts";
import { prepareRun } from "../../src/config/prepare.ts";
import { MosaicError } from "../../src/base/errors.ts";
import { Layout } from "../../src/base/layout.ts";
import {
  parseShares,
  type Ranked,
  ranks,
  unitsOf,
  used,
  Uses,
} from "../../src/dispatch/queue/shares.ts";
import { configOf } from "../harness/configs.ts";
import { EngineFixture } from "../harness/engine.ts";
import { until } from "../harness/wait.ts";
import { DatabaseSync } from "node:sqlite";
import { migrate, MIGRATIONS } from "../../src/registry/migrations.ts";
import { Registry } from "../../src/registry/registry.ts";

const HOUR = 3_600_000;
const halfLifeMs = 168 * HOUR;
const near = (found: number | undefined, expected: number) =>
  assert.ok(
    Math.abs(found! - expected) <= 1e-9 * Math.abs(expected) + 1e-6,
    `${found} is not ${expected}`,
  );

Deno.test("shares: use halves after each half-life, and does not depend on when or in which order it is entered", () => {
  const ran = (owner: string, from: number, to: number | null, units = 1) => ({
    runId: `${owner}${from}`,
    owner,
    sweep: "",
    units,
    from,
    to,
  });
  const uses = new Uses(halfLifeMs);
  uses.add(ran("a", 0, HOUR, 2));
  const once = uses.at(HOUR).get("a")!;
  near(once, used(2, HOUR, halfLifeMs));
  near(uses.at(HOUR + halfLifeMs).get("a"), once / 2);
  // A long run uses as much as the same time in pieces.
  const [whole, pieces] = [new Uses(halfLifeMs), new Uses(halfLifeMs)];
  whole.add(ran("a", 0, 300 * HOUR));
  for (const from of [200, 0, 100]) pieces.add(ran("a", from * HOUR, (from + 100) * HOUR));
  near(pieces.at(400 * HOUR).get("a"), whole.at(400 * HOUR).get("a")!);
  // What runs counts as it goes, and an hour ahead.
  const running = new Uses(halfLifeMs);
  running.add(ran("a", 0, null));
  near(running.at(HOUR).get("a"), used(1, HOUR, halfLifeMs) + HOUR);
  running.ended("a0", HOUR);
  running.ended("a0", 2 * HOUR);
  near(running.at(HOUR).get("a"), used(1, HOUR, halfLifeMs));
});

const waiting = (ids: string, fields: Partial<Ranked> = {}): Ranked[] =>
  ids.split(" ").map((runId, i) => ({
    runId,
    owner: runId[0]!,
    sweep: "",
    priority: 0,
    createdAt: i,
    gpusRequested: 0,
    ...fields,
  }));
const order = (
  runs: Ranked[],
  uses: Record<string, number> = {},
  weights: Record<string, number> = {},
) => {
  const found = ranks(runs, new Map(Object.entries(uses)), {
    weights: new Map(Object.entries(weights)),
    halfLifeMs,
  });
  return runs.toSorted((a, b) =>
    b.priority - a.priority || found.get(a.runId)! - found.get(b.runId)!
  )
    .map(({ runId }) => runId).join(" ");
};

Deno.test("shares: who has used least comes first; owners with equal use take turns, by weight", () => {
  for (
    const [runs, uses, weights, expected] of [
      ["a1 a2 a3 b1 b2", {}, {}, "a1 b1 a2 b2 a3"],
      ["a1 a2 b1", { a: 2.5 * HOUR }, {}, "b1 a1 a2"],
      ["a1 b1 b2 b3 b4", { a: 2.5 * HOUR }, {}, "b1 b2 b3 a1 b4"],
      ["a1 a2 a3 a4 b1 b2", {}, { a: 2 }, "a1 b1 a2 a3 b2 a4"],
      ["a1 a2 a3", { a: 5 }, {}, "a1 a2 a3"],
    ] as [string, Record<string, number>, Record<string, number>, string][]
  ) assert.equal(order(waiting(runs), uses, weights), expected);
  const big = [
    ...waiting("a1", { gpusRequested: 4 }),
    ...waiting("a2 b1 b2 b3 b4 b5", { createdAt: 9 }),
  ];
  assert.equal(order(big), "a1 b1 b2 b3 b4 a2 b5", "four GPUs count as four runs");
  const urgent = [...waiting("a1 b1"), ...waiting("a9", { priority: 1 })];
  assert.equal(order(urgent), "a9 b1 a1", "priority is first, and counts as use");
});

Deno.test("shares: sweeps of one owner take turns, by what runs of them; other runs of the owner are as one of them", () => {
  const [s, t, alone] = [
    waiting("a1 a2 a3 a4", { sweep: "sweep:s" }),
    waiting("a5 a6", { sweep: "sweep:t", createdAt: 9 }),
    waiting("a7", { createdAt: 10 }),
  ];
  assert.equal(order([...s, ...t, ...alone]), "a1 a5 a7 a2 a6 a3 a4");
  assert.equal(order([...s, ...t], {}, { "sweep:t": 2 }), "a1 a5 a6 a2 a3 a4", "by weight");
  const uses = new Uses(halfLifeMs);
  for (const [runId, owner] of [["r1", "a"], ["r2", "a"], ["r3", "b"]] as const) {
    uses.add({ runId, owner, sweep: "sweep:s", units: 1, from: 0, to: null });
  }
  const ranked = (running: ReadonlyMap<string, number>) => {
    const found = ranks([...s, ...t], new Map(), { weights: new Map(), halfLifeMs }, running);
    return [...s, ...t].toSorted((x, y) => found.get(x.runId)! - found.get(y.runId)!).map((
      { runId },
    ) => runId).join(
      " ",
    );
  };
  assert.equal(ranked(uses.runningBySweep()), "a5 a6 a1 a2 a3 a4", "two of the first sweep run");
  uses.ended("r1", 1);
  assert.equal(ranked(uses.runningBySweep()), "a5 a1 a6 a2 a3 a4");
});

Deno.test("shares: a part of a card counts in part, and a run without GPUs as one", () => {
  assert.equal(unitsOf({ gpusRequested: 2 }), 2);
  assert.equal(unitsOf({ gpusRequested: 2, part: 0.25 }), 0.5);
  assert.equal(unitsOf({ gpusRequested: 0 }), 1);
  const run = (runId: string, owner: string, part?: number): Ranked => ({
    ...{ runId, owner, sweep: "", priority: 0, createdAt: Number(runId.slice(1)), part },
    gpusRequested: 1,
  });
  // Four quarters of one owner are as much as a whole card of the other.
  const quarters = [1, 2, 3, 4, 5].map((n) => run(`a${n}`, "a", 0.25));
  assert.equal(order([...quarters, run("b6", "b"), run("b7", "b")]), "a1 b6 a2 a3 a4 a5 b7");
});

Deno.test("--share: what it takes", () => {
  assert.deepEqual([...parseShares("alice=2,uid:1001=0.5")], [["alice", 2], ["uid:1001", 0.5]]);
  assert.deepEqual([...parseShares("equal")], []);
  for (const text of ["", "alice", "alice=", "=2", "alice=0", "alice=-1", "alice=x", "alice=2,"]) {
    assert.throws(() => parseShares(text), /must be equal, or OWNER=WEIGHT/, text);
  }
});

Deno.test("submitter: the daemon says who submitted a run, whatever the config says", () => {
  const prepared = (submitter: string, said?: string) => {
    const metadata = said === undefined ? {} : { submitted_by: said };
    const read = readConfig(configOf({ command: ["/bin/true"], metadata }));
    const { configJson } = prepareRun(read, { runId: "R", layout: new Layout("/srv"), submitter });
    return JSON.parse(configJson).metadata.submitted_by ?? "";
  };
  assert.equal(prepared("alice"), "alice");
  assert.equal(prepared("alice", "bob"), "alice");
  assert.equal(prepared("", "bob"), "");
});

// --------------------------------------------------------------------------------------------------------------
// engine

const command = ["/bin/true"];
const gpus = { requested: 1, mandatory: true };

Deno.test("--share: the owner who has used less is first, also after a restart of the daemon", async () => {
  const options = { maxRuns: 1, shares: { weights: new Map(), halfLifeMs } };
  await using f = EngineFixture.start(options);
  const submit = (owner: string) => f.engine.submit(configOf({ command }), "", owner).runId;
  const first = submit("alice");
  const proxy = await f.connect(first);
  const [again, bobs] = [submit("alice"), submit("bob")];
  await f.engine.close();
  await using next = f.successor(0, options);
  await until(() => next.engine.detail(next.row(bobs)).queuePosition === 1, {
    what: "bob's run to be next",
    state: () => next.engine.detail(next.row(again)).queuePosition,
  });
  const same = await next.connect(first);
  same.position = proxy.position;
  same.exit();
  await next.connect(bobs);
  assert.equal(next.row(again).state, "INIT");
  const [attempt, ...others] = next.registry.attemptsSince(0).filter(({ owner }) =>
    owner === "alice"
  );
  assert.deepEqual([attempt!.runId, others.length], [first, 0]);
  assert.ok(attempt!.to! >= attempt!.from);
});

Deno.test("--max-gpus-per-user: a user's runs wait at the limit, and others' start; more than it is refused", async () => {
  await using f = EngineFixture.start({ gpuCount: 3, maxGpusPerUser: 1 });
  const submit = (owner: string) => f.engine.submit(configOf({ command, gpus }), "", owner).runId;
  const first = submit("alice");
  const proxy = await f.connect(first);
  const [second, bobs] = [submit("alice"), submit("bob")];
  await f.connect(bobs);
  await until(
    () =>
      /^1 GPU \(alice has 1, and may have 1 at a time\)$/.test(
        f.engine.detail(f.row(second)).waitingFor,
      ),
    {
      what: "the reason",
      state: () => f.engine.detail(f.row(second)).waitingFor,
    },
  );
  proxy.exit();
  await f.connect(second);
  const many = configOf({ command, gpus: { requested: 2, mandatory: true } });
  assert.throws(
    () => f.engine.submit(many, "", "alice"),
    (e) =>
      e instanceof MosaicError && e.code === "resource_exhausted" &&
      /one user may have 1 GPUs/.test(e.message),
  );
});

Deno.test("--max-runs-per-user: a user's further runs wait for an end of theirs, and others' start", async () => {
  await using f = EngineFixture.start({ maxRunsPerUser: 1 });
  const submit = (owner: string) => f.engine.submit(configOf({ command }), "", owner).runId;
  const first = submit("alice");
  const proxy = await f.connect(first);
  const [second, bobs] = [submit("alice"), submit("bob")];
  await f.connect(bobs);
  const why = () => f.engine.detail(f.row(second)).waitingFor;
  await until(() => why() === "an end of alice's runs, of which 1 run may run at a time", {
    what: "the reason",
    state: why,
  });
  proxy.exit();
  await f.connect(second);
});

Deno.test("owner: of a run, of the runs within it, and of those that an earlier schema has", () => {
  const path = Deno.makeTempFileSync();
  const db = new DatabaseSync(path);
  migrate(db, path, MIGRATIONS.filter(({ version }) => version < 17));
  const insert = db.prepare(
    `INSERT INTO runs (run_id, name, digest, state, attempt, max_attempts, priority, tags, base_dir,
    config_json, gpus_requested, gpus_mandatory, worker_id, agent_id, created_at, updated_at, parent, child_key)
    VALUES (?, ?, '', 'TERMINATED', 1, 1, 0, '[]', 'runs', ?, 0, 0, '', '', 1, 1, ?, ?)`,
  );
  insert.run("A", "a", '{"metadata":{"submitted_by":"alice"}}', null, null);
  insert.run("B", "a/1", "{}", "A", "1");
  insert.run("C", "c", "not JSON", null, null);
  db.close();
  const registry = Registry.open(path);
  try {
    assert.deepEqual(["A", "B", "C"].map((id) => registry.require(id).owner), [
      "alice",
      "alice",
      "",
    ]);
    assert.deepEqual(
      registry.list({ owner: "alice" }, { limit: 9 }).runs.map(({ runId }) => runId),
      ["A"],
    );
  } finally {
    registry.close();
    Deno.removeSync(path);
  }
});
