import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { SealedStepsSchema } from "../../src/gen/mosaic/v1/ingest_pb.ts";
import { sealedMessage } from "../../src/proxy/delivery/batches.ts";
import { sealedOf } from "../../src/rpc/ingest/ingest_messages.ts";
import type { IngestBatch } from "../../src/records/ingest_batch.ts";
import type { StepColumns } from "../../src/gen/records/record_types.ts";
import { checked, seal } from "../../src/records/sealed_steps.ts";
import { damagedSteps, StepBlocks } from "../../src/telemetry/blocks/step_blocks.ts";
import { query } from "../../src/telemetry/sql.ts";
import { TelemetryStore } from "../../src/telemetry/store.ts";
import { LONG_TESTS } from "../harness/long.ts";
import { batch, readAll, steps, withStore } from "../telemetry/harness.ts";

/** Rows only: what the log was before there were blocks, and the model for them. */
const ROWS = { blocks: "none" as const };
const SEEDS = LONG_TESTS ? 8 : 4;

/** Numbers from 0 (included) to n, the same for the same seed. */
function dice(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * n);
  };
}

/**
 * Columns as odd as storable ones can be: constant, sparse, absent, full precision, extreme, of any
 * text.
 */
function odd(roll: (n: number) => number, n: number): StepColumns {
  const one = <T>(values: readonly T[]) => values[roll(values.length)]!;
  const column = <T>(value: () => T): T[] | undefined => {
    const form = roll(5);
    if (form === 0) return undefined;
    const constant = value();
    return Array.from(
      { length: n },
      () => form === 1 ? constant : form === 2 && roll(9) ? constant : value(),
    );
  };
  const integer = () => one([0, 1, roll(1000), 2 ** 53 - 1, roll(2 ** 31) * 4096]);
  const real = () =>
    one([
      0,
      1,
      -1.5,
      Math.sin(roll(1e9)),
      1e-320,
      -1e308,
      5e21,
      "NaN",
      "Infinity",
      "-Infinity",
      0.1 + 0.2,
    ]);
  const number = () =>
    one([
      String(Math.sin(roll(1e9))),
      String(roll(99)),
      "-0",
      "1.0",
      "1e-05",
      "1e5",
      "0.1000",
      "12345678901234567890",
      "-7.25",
    ]);
  const shape = roll(4);
  const text = () => {
    if (shape > 0) return `[${Array.from({ length: shape }, number).join(one([",", ",", ", "]))}]`;
    return one([
      "",
      "é\n\u2028🐉",
      '{"a":[1,2]}',
      "\ufeffx",
      "\\",
      "x".repeat(roll(300)),
      "null",
      "[]",
      "[1",
    ]);
  };
  const info = () =>
    one([
      "",
      "",
      `{"lives":${roll(5)},"note":"x"}`,
      '{"a":{"b":1e400},"global_step":7,"loss":-0.5}',
    ]);
  const label = () => one(["", "a", "agent_1", "é"]);
  const base = one([
    1_700_000_000_000_000_000n,
    0n,
    9_223_372_036_854_775_807n - 10_000_000_000n,
    1_699_999_999_999_999_999n,
  ]);
  const unit = one([1n, 1000n, 1_000_000n, 1_000_000_000n]);
  const time = () =>
    String(roll(50) === 0 ? BigInt(roll(2 ** 31)) : base + BigInt(roll(10)) * unit);
  /** Episodes that follow each other, as most workers' do. */
  const counting = (): { episode: number[]; step: number[] } => {
    let [episode, step] = [roll(99), roll(9)];
    const length = 2 + roll(60);
    const rows = Array.from({ length: n }, () => {
      if (roll(length) === 0) [episode, step] = [episode + 1 + roll(2), roll(3)];
      return [episode, step++] as const;
    });
    const own = roll(3) === 0 ? rows.map(() => integer()) : rows.map(([, step]) => step);
    return { episode: rows.map(([episode]) => episode), step: own };
  };
  return {
    n,
    ...(roll(2) === 0 ? counting() : { episode: column(integer), step: column(integer) }),
    reward: column(real),
    ...{ terminated: column(() => roll(2)), truncated: column(() => roll(2)), tsNs: column(time) },
    ...{ actionJson: column(text), observationJson: column(text), infoJson: column(info) },
    ...{ renderHintJson: column(text), renderPayloadJson: column(text), frameRef: column(text) },
    ...{ payloadVersion: column(integer), episodeSeed: column(integer) },
    ...{
      agentId: roll(6) === 0 ? column(label) : label(),
      workerId: one([undefined, "w"]),
      backend: "b",
    },
    ...{ policyLabel: roll(6) === 0 ? column(label) : undefined },
  } as StepColumns;
}

