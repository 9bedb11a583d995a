import assert from "node:assert/strict";
import { columnOf, RECORDS } from "../../src/records/record_fields.ts";
import { EMPTY_EPISODE } from "../../src/gen/records/record_types.ts";
import { DatabaseSync } from "node:sqlite";
import type { SeriesBucketRow } from "../../src/records/stored.ts";
import { until } from "../harness/wait.ts";
import { batch, steps, withStore } from "./harness.ts";

/** What the buckets over some values must be, from the values themselves. */
function expected(
  values: (number | null)[],
  rows: SeriesBucketRow[],
  first: number,
  last: number,
): void {
  let next = first;
  for (const row of rows) {
    assert.ok(row.firstX >= next && row.lastX >= row.firstX, "buckets follow each other");
    const inside = values.slice(row.firstX - 1, row.lastX).filter((v) => v !== null);
    next = row.lastX + 1;
    if (inside.length === 0) {
      assert.deepEqual(
        [row.min, row.max, row.mean, row.last, row.count],
        [NaN, NaN, NaN, NaN, 0],
        "a gap",
      );
      continue;
    }
    // Not by Math.min(...inside): tens of thousands of arguments are most of the stack.
    assert.equal(row.min, inside.reduce((a, b) => Math.min(a, b), Infinity));
    assert.equal(row.max, inside.reduce((a, b) => Math.max(a, b), -Infinity));
    assert.equal(row.last, inside.at(-1));
    assert.equal(row.count, inside.length);
    const mean = inside.reduce((a, b) => a + b, 0) / inside.length;
    assert.ok(
      Math.abs(row.mean - mean) < 1e-9 * Math.max(1, Math.abs(mean)),
      `mean ${row.mean}, ${mean}`,
    );
  }
  assert.equal(
    rows.reduce((n, row) => n + row.count, 0),
    values.slice(first - 1, last).filter((v) => v !== null).length,
  );
}

Deno.test("series: reward in buckets is exact over any range, across restarts at any point", () =>
  withStore((bench) => {
    const total = 70_000;
    const rewards = Array.from(
      { length: total },
      (_, i) => i % 97 === 0 ? NaN : Math.sin(i / 50) * 100 + (i % 13),
    );
    // Sizes that put restarts before, on and after the ends of buckets.
    const sizes = [1, 30, 1, 992, 31, 33, 1000, 4096, 26_584, 1, 32_000, 5231];
    let done = 0;
    for (const n of sizes) {
      const reward = rewards.slice(done, done + n).map((r) => Number.isNaN(r) ? "NaN" : r);
      bench.store.ingest("R", 1, batch(done, done + n, { steps: { n, reward } }));
      done += n;
      bench.reopen();
    }
    assert.equal(done, total);
    const values = rewards.map((r) => Number.isNaN(r) ? null : r);
    const ranges = [[1, total], [1, 100], [31, 33], [33, 64], [2, 69_999], [500, 40_000], [
      65_537,
      70_000,
    ], [99, 99]];
    for (const [from, to] of ranges) {
      for (const limit of [1, 2, 7, 500, 20_000]) {
        const rows = bench.store.series("R", "reward", from!, to!, limit);
        assert.ok(rows.length <= limit, `${rows.length} buckets of at most ${limit}`);
        expected(values, rows, from!, to!);
      }
    }
    // More buckets than are worth their rows become wider ones, and stay hundreds.
    const many = bench.store.series("R", "reward", 1, total, 20_000).length;
    assert.ok(many > 1000 && many < 8192, `${many} buckets`);
    assert.deepEqual(
      bench.store.series("R", "reward", 0, 0, 50),
      bench.store.series("R", "reward", 1, total, 50),
    );
  }));

