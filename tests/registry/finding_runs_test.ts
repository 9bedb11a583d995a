import assert from "node:assert/strict";
import { editDistance } from "../../src/base/text/edit_distance.ts";
import { nearNames } from "../../src/registry/find_run.ts";
import type { RunFilter } from "../../src/registry/row_types.ts";
import { hasCode, newRun, runId, withRegistry } from "./fixture.ts";

Deno.test("resolve: id, id in lower case, unique prefix, unique name, @last", async () => {
  await withRegistry(({ registry, clock }) => {
    assert.throws(
      () => registry.resolve("@last"),
      hasCode("not_found", /no run has been submitted/),
    );
    registry.insert(newRun(1, { runId: "01AAAAAAAAAAAAAAAAAAAAAAAA", name: "cartpole" }));
    clock.now += 1;
    registry.insert(newRun(2, { runId: "01ABAAAAAAAAAAAAAAAAAAAAAA", name: "lunar lander" }));
    const resolved = (ref: string) => registry.resolve(ref).name;
    assert.equal(resolved("01AAAAAAAAAAAAAAAAAAAAAAAA"), "cartpole");
    assert.equal(resolved("01aaaaaaaaaaaaaaaaaaaaaaaa"), "cartpole");
    assert.equal(resolved("01ab"), "lunar lander");
    assert.equal(resolved("lunar lander"), "lunar lander");
    assert.equal(resolved("@last"), "lunar lander");
  });
});

Deno.test("resolve: what fits several runs is refused, naming at most five of them", async () => {
  await withRegistry(({ registry, clock }) => {
    for (let n = 1; n <= 7; n++) {
      clock.now += 1;
      registry.insert(newRun(n, { name: "same" }));
    }
    assert.throws(() => registry.resolve("01HZ"), hasCode("invalid_argument", /01HZ/));
    assert.throws(() => registry.resolve("same"), (error) => {
      const message = (error as Error).message;
      assert.match(
        message,
        new RegExp(`${runId(7)} \\(same\\), ${runId(6)}.*${runId(3)} \\(same\\), …$`),
      );
      assert.ok(!message.includes(runId(2)));
      return hasCode("invalid_argument")(error);
    });
  });
});

Deno.test("resolve: a name that begins another run's id is not silently one of the two", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1, { runId: "01AAAAAAAAAAAAAAAAAAAAAAAA", name: "first" }));
    registry.insert(newRun(2, { runId: "01BAAAAAAAAAAAAAAAAAAAAAAA", name: "01A" }));
    assert.throws(() => registry.resolve("01A"), hasCode("invalid_argument"));
  });
});

Deno.test("resolve: one character is no prefix, and SQL's own wildcards mean themselves", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    for (const ref of ["0", "", "%", "__", "01HZ%", "@first"]) {
      assert.throws(() => registry.resolve(ref), hasCode("not_found"), ref);
    }
  });
});

Deno.test("resolve: an unknown name is answered with near ones", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1, { name: "cartpole-ppo" }));
    registry.insert(newRun(2, { name: "atari" }));
    assert.throws(
      () => registry.resolve("cartploe-ppo"),
      hasCode("not_found", /did you mean "cartpole-ppo"\?$/),
    );
    assert.throws(
      () => registry.resolve("zzzzzz"),
      hasCode("not_found", /^there is no run "zzzzzz"$/),
    );
  });
});

Deno.test("near names: slips of the keyboard, parts of names, nearest first", () => {
  for (
    const [a, b, distance] of [
      ["", "abc", 3],
      ["abc", "abc", 0],
      ["abc", "acb", 1],
      ["kitten", "sitting", 3],
    ] as const
  ) assert.equal(editDistance(a, b), distance, `${a} ${b}`);
  assert.deepEqual(nearNames("demo", ["demos", "Demo", "dem", "other"]), ["Demo", "demos", "dem"]);
  assert.deepEqual(nearNames("pole", ["cartpole", "x"]), ["cartpole"]);
  assert.deepEqual(nearNames("ab", ["xy"]), []);
  assert.deepEqual(nearNames("", ["xy"]), []);
});