Deno.test("blocks: any records in, any range out, equal to the byte to what rows give", async () => {
  let sealed = 0;
  let inSpans = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const roll = dice(seed);
    const now = () => 1_750_000_000_123;
    const options = {
      now,
      ringSize: 1,
      ringBytes: 1,
      blocks: { steps: 1 + roll(200), direct: 1 + roll(200) },
    };
    await withStore((model) =>
      withStore(async (bench) => {
        let position = 0;
        for (let b = 0; b < 12; b++) {
          const sent = odd(roll, roll(b % 2 === 0 ? 900 : 40));
          for (const [attempt, from, to] of [[1, position, ++position], [2, b, b + 1]] as const) {
            const its = delivered(structuredClone(sent));
            if ("block" in its) sealed++;
            const more = others(roll);
            model.store.ingest(
              "R",
              attempt,
              batch(from, to, { ...structuredClone(more), steps: structuredClone(sent) }),
            );
            bench.store.ingest("R", attempt, batch(from, to, { ...more, steps: its }));
          }
          if (roll(3) === 0) bench.reopen();
          if (roll(4) === 0) await bench.store.sealWaiting();
        }
        const rows = readAll(model.store, "R", "steps", 1000);
        assert.deepEqual(readAll(bench.store, "R", "steps", 1 + roll(500)), rows, `seed ${seed}`);
        for (let i = 0; i < 20; i++) {
          const since = roll(rows.length);
          const limit = 1 + roll(700);
          assert.deepEqual(
            bench.store.read("R", "steps", since, limit),
            model.store.read("R", "steps", since, limit),
          );
        }
        const series = (store: TelemetryStore) => [
          ...[1, 7, 300].map((buckets) => store.series("R", "reward", 1 + roll(1), 0, buckets)),
          store.listSeries("R"),
          readAll(store, "R", "metrics"),
          readAll(store, "R", "episodes"),
          readAll(store, "R", "events"),
          store.summary("R"),
        ];
        assert.deepEqual(series(bench.store), series(model.store));
        assert.deepEqual(people(bench.path), people(model.path), `seed ${seed}`);
        const texts = (path: string) =>
          query(path, "SELECT * FROM run_steps WHERE seq % 7 = 0 ORDER BY seq", (message) =>
            assert.fail(message))
            .map(({ first_seq: _, ...row }) =>
              row
            );
        assert.deepEqual(texts(bench.path), texts(model.path));
        const db = new DatabaseSync(bench.path, { readOnly: true });
        assert.deepEqual([...damagedSteps(db)], []);
        const spans = "SELECT count(*) AS n FROM step_blocks WHERE 'span' IN (episode, step)";
        inSpans += Number(db.prepare(spans).get()!.n);
        db.close();
        withoutOneBlock(bench, rows, roll);
        assert.deepEqual(readAll(bench.store, "R", "events"), readAll(model.store, "R", "events"));
      }, options), { ...ROWS, now, ringSize: 1, ringBytes: 1 });
  }
  assert.ok(sealed > 3 * SEEDS, `${sealed} blocks came sealed`);
  assert.ok(inSpans > 3 * SEEDS, `${inSpans} blocks have spans`);
});