Deno.test("series: a database with the former levels of buckets gets the present ones", () =>
  withStore(async (bench) => {
    const total = 150_000;
    const values = Array.from({ length: total }, (_, i) => Math.sin(i / 900) * 10);
    bench.store.ingest("R", 1, batch(0, 1, { steps: { n: total, reward: values } }));
    const ranges = [[1, total, 40], [1, total, 500], [700, 9000, 9], [
      256 * 3,
      2048 * 60,
      300,
    ]] as const;
    const all = () =>
      ranges.map(([from, to, buckets]) => bench.store.series("R", "reward", from, to, buckets));
    const before = all();
    bench.store.close();
    const db = new DatabaseSync(bench.path);
    db.exec(
      `DROP VIEW run_steps; CREATE VIEW run_steps AS SELECT 1; DROP TABLE step_blocks; DROP TABLE parameters; DELETE FROM series_buckets WHERE level > 3;
        UPDATE series_buckets SET max = 1e9 WHERE level > 1`,
    );
    db.exec(
      `DROP TABLE series_starts; DROP TABLE source_cursors; ALTER TABLE series DROP COLUMN label; ALTER TABLE series DROP COLUMN attempt;
      ALTER TABLE telemetry_runs DROP COLUMN told_step; ALTER TABLE telemetry_runs DROP COLUMN told_reward;
      ALTER TABLE telemetry_runs DROP COLUMN told_reward_name; ALTER TABLE telemetry_runs DROP COLUMN crc; ALTER TABLE series_buckets DROP COLUMN step`,
    );
    for (
      const table of [
        "steps",
        "episodes",
        "worker_events",
        "metrics",
        "series_buckets",
        "sources",
        "journal_positions",
      ]
    ) {
      db.exec(`ALTER TABLE ${table} DROP COLUMN crc`);
    }
    // Columns of newer fields are no part of the former schema either.
    for (const { table, fields } of Object.values(RECORDS)) {
      for (const field of fields.filter(({ since }) => since !== undefined)) {
        for (
          const { name } of db.prepare("SELECT name FROM sqlite_schema WHERE type = 'view'").all()
        ) {
          db.exec(`DROP VIEW ${name}`);
        }
        db.exec(`ALTER TABLE ${table} DROP COLUMN ${columnOf(field)}`);
      }
    }
    db.exec(
      `DROP TABLE series; CREATE TABLE series (run_key INTEGER NOT NULL, series INTEGER NOT NULL,
      name TEXT NOT NULL, points INTEGER NOT NULL, last REAL NOT NULL, last_seq INTEGER NOT NULL,
      PRIMARY KEY (run_key, series)) WITHOUT ROWID`,
    );
    db.exec("PRAGMA user_version = 1");
    db.close();
    bench.reopen();
    await until(() => bench.store.listSeries("R")[0]?.mean !== null, {
      what: "the row to be summarised",
    });
    const [summary] = bench.store.listSeries("R");
    assert.deepEqual([summary!.points, summary!.min, summary!.max, summary!.last], [
      ...[
        total,
        values.reduce((a, b) => Math.min(a, b)),
        values.reduce((a, b) => Math.max(a, b)),
        values.at(-1),
      ],
    ]);
    const close = (rows: SeriesBucketRow[]) =>
      rows.map((row) => ({ ...row, mean: Math.round(row.mean * 1e9) }));
    assert.deepEqual(all().map(close), before.map(close));
    // Going on where the buckets end.
    bench.store.ingest("R", 1, batch(1, 2, { steps: { n: 5000, reward: values.slice(0, 5000) } }));
    const longer = [...values, ...values.slice(0, 5000)];
    expected(longer, bench.store.series("R", "reward", 1, longer.length, 60), 1, longer.length);
  }, { blocks: "none" }));

