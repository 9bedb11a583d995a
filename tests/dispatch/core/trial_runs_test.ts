/** Trials that a program prints are runs within its run: each once, wherever the daemon died. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { configOf } from "../../harness/configs.ts";
import { EngineFixture, type PlayedProxy } from "../../harness/engine.ts";
import { until } from "../../harness/wait.ts";

const command = ["/bin/true"];

function announce(proxy: PlayedProxy, first: number, count: number): Promise<void> {
  const events = Array.from({ length: count }, (_, i) => {
    const trial = { number: first + i, state: "finished", values: [i], parameters: { lr: i } };
    return { kind: "trial", dataJson: JSON.stringify(trial), tsNs: "" };
  });
  return proxy.batch({ events });
}

/**
 * Of each run within the run: its name, its state and how many metrics records and parameters it
 * has.
 */
function within(f: EngineFixture, runId: string): string[] {
  return f.registry.childIds(runId).map((child) => {
    const metrics = f.telemetry.read(child, "events", 0, 10).filter(({ kind }) =>
      kind === "metrics"
    ).length;
    return `${f.row(child).name} ${f.row(child).state} ${metrics} ${
      f.telemetry.parameters(child).length
    }`;
  }).sort();
}

function sql(f: EngineFixture, ...statements: string[]): void {
  const db = new DatabaseSync(f.layout.registryDb);
  for (const statement of statements) db.exec(statement);
  db.close();
}

/** The registry refuses this, as a death just before would leave it. */
const dies = {
  "before any run is made": "BEFORE INSERT ON runs WHEN new.parent IS NOT NULL",
  "between the runs and their ends": "BEFORE UPDATE ON runs WHEN new.parent IS NOT NULL",
  "before the cursor moves": "BEFORE UPDATE OF seq ON trial_cursors",
};

for (const [where, trigger] of Object.entries(dies)) {
  for (const ended of [false, true]) {
    const parent = ended ? "has ended" : "goes on";
    Deno.test(`crash ${where}, and the run ${parent}: the next daemon makes each trial once`, async () => {
      await using f = EngineFixture.start();
      const { runId } = f.engine.submit(configOf({ name: "study", command }));
      const proxy = await f.connect(runId);
      await announce(proxy, 0, 2);
      assert.equal(within(f, runId).length, 2);
      sql(f, `CREATE TRIGGER dead ${trigger} BEGIN SELECT RAISE(ABORT, 'the daemon is dead'); END`);
      await announce(proxy, 2, 2);
      const before = within(f, runId).filter((trial) => trial.includes("TERMINATED"));
      assert.equal(before.length, 2);
      if (ended) {
        proxy.exit();
        await f.state(runId, "TERMINATED");
      }
      await f.engine.close();
      sql(f, "DROP TRIGGER dead");
      await using next = f.successor();
      const all = [0, 1, 2, 3].map((n) => `study/trial-${n} TERMINATED 1 1`);
      await until(() => within(next, runId).join() === all.join(), {
        what: "each trial once",
        state: () => within(next, runId),
      });
      if (!ended) await announce(await next.connect(runId), 4, 1);
      assert.equal(within(next, runId).length, ended ? 4 : 5);
      assert.deepEqual(next.registry.openTrials().length, ended ? 0 : 1);
    });
  }
}

Deno.test("trials: thousands in one batch are made in turns; beyond the bound they are counted and said once", async () => {
  await using f = EngineFixture.start();
  const { runId } = f.engine.submit(configOf({ name: "study", command }));
  const proxy = await f.connect(runId);
  await announce(proxy, 0, 1);
  // As many as the bound allows, but for 300.
  const columns = f.registry.childIds(runId).length === 1 &&
    new DatabaseSync(f.layout.registryDb).prepare(
      "SELECT group_concat(name) AS names FROM pragma_table_info('runs') WHERE name NOT IN ('run_id', 'child_key', 'digest')",
    ).get()!.names;
  sql(
    f,
    `INSERT INTO runs (run_id, child_key, digest, ${columns})
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9699)
     SELECT printf('Z%025d', i), 'filled ' || i, 'filled ' || i, ${columns} FROM runs, n WHERE parent IS NOT NULL`,
  );
  await announce(proxy, 1, 500);
  const said = () => f.telemetry.summary(runId).violations;
  await until(() => Object.values(said()).includes(200), {
    what: "the count of those without a run",
    state: said,
  });
  assert.equal(f.registry.childrenOf(runId), 10_000);
  await announce(proxy, 501, 5);
  await until(() => !Object.values(said()).includes(200), {
    what: "the next ones to be counted",
    state: said,
  });
  assert.deepEqual(Object.entries(said()), [
    [
      "not read: optuna: trials beyond 10000 runs within a run: their records stay with the run itself",
      205,
    ],
  ]);
  const events = f.telemetry.read(runId, "events", 0, 1000).filter(({ kind }) =>
    kind === "not_read"
  );
  assert.equal(events.length, 1);
});