/** Episodes and events that come with steps; what of them are points of series, too. */
function others(roll: (n: number) => number): Pick<IngestBatch, "episodes" | "events"> {
  const some = <T>(make: () => T) => Array.from({ length: Math.max(0, roll(6) - 2) }, make);
  return {
    episodes: some(() => ({
      ...{
        episode: roll(99),
        totalReward: roll(5) === 0 ? "NaN" : Math.sin(roll(1e9)),
        steps: roll(500),
      },
      ...{
        terminated: roll(2) === 0,
        truncated: roll(2) === 0,
        tsNs: String(1_700_000_000_000_000_000n + BigInt(roll(99))),
      },
      ...{
        agentId: roll(2) === 0 ? "a" : "",
        workerId: "",
        metadataJson: roll(2) === 0 ? "" : '{"success":true}',
      },
    })),
    events: some(() => ({
      kind: roll(2) === 0 ? "metrics" : "noted",
      tsNs: String(1_700_000_000_000_000_000n + BigInt(roll(99))),
      dataJson: `{"global_step":${roll(99)},"loss":${Math.sin(roll(1e9))},"text":"é"}`,
    })),
  };
}

/**
 * Damages any one block: every range is the model's without its steps, and the curve says which
 * points are missing.
 */
function withoutOneBlock(
  bench: { path: string; reopen(): TelemetryStore },
  rows: readonly { seq: number; reward: number | string }[],
  roll: (n: number) => number,
): void {
  const db = new DatabaseSync(bench.path);
  const blocks = db.prepare("SELECT first_seq, n FROM step_blocks ORDER BY 1").all() as {
    first_seq: number;
    n: number;
  }[];
  const { first_seq: first, n } = blocks[roll(blocks.length)]!;
  const last = first + n - 1;
  db.prepare("UPDATE step_blocks SET crc = crc + 1 WHERE first_seq = ?").run(first);
  db.close();
  const store = bench.reopen();
  const left = rows.filter(({ seq }) => seq < first || seq > last);
  for (let i = 0; i < 20; i++) {
    const since = roll(rows.length);
    const limit = 1 + roll(300);
    const its = store.read("R", "steps", since, limit);
    assert.deepEqual(its, left.filter(({ seq }) => seq > since).slice(0, its.length));
    assert.ok(its.length > 0 || since >= Math.min(first - 1, left.at(-1)?.seq ?? 0));
  }
  const from = Math.max(1, first - roll(40));
  const to = Math.min(rows.length, last + roll(40));
  const buckets = store.series("R", "reward", from, to, 10_000);
  const missing = buckets.filter(({ damaged }) => damaged);
  assert.deepEqual(missing.reduce((sum, { firstX, lastX }) => sum + lastX - firstX + 1, 0), n);
  assert.deepEqual([missing[0]?.firstX, missing.at(-1)?.lastX], [first, last]);
  let x = from;
  for (const { firstX, lastX } of buckets) {
    assert.equal(firstX, x);
    x = lastX + 1;
  }
  assert.equal(x, to + 1);
}

/** As a proxy delivers them: a block where it makes one, through the bytes of a message. */
function delivered(columns: StepColumns): IngestBatch["steps"] {
  const sealed = seal(columns);
  if (sealed === undefined) return columns;
  const bytes = toBinary(SealedStepsSchema, create(SealedStepsSchema, sealedMessage(sealed)));
  return checked(sealedOf(fromBinary(SealedStepsSchema, bytes)));
}

/** The hot columns of the view for people. */
function people(path: string): unknown[] {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    const select = db.prepare(
      `SELECT run_id, seq, attempt, episode_index, step_index, reward, terminated, truncated, timestamp, ts_ns, agent_id,
        worker_id, policy_label, backend, payload_version, episode_seed FROM run_steps ORDER BY seq`,
    );
    select.setReadBigInts(true);
    return select.all().map((row) => ({ ...row }));
  } finally {
    db.close();
  }
}