Deno.test("series: metrics from steps, episodes and events, exact across restarts", () =>
  withStore((bench) => {
    const loss: number[] = [];
    const rare: number[] = [];
    for (let b = 0; b < 6; b++) {
      const infoJson = Array.from({ length: 300 }, (_, i) => {
        loss.push(b * 300 + i + 0.25);
        if (i % 9 === 0) rare.push(i);
        return i % 9 === 0
          ? `{"loss":${loss.at(-1)},"deep":{"rare":${i}},"text":"x","seed":4}`
          : `{"loss":${loss.at(-1)},"nan":NaN}`;
      });
      bench.store.ingest(
        "R",
        1,
        batch(b, b + 1, {
          steps: { n: 300, infoJson },
          episodes: [{
            ...EMPTY_EPISODE,
            ...{
              episode: b,
              totalReward: b * 2,
              steps: 300,
              terminated: true,
              truncated: false,
              agentId: "",
            },
            ...{
              metadataJson: `{"success":${b % 2},"episode_index":${b}}`,
              tsNs: "",
              workerId: "",
            },
          }],
          events: [{
            kind: "heartbeat",
            dataJson: `{"global_step":${b * 1000},"fps":${b}}`,
            tsNs: "",
          }],
        }),
      );
      bench.reopen();
    }
    const names = bench.store.listSeries("R").map(({ name, points }) => [name, points]);
    assert.deepEqual(names, [
      ...[["reward", 1800], ["episode_reward", 6], ["episode_length", 6]],
      ...[["deep.rare", rare.length], ["fps", 6], ["loss", 1800], ["nan", 1800 - rare.length], [
        "success",
        6,
      ]],
    ]);
    for (const [name, values] of [["loss", loss], ["deep.rare", rare]] as const) {
      for (const [from, to] of [[1, values.length], [5, 70], [65, 65], [33, values.length - 1]]) {
        for (const limit of [3, 40, 2000]) {
          expected([...values], bench.store.series("R", name, from!, to!, limit), from!, to!);
        }
      }
    }
    expected([0, 2, 4, 6, 8, 10], bench.store.series("R", "episode_reward", 0, 0, 100), 1, 6);
    const fps = bench.store.read("R", "metrics", 0, 4096).filter(({ name }) => name === "fps");
    assert.deepEqual(fps.map(({ step, value }) => [step, value]).slice(0, 3), [[0, 0], [1000, 1], [
      2000,
      2,
    ]]);
    assert.throws(() => bench.store.series("R", "nothing", 0, 0, 5), { code: "not_found" });
  }));

Deno.test("series: lengths of episodes that nobody has told are no series", () =>
  withStore(({ store }) => {
    const episode = (steps: number) => ({
      ...EMPTY_EPISODE,
      ...{ episode: 0, totalReward: 1, steps, terminated: true, truncated: false },
    });
    const has = (...names: string[]) => {
      assert.deepEqual(store.listSeries("R").map(({ name }) => name), names);
      assert.deepEqual(
        [...store.namesOfMany(["R"])].flatMap((one) => one?.name ?? []).sort(),
        names.sort(),
      );
    };
    store.ingest("R", 1, batch(0, 1, { episodes: [episode(0), episode(0)] }));
    has("episode_reward");
    store.ingest("R", 1, batch(1, 2, { episodes: [episode(7)] }));
    has("episode_reward", "episode_length");
  }));

Deno.test("series: NaN and infinities are points: counted, read as they came, a gap in the buckets", () =>
  withStore((bench) => {
    const written = [0.5, NaN, Infinity, 0.25, -Infinity, 1];
    const events = written.map((value, i) => ({
      kind: "metrics",
      tsNs: "",
      // As Python writes it, and as a proxy does.
      dataJson: `{"global_step":${i},"loss":${
        i < 3 || Number.isFinite(value) ? value : `"${value}"`
      }}`,
    }));
    bench.store.ingest("R", 1, batch(0, 1, { events: events.slice(0, 4) }));
    bench.reopen();
    bench.store.ingest("R", 1, batch(1, 2, { events: events.slice(4) }));
    for (const _ of ["as written", "after a restart"]) {
      const points = bench.store.read("R", "metrics", 0, 9).map(({ step, value }) => [step, value]);
      assert.deepEqual(points, written.map((value, step) => [step, value]));
      const [loss] = bench.store.listSeries("R");
      assert.deepEqual([loss!.points, loss!.nonFinite, loss!.min, loss!.max, loss!.last], [
        6,
        3,
        0.25,
        1,
        1,
      ]);
      expected(
        written.map((v) => Number.isFinite(v) ? v : null),
        bench.store.series("R", "loss", 0, 0, 6),
        1,
        6,
      );
      assert.equal(bench.store.series("R", "loss", 0, 0, 6).length, 6);
      bench.reopen();
    }
  }));