Deno.test("list: newest first, in pages that survive submissions and deletions in between", async () => {
  await withRegistry(({ registry, clock }) => {
    for (let n = 1; n <= 9; n++) {
      // Three share each moment: the run id decides among them.
      if (n % 3 === 1) clock.now += 1;
      registry.insert(newRun(n));
    }
    const first = registry.list({}, { limit: 4 });
    assert.deepEqual(first.runs.map((r) => r.runId), [9, 8, 7, 6].map(runId));
    clock.now += 1;
    registry.insert(newRun(10));
    registry.apply(runId(6), { type: "cancelled", reason: "user_cancel" });
    registry.delete(runId(6));
    const second = registry.list({}, { limit: 4, token: first.nextToken });
    assert.deepEqual(second.runs.map((r) => r.runId), [5, 4, 3, 2].map(runId));
    const third = registry.list({}, { limit: 4, token: second.nextToken });
    assert.deepEqual(third.runs.map((r) => r.runId), [runId(1)]);
    assert.equal(third.nextToken, undefined);
    assert.throws(
      () => registry.list({}, { limit: 4, token: "nonsense" }),
      hasCode("invalid_argument", /nonsense/),
    );
  });
});

Deno.test("list: a page that ends with the last run has no successor", async () => {
  await withRegistry(({ registry }) => {
    registry.insert(newRun(1));
    registry.insert(newRun(2));
    assert.equal(registry.list({}, { limit: 2 }).nextToken, undefined);
  });
});

Deno.test("list and count: filters by state, part of the name, all tags, time", async () => {
  await withRegistry(({ registry, clock }) => {
    registry.insert(newRun(1, { name: "CartPole PPO", tags: ["ppo", "good"] }));
    registry.insert(newRun(2, { name: "cartpole_100%", tags: ["ppo"] }));
    clock.now += 1000;
    registry.insert(newRun(3, { name: "atari" }));
    registry.apply(runId(1), { type: "spawned" });
    const cases: [RunFilter, number[]][] = [
      [{}, [3, 2, 1]],
      [{ states: [] }, [3, 2, 1]],
      [{ states: ["HANDSHAKE"] }, [1]],
      [{ states: ["HANDSHAKE", "INIT"] }, [3, 2, 1]],
      [{ states: ["PAUSED"] }, []],
      [{ nameContains: "CARTPOLE" }, [2, 1]],
      [{ nameContains: "%" }, [2]],
      [{ tags: ["ppo"] }, [2, 1]],
      [{ tags: ["good", "ppo"] }, [1]],
      [{ tags: ["ppo", "none"] }, []],
      [{ submittedSince: clock.now }, [3]],
      [{ states: ["INIT"], nameContains: "cart", tags: ["ppo"] }, [2]],
    ];
    for (const [filter, expected] of cases) {
      assert.deepEqual(
        registry.list(filter, { limit: 10 }).runs.map((r) => r.runId),
        expected.map(runId),
        JSON.stringify(filter),
      );
      assert.equal(registry.count(filter), expected.length, JSON.stringify(filter));
    }
    assert.deepEqual(registry.countByState(), { HANDSHAKE: 1, INIT: 2 });
  });
});

Deno.test("live: runs that have not ended, oldest first; byDigest: newest first", async () => {
  await withRegistry(({ registry, clock }) => {
    for (let n = 1; n <= 4; n++) {
      clock.now += 1;
      registry.insert(newRun(n, { digest: "same" }));
    }
    registry.apply(runId(2), { type: "cancelled", reason: "user_cancel" });
    assert.deepEqual(registry.live().map((r) => r.runId), [1, 3, 4].map(runId));
    assert.deepEqual(registry.byDigest("same").map((r) => r.runId), [4, 3, 2, 1].map(runId));
    assert.deepEqual(registry.byDigest("other"), []);
  });
});

Deno.test("list: pages, counts and resolution are answered from indexes", async () => {
  const { DatabaseSync } = await import("node:sqlite");
  await withRegistry(({ path }) => {
    const db = new DatabaseSync(path, { readOnly: true });
    const plan = (sql: string) =>
      db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all().map((row) => String(row.detail)).join("; ");
    assert.match(
      plan("SELECT runs.* FROM runs ORDER BY created_at DESC, run_id DESC LIMIT 5"),
      /^SCAN runs USING INDEX runs_newest$/,
    );
    assert.match(
      plan(
        "SELECT runs.* FROM runs WHERE (created_at, run_id) < (5, 'a') ORDER BY created_at DESC, run_id DESC LIMIT 5",
      ),
      /^SEARCH runs USING INDEX runs_newest/,
    );
    assert.match(
      plan("SELECT state, count(*) FROM runs GROUP BY state"),
      /COVERING INDEX runs_by_state/,
    );
    assert.match(
      plan("SELECT run_id FROM runs WHERE name = 'a' ORDER BY created_at DESC, run_id DESC"),
      /INDEX runs_by_name/,
    );
    db.close();
  });
});