Deno.test("blocks: the rows of an older database become blocks in the background, and nothing else changes", () =>
  withStore(async (bench) => {
    for (let b = 0; b < 20; b++) {
      bench.store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 500, 500) }));
    }
    bench.store.ingest("few", 1, batch(0, 1, { steps: steps(0, 5) }));
    const before = readAll(bench.store, "R", "steps");
    const store = bench.reopen({});
    const sealing = store.sealWaiting();
    // Cut short, as by the end of a daemon; meanwhile the run goes on.
    store.ingest("R", 1, batch(20, 21, { steps: steps(10_000, 300) }));
    bench.reopen({});
    await sealing;
    await bench.store.sealWaiting();
    assert.deepEqual(readAll(bench.store, "R", "steps").slice(0, before.length), before);
    assert.equal(
      bench.store.ingest("R", 1, batch(20, 21, { steps: steps(10_000, 300) })).type,
      "duplicate",
    );
    bench.store.close();
    const db = new DatabaseSync(bench.path);
    const { n } = db.prepare("SELECT sum(n) AS n FROM step_blocks").get() as { n: number };
    const rows = db.prepare("SELECT count(*) AS n FROM steps GROUP BY run_key").all().map((row) =>
      row.n
    );
    // A few rows are not worth a block.
    assert.deepEqual(rows, [10_300 - n, 5]);
    assert.ok(n >= 10_240);
    db.close();
  }, ROWS));

Deno.test("blocks: rows that an earlier version left to wait become a block with the run's next batch", () =>
  withStore((bench) => {
    for (let b = 0; b < 6; b++) {
      bench.store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 50, 50) }));
    }
    const before = readAll(bench.store, "R", "steps");
    const store = bench.reopen({ ringSize: 1, ringBytes: 1 });
    store.ingest("R", 1, batch(6, 7, { steps: steps(300, 1) }));
    const after = readAll(store, "R", "steps");
    assert.deepEqual(after.slice(0, 300), before);
    assert.equal(after.length, 301);
    const db = new DatabaseSync(bench.path, { readOnly: true });
    assert.equal(db.prepare("SELECT count(*) AS n FROM steps").get()!.n, 0);
    assert.deepEqual([...damagedSteps(db)], []);
    db.close();
  }, ROWS));

Deno.test("blocks: small ones become one in the background, read before and after", () =>
  withStore(async (bench) => {
    for (let b = 0; b < 70; b++) {
      bench.store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 90, 90) }));
    }
    const sizes = () => {
      const db = new DatabaseSync(bench.path, { readOnly: true });
      const rows = db.prepare("SELECT n FROM step_blocks ORDER BY first_seq").all().map(({ n }) =>
        n
      );
      db.close();
      return rows;
    };
    assert.equal(sizes().length, 70);
    const before = readAll(bench.store, "R", "steps");
    const hot = people(bench.path);
    await bench.store.sealWaiting();
    assert.deepEqual(sizes(), [25 * 90, 45 * 90]);
    assert.deepEqual(readAll(bench.store, "R", "steps"), before);
    assert.deepEqual(people(bench.path), hot);
    assert.deepEqual(readAll(bench.reopen(), "R", "steps"), before);
  }, { ringSize: 1, ringBytes: 1, blocks: { steps: 1, direct: 1 } }));

Deno.test("blocks: what a commit of small batches writes does not grow with the number of runs", async () => {
  const written: number[] = [];
  for (const runs of [1, 20]) {
    await withStore(async ({ store, path }) => {
      const commit = async (b: number) => {
        const stored = Array.from(
          { length: runs },
          (_, r) => store.deliver(`run-${r}`, 1, batch(b, b + 1, { steps: steps(b * 4, 4) })),
        );
        store.commitWaiting();
        await Promise.all(stored);
      };
      for (let b = 1; b < 5; b++) await commit(b - 1);
      const before = Deno.statSync(`${path}-wal`).size;
      for (let b = 5; b < 15; b++) await commit(b - 1);
      written.push((Deno.statSync(`${path}-wal`).size - before) / 4096 / 10);
    }, { checkpoints: { mode: "inline", limitBytes: 1 << 30 } });
  }
  const [one, twenty] = written as [number, number];
  // With rows of each run's own it is a page more for each.
  assert.ok(twenty < one + 12, `${one} and ${twenty} pages a commit`);
});