Deno.test("series: a run has a bounded number of metrics, further ones are counted", () =>
  withStore(({ store }) => {
    const many = (from: number, n: number) =>
      JSON.stringify(
        Object.fromEntries(Array.from({ length: n }, (_, i) => [`metric_${from + i}`, i])),
      );
    const events = [0, 2000, 4000, 6000, 8000, 10_000].map((from) => many(from, 2000));
    const event = (dataJson: string) => ({ kind: "metrics", tsNs: "", dataJson });
    store.ingest("R", 1, batch(0, 1, { events: [...events, many(0, 2050)].map(event) }));
    assert.equal(store.listSeries("R").length, 10_000);
    assert.deepEqual(Object.values(store.summary("R").violations), [2000, 2]);
    assert.equal(store.head("R", "metrics"), 10_000 + 2048);
  }));

Deno.test("series: what mosaic adds itself takes no place of the worker's metrics, and needs none", () =>
  withStore((bench) => {
    const worker = (from: number, n: number) => {
      const values = Object.fromEntries(
        Array.from({ length: n }, (_, i) => [`metric_${from + i}`, i]),
      );
      return { kind: "metrics", tsNs: "", dataJson: JSON.stringify(values) };
    };
    bench.store.ingest(
      "R",
      1,
      batch(0, 1, { events: [0, 2000].map((from) => worker(from, 2000)) }),
    );
    bench.store.sample("R", 1, [["system/processes", 1]]);
    bench.reopen();
    bench.store.ingest(
      "R",
      1,
      batch(1, 2, { events: [4000, 6000, 8000].map((from) => worker(from, 2000)) }),
    );
    bench.store.sample("R", 1, [["system/memory_mb", 1]]);
    bench.store.ingest("R", 1, batch(2, 3, { events: [worker(10_000, 1)] }));
    assert.equal(bench.store.listSeries("R").length, 10_002);
    assert.deepEqual(Object.values(bench.store.summary("R").violations), [1]);
  }));

Deno.test("series: the step of a point counts the run's steps where the record names none", () =>
  withStore(({ store }) => {
    store.ingest("R", 1, batch(0, 1, { steps: steps(0, 5) }));
    store.ingest(
      "R",
      1,
      batch(1, 2, { steps: { n: 2, infoJson: ['{"a":1}', '{"a":2,"global_step":77}'] } }),
    );
    assert.deepEqual(store.read("R", "metrics", 0, 9).map(({ step }) => step), [6, 77]);
    assert.deepEqual(store.series("R", "a", 1, 0, 9).map(({ step }) => step), [6, 77]);
    assert.equal(store.series("R", "reward", 1, 0, 9)[0]!.step, null);
  }));

Deno.test("series: closed buckets of a metric know the step of their last point", () =>
  withStore(({ store }) => {
    const infoJson = Array.from({ length: 100 }, (_, i) => `{"a":${i},"global_step":${i * 50}}`);
    store.ingest("R", 1, batch(0, 1, { steps: { n: 100, infoJson } }));
    assert.deepEqual(store.series("R", "a", 1, 0, 3).map(({ lastX, step }) => [lastX, step]), [[
      64,
      3150,
    ], [
      100,
      4950,
    ]]);
  }));