Deno.test("blocks: small ones are joined by the batches that follow, but for one that is damaged", () =>
  withStore((bench) => {
    let from = 0;
    const more = (n: number) => {
      for (let i = 0; i < n; i++) {
        bench.store.ingest("R", 1, batch(from, from + 1, { steps: steps(from * 5, 5) }));
        from++;
      }
    };
    const sizes = (db: DatabaseSync) =>
      db.prepare("SELECT n FROM step_blocks ORDER BY 1").all().map(({ n }) => n);
    more(70);
    const db = new DatabaseSync(bench.path);
    assert.deepEqual(sizes(db), [...new Array(5).fill(5), 325]);
    db.exec("UPDATE step_blocks SET crc = crc + 1 WHERE first_seq = 331");
    more(200);
    assert.equal(bench.store.head("R", "steps"), 1350);
    const seqs: number[] = [];
    for (let part; (part = bench.store.read("R", "steps", seqs.at(-1) ?? 0, 1000)).length > 0;) {
      seqs.push(...part.map(({ seq }) => seq));
    }
    assert.deepEqual(
      seqs,
      Array.from({ length: 1350 }, (_, i) => i + 1).filter((seq) => seq < 331 || seq > 335),
    );
    assert.deepEqual([...damagedSteps(db)].map(({ first, last }) => [first, last]), [[331, 335]]);
    assert.ok(sizes(db).length < 80, "the others are not joined");
    db.close();
  }, { ringSize: 1, ringBytes: 1 }));

Deno.test("blocks: a page of waiting rows that is damaged keeps no other run's rows waiting", () =>
  withStore(async (bench) => {
    bench.store.ingest("bad", 1, batch(0, 1, { steps: steps(0, 3000) }));
    bench.store.ingest("good", 1, batch(0, 1, { steps: steps(0, 3000) }));
    bench.store.close();
    const bytes = Deno.readFileSync(bench.path);
    const size = 4096;
    // Leaves of steps (of index trees, with many cells); the first are of the first run.
    for (let at = size, left = 10; left > 0; at += size) {
      if (bytes[at] !== 10 || (bytes[at + 3]! << 8 | bytes[at + 4]!) < 50) continue;
      bytes.fill(0x5a, at, at + size);
      left--;
    }
    Deno.writeFileSync(bench.path, bytes);
    await bench.reopen({}).sealWaiting();
    const db = new DatabaseSync(bench.path, { readOnly: true });
    const sealed =
      "SELECT sum(n) AS n FROM step_blocks JOIN telemetry_runs USING (run_key) WHERE run_id = ?";
    assert.ok(Number(db.prepare(sealed).get("good")!.n) > 2000);
    assert.ok(Number(db.prepare(sealed).get("bad")!.n) < 3000);
    db.close();
  }, ROWS));