Deno.test("series: a row has the extremes with their steps, and is the same after a restart", () =>
  withStore((bench) => {
    const infoJson = [3, -1, 5, 5, -1].map((a, i) => `{"a":${a},"global_step":${i * 10}}`);
    const put = (at: number) =>
      bench.store.ingest(
        "R",
        1,
        batch(at, at + 1, { steps: { n: 5, infoJson, reward: [NaN, 2, 8, 1, 8] } }),
      );
    put(0);
    const summary = {
      nonFinite: 0,
      last: -1,
      min: -1,
      max: 5,
      minStep: 10,
      maxStep: 20,
      label: "",
      copyOf: null,
    };
    const find = (name: string) => bench.store.listSeries("R").find((one) => one.name === name);
    assert.deepEqual(find("a"), { name: "a", points: 5, mean: 11 / 5, ...summary });
    bench.reopen();
    put(1);
    assert.deepEqual(find("a"), { name: "a", points: 10, mean: 22 / 10, ...summary });
    assert.deepEqual(bench.store.seriesNamed("a"), [{ runId: "R", ...find("a")! }]);
    assert.deepEqual(find("reward"), {
      ...{
        name: "reward",
        points: 10,
        nonFinite: 2,
        last: 8,
        min: 1,
        max: 8,
        mean: 38 / 8,
        minStep: 4,
        maxStep: 3,
      },
      ...{ label: "", copyOf: null },
    });
    assert.deepEqual(bench.store.seriesNames(), ["a", "reward"]);
  }));

Deno.test("series: the metric that is most surely the reward of episodes is told, by its last finite value", () =>
  withStore((bench) => {
    const told = () => bench.store.summary("R").reportedReward;
    const metrics = (seq: number, values: Record<string, unknown>) =>
      bench.store.ingest(
        "R",
        1,
        batch(seq, seq + 1, {
          events: [{ kind: "metrics", tsNs: "", dataJson: JSON.stringify(values) }],
        }),
      );
    metrics(0, { loss: 1 });
    assert.equal(told(), null);
    metrics(1, { "eval/mean_reward": 5 });
    metrics(2, { "rollout/ep_rew_mean": 20.5, "eval/mean_reward": 6 });
    metrics(3, { "eval/mean_reward": 7, "rollout/ep_rew_mean": "NaN" });
    assert.deepEqual(told(), { name: "rollout/ep_rew_mean", value: 20.5 });
    bench.reopen();
    metrics(4, { "rollout/ep_rew_mean": 30 });
    assert.deepEqual(told(), { name: "rollout/ep_rew_mean", value: 30 });
  }));

Deno.test("series: names of several runs come one at a time, also those that only other runs have, as nothing", () =>
  withStore((bench) => {
    const event = (json: string) => [{ kind: "metrics", dataJson: json, tsNs: "1" }];
    bench.store.ingest("R", 1, batch(0, 10, { events: event('{"b":1}') }));
    bench.store.ingest("R", 1, batch(10, 20, { events: event('{"b":2,"d":1}') }));
    bench.store.ingest("other", 1, batch(0, 10, { events: event('{"a":1,"c":1,"e":1}') }));
    assert.deepEqual(
      [...bench.store.namesOfMany(["R", "none"])].filter((name) =>
        !/reward|length/.test(name?.name ?? "")
      ),
      [
        undefined,
        { name: "b", once: false },
        undefined,
        { name: "d", once: true },
        undefined,
      ],
    );
  }));

Deno.test("series: what a worker says once in each attempt was said once", () =>
  withStore((bench) => {
    const event = (json: string) => [{ kind: "metrics", dataJson: json, tsNs: "1" }];
    const names = () =>
      Object.fromEntries(
        [...bench.store.namesOfMany(["R"])].flatMap((one) =>
          one === undefined ? [] : [[one.name, one.once]]
        )
          .filter(([name]) => ["total", "loss"].includes(name as string)),
      );
    bench.store.ingest("R", 1, batch(0, 10, { events: event('{"total":1,"loss":1}') }));
    bench.store.beginAttempt("R", 2, null);
    bench.store.ingest(
      "R",
      2,
      batch(0, 10, { events: [...event('{"total":2,"loss":1}'), ...event('{"loss":2}')] }),
    );
    assert.deepEqual(names(), { total: true, loss: false });
    bench.store.beginAttempt("R", 3, null);
    bench.store.ingest("R", 3, batch(0, 10, { events: event('{"total":3}') }));
    assert.deepEqual(names(), { total: true, loss: false });
  }));

Deno.test("series: outlines of several runs are those of each alone", () =>
  withStore((bench) => {
    const event = (i: number, names: string[]) => ({
      kind: "metrics",
      dataJson: JSON.stringify({
        step: i * 10,
        ...Object.fromEntries(names.map((name) => [name, Math.sin(i)])),
      }),
      tsNs: `${i}000000`,
    });
    const points: [runId: string, points: number, names: string[]][] = [
      ["whole", 256, ["a"]],
      ["tail", 300, ["a"]],
      ["under another key", 300, ["b", "a"]],
      ["few", 3, ["a"]],
      ["long", 5000, ["a"]],
      ["without", 256, ["b"]],
      ["resumed", 300, ["a"]],
    ];
    for (const [runId, n, names] of points) {
      bench.store.ingest(
        runId,
        1,
        batch(0, 10, { events: Array.from({ length: n }, (_, i) => event(i, names)) }),
      );
    }
    bench.store.beginAttempt("resumed", 2, null);
    bench.store.ingest(
      "resumed",
      2,
      batch(0, 10, { events: Array.from({ length: 100 }, (_, i) => event(i, ["a"])) }),
    );
    const runs = [...points.map(([runId]) => runId), "no such run"];
    for (
      const [from, to, buckets] of [[0, 0, 40], [1, 290, 8], [50, 120, 3], [280, 5000, 20], [
        9000,
        9999,
        9,
      ]] as const
    ) {
      const alone = runs.map((runId) => {
        try {
          return bench.store.series(runId, "a", from, to, buckets, true);
        } catch (error) {
          assert.match((error as Error).message, /has no series "a"/);
          return [];
        }
      });
      assert.deepEqual(bench.store.outlines(runs, "a", from, to, buckets), alone);
    }
    assert.equal(
      new Set(bench.store.outlines(["resumed"], "a", 0, 0, 40)[0]!.map((row) => row.attempt)).size,
      2,
    );
  }));

Deno.test("series: an outline has all of few points, and of more the first, the last and the extremes", () =>
  withStore((bench) => {
    const lengths = [1, 2, 33, 60, 64, 65, 100, 255, 256, 257, 300, 2049, 5000];
    for (const n of lengths) {
      const events = Array.from({ length: n }, (_, i) => ({
        kind: "metrics",
        dataJson: JSON.stringify({
          step: (i + 1) * 1000,
          a: i === n >> 1 ? 99 : i === n >> 2 ? -99 : i,
        }),
        tsNs: `${i}000000`,
      }));
      bench.store.ingest(`r${n}`, 1, batch(0, 10, { events }));
    }
    const runs = lengths.map((n) => `r${n}`);
    for (const budget of [1, 2, 40]) {
      bench.store.outlines(runs, "a", 0, 0, budget).forEach((rows, i) => {
        const n = lengths[i]!;
        const of = `${n} points, a budget of ${budget}`;
        assert.deepEqual([rows[0]!.firstX, rows[0]!.lastX, rows[0]!.step], [1, 1, 1000], of);
        assert.deepEqual([rows.at(-1)!.lastX, rows.at(-1)!.step], [n, n * 1000], of);
        assert.ok(rows.length >= Math.min(n, 8) && rows.length <= 64, `${of}: ${rows.length} rows`);
        if (n <= 64) assert.equal(rows.length, n, of);
        assert.equal(
          Math.max(...rows.map((r) => r.max)),
          Math.max(99, n === 5000 ? 4999 : n - 1),
          of,
        );
        if (n > 3) assert.equal(Math.min(...rows.map((r) => r.min)), -99, of);
        // No point is in two parts; the newest may be in none.
        assert.ok(rows.reduce((sum, r) => sum + r.count, 0) <= n, of);
        rows.forEach((r, k) => k > 0 && assert.ok(r.firstX > rows[k - 1]!.lastX, of));
      });
    }
  }));