Deno.test("blocks: a flipped bit costs its block only, and is listed with its size", () =>
  withStore(async (bench) => {
    for (let b = 0; b < 3; b++) {
      bench.store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 300, 300) }));
    }
    const before = readAll(bench.store, "R", "steps");
    bench.store.close();
    const db = new DatabaseSync(bench.path);
    const body = db.prepare("SELECT body FROM step_blocks WHERE first_seq = 301").get()!
      .body as Uint8Array;
    for (
      const change of [
        "hot = replace(hot, '3', '4')",
        "unit_ns = 2",
        "episode = 7",
        "from_ns = from_ns + 1",
        "n = 299",
        ...Array.from({ length: 8 }, (_, i) => {
          const damaged = body.slice();
          const at = Math.floor(damaged.length * i / 8);
          damaged[at] = damaged[at]! ^ (1 << i);
          return `body = x'${damaged.toHex()}'`;
        }),
      ]
    ) {
      db.exec(
        "DROP TABLE IF EXISTS saved; CREATE TABLE saved AS SELECT * FROM step_blocks WHERE first_seq = 301",
      );
      db.exec(`UPDATE step_blocks SET ${change} WHERE first_seq = 301`);
      const warnings: string[] = [];
      const store = TelemetryStore.open(bench.path, {
        checkpoints: { warn: (message) => warnings.push(message) },
      });
      const rest = [...store.read("R", "steps", 0, 4000)];
      assert.deepEqual(rest, before.filter(({ seq }) => seq <= 300 || seq > 600), change);
      assert.throws(() => query(bench.path, "SELEC", () => {}), {
        code: "invalid_argument",
        hint: undefined,
      });
      for (const wrong of ["SELECT 1 FROM runs", "SELECT rewards FROM run_steps"]) {
        assert.throws(() => query(bench.path, wrong, () => {}), {
          code: "invalid_argument",
          hint:
            /^There are run_steps \(.*\breward\b.*\), run_episodes \(.*\), run_metrics \(.*mosaic list/,
        });
      }
      assert.match(warnings.join(), /steps 301 to (600|599) of run R cannot be read/);
      store.close();
      const told: string[] = [];
      const columns =
        "count(*) AS n, count(action) AS texts, min(seq + reward * 0) AS first, max(episode_index) AS last";
      const twice = `SELECT ${columns}, (SELECT count(*) FROM run_steps) AS again FROM run_steps`;
      const found = query(bench.path, twice, (message) => told.push(message));
      assert.deepEqual(
        found,
        query(bench.path, `${twice} WHERE seq NOT BETWEEN 301 AND 600`, () => {}),
        change,
      );
      assert.deepEqual([found[0]!.n, found[0]!.texts, found[0]!.again], [600, 600, 600], change);
      assert.match(
        told.join(),
        /^steps 301 to (600 \(300|599 \(299)\) of run R are damaged and left out \(/,
        change,
      );
      assert.equal(told.length, 1, change);
      assert.ok(
        [...damagedSteps(db)].some(({ runId, first }) => runId === "R" && first === 301),
        change,
      );
      db.exec(
        "DELETE FROM step_blocks WHERE first_seq = 301; INSERT INTO step_blocks SELECT * FROM saved",
      );
    }
    db.exec("DROP TABLE saved; DELETE FROM step_blocks WHERE first_seq = 301");
    assert.deepEqual([...damagedSteps(db)], [{ runId: "R", first: 301, last: 600 }]);
    db.close();
    await bench.reopen().delete("R");
    assert.equal(bench.store.head("R", "steps"), 0);
  }));

Deno.test("blocks: a query of SQL has all steps that were there at its beginning, though a daemon makes one of their blocks meanwhile", () =>
  withStore((bench) => {
    for (let b = 0; b < 4; b++) {
      bench.store.ingest("R", 1, batch(b, b + 1, { steps: steps(b * 300, 300) }));
    }
    bench.store.close();
    const daemon = new DatabaseSync(bench.path);
    daemon.exec("UPDATE step_blocks SET unit_ns = 2 WHERE first_seq = 1");
    const told: string[] = [];
    const [found] = query(
      bench.path,
      "SELECT count(*) AS n, count(action) AS texts FROM run_steps",
      (message) => {
        told.push(message);
        assert.ok(new StepBlocks(daemon, () => {}).merge(1, [301, 601, 901]));
      },
    );
    daemon.close();
    assert.deepEqual([found, told.length], [{ n: 900, texts: 900 }, 1], told.join());
    bench.reopen();
  }));