Deno.test("series: the end of a curve continues the buckets that were read before", () =>
  withStore((bench) => {
    let n = 0;
    const put = (count: number) => {
      const events = Array.from({ length: count }, () => ({
        kind: "metrics",
        dataJson: JSON.stringify({ step: ++n * 10, a: Math.sin(n) }),
        tsNs: `${n}000000`,
      }));
      bench.store.ingest("R", 1, batch(n - count, n, { events }));
    };
    for (const count of [5, 300, 40, 1, 900]) {
      put(count);
      const before = bench.store.series("R", "a", 0, 0, 50);
      const width = before[0]!.lastX;
      put(37);
      const last = before.at(-1)!;
      const end = bench.store.seriesTail("R", "a", last.firstX, width)!;
      const whole = [...before.slice(0, -1), ...end];
      whole.forEach((row, i) => {
        assert.deepEqual([row.firstX, row.lastX], [i * width + 1, Math.min(n, (i + 1) * width)]);
        const exact = bench.store.series("R", "a", row.firstX, row.lastX, 1)[0]!;
        assert.deepEqual([row.min, row.max, row.last, row.count], [
          exact.min,
          exact.max,
          exact.last,
          exact.count,
        ]);
      });
    }
    assert.throws(() => bench.store.seriesTail("R", "none", 1, 1), { code: "not_found" });
  }));

Deno.test("events of some kinds are found among points of metrics, within a range, also after a restart", () =>
  withStore((bench) => {
    const events = Array.from(
      { length: 3000 },
      (_, i) => ({
        kind: i % 1000 === 7 ? "artifact" : "metrics",
        dataJson: `{"a":${i}}`,
        tsNs: "1",
      }),
    );
    bench.store.ingest("R", 1, batch(0, 10, { events }));
    for (const again of [false, true]) {
      if (again) bench.reopen();
      const found = (from: number, to: number) =>
        bench.store.eventSeqs("R", ["artifact", "run_failed"], from, to);
      assert.deepEqual([found(0, 3000), found(8, 2007), found(8, 2008)], [[8, 1008, 2008], [1008], [
        1008,
        2008,
      ]]);
      assert.deepEqual(bench.store.eventSeqs("none", ["artifact"], 0, 10), []);
    }
  }));

Deno.test("series: points of a run that never tells a step are at their index in the attempt", () =>
  withStore((bench) => {
    let at = 0;
    const put = (attempt: number, data: Record<string, number>) =>
      bench.store.ingest(
        "R",
        attempt,
        batch(at, ++at, {
          events: [{ kind: "metrics", tsNs: "", dataJson: JSON.stringify(data) }],
        }),
      );
    const stepsOf = (name: string) =>
      bench.store.series("R", name, 0, 0, 100).map(({ step }) => step);
    for (const loss of [3, 2]) put(1, { loss });
    bench.reopen();
    put(1, { loss: 1, other: 5 });
    assert.deepEqual([stepsOf("loss"), stepsOf("other"), bench.store.summary("R").toldStep], [
      [0, 1, 2],
      [0],
      0,
    ]);
    at = 0;
    bench.store.beginAttempt("R", 2, null);
    put(2, { loss: 9 });
    put(2, { loss: 8 });
    bench.reopen();
    put(2, { loss: 7 });
    assert.deepEqual(stepsOf("loss"), [0, 1, 2, 0, 1, 2]);
    // A step that is told counts.
    put(2, { loss: 6, global_step: 40 });
    assert.equal(stepsOf("loss").at(-1), 40);
    assert.equal(bench.store.summary("R").reportedReward, null);
    put(2, { return: 12 });
    assert.deepEqual(bench.store.summary("R").reportedReward, { name: "return", value: 12 });
  }));
