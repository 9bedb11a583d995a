/** What is missing of a run's telemetry comes back from its logs, and nothing else changes. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { Layout } from "../../../src/base/layout.ts";
import { examine, reindex, repair } from "../../../src/state/doctor/doctor.ts";
import type { Finding } from "../../../src/state/doctor/finding.ts";
import { knownRuns } from "../../../src/state/doctor/registry_state.ts";
import { leftInFiles } from "../../../src/state/doctor/observed_files.ts";
import { runFiles } from "../../../src/state/doctor/run_logs.ts";
import { Registry } from "../../../src/registry/registry.ts";
import { TelemetryStore } from "../../../src/telemetry/store.ts";
import { newRun, runId } from "../../registry/fixture.ts";
import { batch, steps } from "../../telemetry/harness.ts";

const STEPS = 12_000;
const ID = runId(1);

/** A state directory with one ended run, whose log is all that is there of it. */
function withRun(work: (layout: Layout, journal: string) => void): void {
  const layout = new Layout(Deno.makeTempDirSync({ prefix: "mosaic-refill-" }));
  try {
    for (const directory of layout.directories()) {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    }
    const registry = Registry.open(layout.registryDb);
    registry.insert(newRun(1));
    registry.apply(ID, { type: "spawned" });
    registry.apply(ID, { type: "cancelled", reason: "user_cancel" });
    const { workerId } = registry.require(ID);
    registry.close();
    const logs = `${layout.runDir("runs", ID)}/logs`;
    Deno.mkdirSync(logs, { recursive: true });
    work(layout, `${logs}/${workerId === "" ? "worker" : workerId}.stdout.log`);
  } finally {
    Deno.removeSync(layout.stateDir, { recursive: true });
  }
}

/**
 * Lines of steps from one number to another; every third names no time, and some say something
 * else.
 */
function lines(from: number, to: number, untimed = 3): string {
  let text = "";
  for (let n = from; n <= to; n++) {
    const time = n % untimed === 0 ? "" : `,"ts_unix_ns":${1_700_000_000_000_000_000n + BigInt(n)}`;
    text += `{"type":"step","episode":${Math.floor(n / 100)},"step_index":${n},"reward":${
      n / 7
    }${time}}\n`;
    if (n % 100 === 0) {
      text += `{"type":"episode","episode":${n / 100},"total_reward":${n},"steps":100}\n`;
    }
    if (n % 50 === 0) text += `{"type":"metrics","data":{"loss":${1 / n}}}\nplain text ${n}\n`;
  }
  return text;
}

const TABLES = [
  ...["run_steps", "episodes", "worker_events", "metrics", "series", "series_buckets"],
  ...["series_starts", "parameters", "source_cursors"],
];

/** Everything of the run's telemetry but its key. */
function rows(layout: Layout): Record<string, unknown[]> {
  const db = new DatabaseSync(layout.telemetryDb, { readOnly: true });
  try {
    const all = (table: string) => {
      const statement = db.prepare(
        table === "run_steps"
          ? `SELECT * FROM run_steps WHERE run_id = '${ID}' ORDER BY seq`
          : `SELECT t.* FROM ${table} t JOIN telemetry_runs USING (run_key) WHERE run_id = '${ID}'`,
      );
      statement.setReadBigInts(true);
      return statement.all().map(({ run_key: _, run_id: __, first_seq: ___, crc: ____, ...row }) =>
        Object.values(row as object).join("|")
      );
    };
    return Object.fromEntries(TABLES.map((table) => [table.replace("run_", ""), all(table)]));
  } finally {
    db.close();
  }
}

function stepCount(layout: Layout): number {
  using db = new DatabaseSync(layout.telemetryDb, { readOnly: true });
  return Number(db.prepare("SELECT count(*) AS n FROM run_steps WHERE run_id = ?").get(ID)!.n);
}

function kinds(layout: Layout): string[] {
  return examine(layout.stateDir).filter(({ severity }) => severity !== "note").map(({ check }) =>
    check
  );
}

/** Makes the ended run a live one. @returns what ends it again */
function makeLive(layout: Layout): () => void {
  const registry = () => new DatabaseSync(layout.registryDb);
  let db = registry();
  const { state, outcome, finished_at } = db.prepare("SELECT state, outcome, finished_at FROM runs")
    .get()!;
  db.exec("UPDATE runs SET state = 'EXECUTING', outcome = NULL, finished_at = NULL");
  db.close();
  return () => {
    db = registry();
    db.prepare("UPDATE runs SET state = ?, outcome = ?, finished_at = ?").run(
      state!,
      outcome!,
      finished_at!,
    );
    db.close();
  };
}

/** Overwrites database pages that hold steps, `apart` of such pages from each other. */
function damagePages(path: string): void {
  const db = new DatabaseSync(path);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  const size = Number(db.prepare("PRAGMA page_size").get()!.page_size);
  db.close();
  const bytes = Deno.readFileSync(path);
  const marks: number[] = [];
  // Each block has several.
  for (let at = size; at < bytes.length; at += size) {
    if (new TextDecoder("latin1").decode(bytes.subarray(at, at + size)).split("],[").length > 100) {
      marks.push(at);
    }
  }
  assert.ok(marks.length > 20, `${marks.length} pages`);
  for (const share of [0.3, 0.7]) {
    const at = marks[Math.floor(marks.length * share)]!;
    bytes.fill(0x5a, at, at + size);
  }
  Deno.writeFileSync(path, bytes);
}

Deno.test("refill: telemetry.sqlite deleted: an ended run is read again from its log, once", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, STEPS));
    assert.deepEqual(kinds(layout), ["telemetry"]);
    assert.match(
      repair(layout.stateDir).repaired[0]!.outcome,
      /12000 steps, 120 episodes, 240 events added/,
    );
    assert.deepEqual(kinds(layout), []);
    const before = rows(layout);
    assert.equal(before["steps"]!.length, STEPS);
    assert.deepEqual(repair(layout.stateDir), { repaired: [], remaining: [] });
    assert.deepEqual(reindex(layout.stateDir, "run-1"), {
      runId: ID,
      outcome: "nothing is missing",
    });
    assert.deepEqual(rows(layout), before);
  });
});

Deno.test("refill: all that was stored was in the database's log, and that was lost with the power", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, 1000));
    Deno.writeTextFileSync(layout.telemetryDb, "", { mode: 0o600 });
    const db = new DatabaseSync(layout.telemetryDb);
    db.exec("PRAGMA journal_mode = WAL");
    db.close();
    assert.deepEqual(kinds(layout), ["telemetry"]);
    assert.match(
      repair(layout.stateDir).repaired[0]!.outcome,
      /1000 steps, 10 episodes, 20 events added/,
    );
    assert.deepEqual(kinds(layout), []);
  });
});

Deno.test("refill: an older copy of the database: the rest follows, with the numbers that it had", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, 5000));
    repair(layout.stateDir);
    const first = rows(layout);
    Deno.writeTextFileSync(journal, lines(5001, STEPS), { append: true });
    assert.deepEqual(kinds(layout), ["telemetry"]);
    assert.match(
      reindex(layout.stateDir, ID.slice(0, 24)).outcome,
      /7000 steps, 70 episodes, 140 events added/,
    );
    const all = rows(layout);
    assert.deepEqual(all["steps"]!.slice(0, 5000), first["steps"]);
    assert.deepEqual(
      all["steps"]!.map((row) => Number((row as string).split("|")[3])),
      [...Array(STEPS).keys()].map((i) => i + 1),
    );
  });
});

Deno.test("refill: two bad pages take only their own rows, doctor says which, and the log fills them", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, STEPS));
    repair(layout.stateDir);
    const whole = rows(layout);
    damagePages(layout.telemetryDb);
    assert.deepEqual(kinds(layout), ["database"]);
    const [salvaged, refilled, ...more] = repair(layout.stateDir).repaired;
    assert.match(salvaged!.outcome, /\bstep_blocks \d+ \(not all\)/);
    const kept = STEPS - Number(/lacks (\d+) steps/.exec(refilled!.finding.message)?.[1]);
    assert.ok(kept > STEPS * 0.3 && kept < STEPS, refilled!.finding.message);
    assert.equal(refilled!.finding.check, "telemetry");
    assert.deepEqual([refilled!.done, more], [true, []], refilled!.outcome);
    assert.deepEqual(kinds(layout), []);
    const now = rows(layout);
    // The time of a record that named none is lost with it; it is that of the record before it
    // then.
    const timeless = (row: unknown) => (row as string).replace(/\|[^|]*Z\|\d{19}\|/, "||");
    assert.deepEqual(now["steps"]!.map(timeless), whole["steps"]!.map(timeless));
    for (const table of ["episodes", "worker_events"]) {
      assert.deepEqual(now[table], whole[table], table);
    }
    assert.equal(now["series_buckets"]!.length, whole["series_buckets"]!.length);
    assert.ok(now["steps"]!.filter((row, i) => row === whole["steps"]![i]).length >= kept);
  });
});

Deno.test("refill: what a live run lacks in between is filled, though its log is longer than what is stored", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, STEPS));
    repair(layout.stateDir);
    makeLive(layout);
    Deno.writeTextFileSync(journal, lines(STEPS + 1, STEPS + 1000), { append: true });
    damagePages(layout.telemetryDb);
    const [salvaged, refilled, ...more] = repair(layout.stateDir).repaired;
    assert.match(salvaged!.outcome, /\bstep_blocks \d+ \(not all\)/);
    assert.deepEqual([refilled!.done, more], [true, []], refilled!.outcome);
    assert.deepEqual(kinds(layout), []);
    assert.equal(rows(layout)["episodes"]!.length, (STEPS + 1000) / 100);
  });
});

Deno.test("refill: of a live run whose worker writes on during the repair nothing is passed over", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, STEPS));
    repair(layout.stateDir);
    const end = makeLive(layout);
    damagePages(layout.telemetryDb);
    const more = `${layout.stateDir}/more`;
    Deno.mkdirSync(more);
    const parts = 400;
    for (let i = 0; i < parts; i++) {
      Deno.writeTextFileSync(
        `${more}/${1000 + i}`,
        lines(STEPS + 1 + i * 100, STEPS + (i + 1) * 100),
      );
    }
    // A process of its own: the repair leaves this thread no time.
    const script = 'for part in "$1"/*; do cat "$part" >> "$2"; sleep 0.01; done';
    const writer = new Deno.Command("sh", { args: ["-c", script, "sh", more, journal] }).spawn();
    try {
      const [salvaged, refilled] = repair(layout.stateDir).repaired;
      assert.match(salvaged!.outcome, /\bstep_blocks \d+ \(not all\)/);
      assert.equal(refilled!.done, true, refilled!.outcome);
    } finally {
      writer.kill("SIGKILL");
    }
    assert.ok(
      Deno.statSync(journal).size > lines(1, STEPS).length,
      "nothing was written during the repair",
    );
    Deno.removeSync(more, { recursive: true });
    end();
    repair(layout.stateDir);
    const { steps, episodes, worker_events } = rows(layout);
    const printed = Deno.readTextFileSync(journal).split("\n");
    assert.equal(steps!.length, printed.filter((line) => line.startsWith('{"type":"step"')).length);
    assert.equal(
      episodes!.length,
      printed.filter((line) => line.startsWith('{"type":"episode"')).length,
    );
    assert.equal(
      worker_events!.length,
      printed.filter((line) => line.startsWith('{"type":"metrics"')).length,
    );
  });
});

Deno.test("refill: whichever page is damaged, free ones too: all comes back, and more can be stored", () => {
  withRun((layout, journal) => {
    const stored = lines(1, 1500, Infinity);
    /** When it was last written is the time of records that name none. */
    const write = () => {
      Deno.writeTextFileSync(journal, stored);
      Deno.utimeSync(journal, 1_700_000_000, 1_700_000_000);
    };
    write();
    repair(layout.stateDir);
    // All is stored a second time, and the first pages are free.
    const db = new DatabaseSync(layout.telemetryDb);
    db.exec("DELETE FROM journal_positions");
    db.close();
    repair(layout.stateDir);
    const before = rows(layout);
    const file = Deno.readFileSync(layout.telemetryDb);
    const header = new DataView(file.buffer);
    const [pageBytes, freePages] = [header.getUint16(16), header.getUint32(36)];
    assert.ok(freePages > 3, `${freePages} free pages`);
    const wrong: string[] = [];
    for (let at = 0; at < file.length; at += pageBytes) {
      const what = `page ${at / pageBytes + 1} of ${file.length / pageBytes}`;
      write();
      Deno.writeFileSync(layout.telemetryDb, file);
      using damaged = Deno.openSync(layout.telemetryDb, { write: true });
      damaged.seekSync(at, Deno.SeekMode.Start);
      damaged.writeSync(new Uint8Array(pageBytes).fill(0x5a));
      repair(layout.stateDir);
      const after = rows(layout);
      for (const table of Object.keys(before)) {
        if (JSON.stringify(after[table]) !== JSON.stringify(before[table])) {
          wrong.push(`${what}: ${table}`);
        }
      }
      Deno.writeTextFileSync(journal, lines(1501, 1700), { append: true });
      const { remaining } = repair(layout.stateDir);
      wrong.push(
        ...remaining.filter(({ severity }) => severity === "error").map(({ message }) =>
          `${what}: ${message}`
        ),
      );
      if (stepCount(layout) !== 1700) wrong.push(`${what}: nothing more can be stored`);
    }
    assert.deepEqual(wrong, []);
  });
});

Deno.test("refill: a position that damage took is known again, and no record is stored twice", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, 3000));
    repair(layout.stateDir);
    const before = rows(layout);
    const db = new DatabaseSync(layout.telemetryDb);
    db.exec("DELETE FROM journal_positions");
    db.close();
    assert.deepEqual(kinds(layout), ["telemetry"]);
    assert.match(
      examine(layout.stateDir)[0]!.message,
      /lacks the position up to which the log of attempt 1 is stored/,
    );
    assert.match(
      repair(layout.stateDir).repaired[0]!.outcome,
      /0 steps, 0 episodes, 0 events added/,
    );
    assert.deepEqual(kinds(layout), []);
    assert.deepEqual(rows(layout), before);
  });
});

Deno.test("refill: a position that has changed by itself: nothing is stored behind it until it is known again", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, 3000));
    repair(layout.stateDir);
    const before = rows(layout);
    const end = makeLive(layout);
    const db = new DatabaseSync(layout.telemetryDb);
    db.exec("UPDATE journal_positions SET position = position + 4096");
    db.close();
    const warnings: string[] = [];
    const checkpoints = {
      mode: "inline" as const,
      warn: (message: string) => warnings.push(message),
    };
    const store = TelemetryStore.open(layout.telemetryDb, { checkpoints });
    const damaged = { code: "unavailable", message: /up to which attempt 1 .* is damaged/ };
    assert.throws(() => store.journalPosition(ID, 1), damaged);
    const { size } = Deno.statSync(journal);
    assert.throws(
      () => store.ingest(ID, 1, batch(size + 4096, size + 4097, { steps: steps(0, 1) })),
      damaged,
    );
    store.close();
    assert.match(
      warnings.join(),
      /the stored position of the log of attempt 1 of run .* is damaged/,
    );
    assert.equal(repair(layout.stateDir).repaired[0]!.done, true);
    end();
    assert.deepEqual(rows(layout), before);
    assert.deepEqual(kinds(layout), []);
  });
});

Deno.test("refill: cursors of a file of two attempts, lost or changed: not read on while its attempt lives, all there afterwards", () => {
  withRun((layout, journal) => {
    const file = observing(layout);
    append(file, rowsOfFile(0, 150));
    append(journal, lines(1, 300));
    repair(layout.stateDir);
    const registry = Registry.open(layout.registryDb);
    registry.apply(ID, { type: "retry", reason: "by_hand" });
    registry.apply(ID, { type: "spawned" });
    registry.apply(ID, { type: "cancelled", reason: "user_cancel" });
    registry.close();
    const files = runFiles(layout, knownRuns(layout.registryDb)[0]!);
    Deno.writeTextFileSync(files.workerFile(2), '{"pid":1}');
    Deno.copyFileSync(files.proxyFile(1), files.proxyFile(2));
    append(files.stdout(2), lines(300, 400));
    append(file, rowsOfFile(150, 400));
    // As the second attempt's proxy does.
    const own = TelemetryStore.open(layout.telemetryDb, { checkpoints: { mode: "inline" } });
    const known = { run: knownRuns(layout.registryDb)[0]!, files, others: [] };
    for (const read of leftInFiles(known, 2, own.sourceCursors(ID, 2)!)) own.ingest(ID, 2, read);
    own.close();
    // The log of the second attempt is read; nothing of the file is the first one's any more.
    repair(layout.stateDir);
    assert.deepEqual(kinds(layout), []);
    const [before, whole] = [rows(layout), points(layout)];
    assert.equal(before["source_cursors"]!.length, 2, before["source_cursors"]!.join("; "));
    const accuracies = whole.filter((point) => point.startsWith("acc "));
    assert.deepEqual([accuracies.length, new Set(accuracies).size], [400, 400]);
    const damage = (change: string) => {
      const db = new DatabaseSync(layout.telemetryDb);
      assert.equal(db.prepare(change).run().changes, 1, change);
      db.close();
    };
    const state = "state = replace(state, '1', '3')";
    for (const attempt of [2, 1]) {
      damage(`UPDATE source_cursors SET ${state} WHERE attempt = ${attempt}
        AND run_key = (SELECT run_key FROM telemetry_runs WHERE deleting = 0)`);
      const store = TelemetryStore.open(layout.telemetryDb, { checkpoints: { mode: "inline" } });
      assert.equal(store.sourceCursors(ID, 2), undefined);
      store.close();
      const end = makeLive(layout);
      const [live] = repair(layout.stateDir).repaired;
      if (attempt === 2) assert.match(live!.outcome, /is known when the attempt has ended/);
      end();
      repair(layout.stateDir);
      assert.deepEqual(points(layout), whole, `${attempt}`);
      // Where the first attempt stopped matters no more: the second has read on.
      const cursors = before["source_cursors"]!.slice(attempt === 1 ? 1 : 0);
      assert.deepEqual(rows(layout), { ...before, source_cursors: cursors }, `${attempt}`);
      assert.deepEqual(kinds(layout), []);
    }
  });
});

Deno.test("refill: what a log does not have stays missing, is told, and nothing stored changes", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, STEPS));
    repair(layout.stateDir);
    const db = new DatabaseSync(layout.telemetryDb);
    const { n } = db.prepare("SELECT n FROM step_blocks WHERE first_seq = 1").get() as {
      n: number;
    };
    db.exec("DELETE FROM step_blocks WHERE first_seq = 1");
    db.close();
    const before = rows(layout);
    // Somebody has put another log in its place.
    Deno.writeTextFileSync(journal, lines(2, STEPS + 1));
    const { repaired, remaining } = repair(layout.stateDir);
    assert.equal(repaired[0]!.done, false);
    assert.match(repaired[0]!.outcome, /number \d+ of its steps is another record/);
    assert.match(remaining[0]!.message, new RegExp(`lacks ${n} steps`));
    assert.deepEqual(rows(layout), before);
    Deno.removeSync(journal);
    assert.match(
      repair(layout.stateDir).repaired[0]!.outcome,
      /the log of attempt 1 has 0 of \d+ bytes/,
    );
    assert.deepEqual(rows(layout), before);
  });
});

/** The run's attempt had a proxy that observed this directory. */
function observing(layout: Layout): string {
  const files = runFiles(layout, knownRuns(layout.registryDb)[0]!);
  const cwd = `${layout.stateDir}/work`;
  Deno.mkdirSync(`${cwd}/logs`, { recursive: true });
  Deno.mkdirSync(files.control, { recursive: true });
  Deno.writeTextFileSync(files.workerFile(1), '{"pid":1}');
  const start = { cwd, stateDir: `${layout.stateDir}/no`, observe: { roots: [cwd], globs: [] } };
  Deno.writeTextFileSync(files.proxyFile(1), JSON.stringify(start));
  return `${cwd}/logs/metrics.jsonl`;
}

function append(path: string, text: string): void {
  Deno.writeTextFileSync(path, text, { append: true });
}

const rowsOfFile = (from: number, to: number) =>
  Array.from(
    { length: to - from },
    (_, i) => `{"step":${from + i},"loss":${1 / (from + i + 1)},"acc":${from + i}}\n`,
  )
    .join("");

function points(layout: Layout): string[] {
  const db = new DatabaseSync(layout.telemetryDb, { readOnly: true });
  const found = db.prepare(
    `SELECT name, step, value FROM run_metrics WHERE run_id = '${ID}' ORDER BY 1, 2, 3`,
  ).all();
  db.close();
  // A record without a step has that of its batch, which may be another.
  return found.map(({ name, step, value }) =>
    `${name} ${name === "data.loss" ? "" : step} ${value}`
  ).sort();
}

Deno.test("refill: what programs wrote into files comes back with them: all of it, or what followed an older copy", () => {
  withRun((layout, journal) => {
    const file = observing(layout);
    append(file, rowsOfFile(0, 300));
    // Nothing was printed, so nothing but the file says that something is missing.
    assert.deepEqual(kinds(layout), ["telemetry"]);
    repair(layout.stateDir);
    assert.equal(points(layout).length, 600);
    append(file, rowsOfFile(300, 400));
    append(journal, lines(1, 500));
    assert.deepEqual(kinds(layout), ["telemetry"]);
    assert.match(
      reindex(layout.stateDir, "run-1").outcome,
      /500 steps, 5 episodes, 110 events added/,
    );
    assert.deepEqual(kinds(layout), []);
    assert.deepEqual(reindex(layout.stateDir, "run-1"), {
      runId: ID,
      outcome: "nothing is missing",
    });
    assert.equal(new Set(points(layout)).size, 810);
    // Who has written to it since nobody knows.
    append(file, rowsOfFile(400, 500));
    Deno.utimeSync(file, new Date(), new Date(Date.now() + 60_000));
    assert.deepEqual(kinds(layout), []);
  });
});

Deno.test("refill: a file of which nothing was read, such as a standard error without numbers, has nothing to read again", () => {
  withRun((layout, journal) => {
    const file = observing(layout);
    append(file, rowsOfFile(0, 20));
    append(journal, lines(1, 100));
    repair(layout.stateDir);
    const known = {
      run: knownRuns(layout.registryDb)[0]!,
      files: runFiles(layout, knownRuns(layout.registryDb)[0]!),
      others: [],
    };
    append(known.files.stderr(1), "a word\n");
    const store = TelemetryStore.open(layout.telemetryDb, { checkpoints: { mode: "inline" } });
    const cursors = store.sourceCursors(ID, 1)!.filter(({ name }) => name === file);
    store.close();
    assert.equal(cursors.length, 1);
    const read = [...leftInFiles(known, 1, cursors, "again")];
    assert.deepEqual([...new Set(read.map(({ source }) => source?.name))], [file]);
  });
});

Deno.test("refill: rows that damage took in between are filled from the log and the files; what came by a call is told", () => {
  withRun((layout, journal) => {
    const file = observing(layout);
    for (let part = 0; part < 4; part++) {
      append(journal, lines(part * 500 + 1, part * 500 + 500));
      append(file, rowsOfFile(part * 100, part * 100 + 100));
      repair(layout.stateDir);
      const store = TelemetryStore.open(layout.telemetryDb, { checkpoints: { mode: "inline" } });
      const called = {
        kind: "metrics",
        dataJson: `{"global_step":${part},"called":${part}}`,
        tsNs: "",
      };
      store.append(ID, 1, [], [], [called]);
      store.close();
    }
    const [before, whole] = [rows(layout), points(layout)];
    const events = before["worker_events"]!.length;
    const db = new DatabaseSync(layout.telemetryDb);
    const [call] = db.prepare("SELECT seq FROM worker_events WHERE data LIKE '%called\":2%'").all();
    // A call's record and what lies around it, others of the file and of the log, and points of
    // both.
    db.exec(
      `DELETE FROM worker_events WHERE seq BETWEEN ${Number(call!.seq) - 60} AND ${
        Number(call!.seq) + 8
      }
      OR seq BETWEEN 20 AND 30; DELETE FROM metrics WHERE seq BETWEEN 100 AND 400; DELETE FROM episodes WHERE seq = 7`,
    );
    db.close();
    const { outcome } = reindex(layout.stateDir, "run-1");
    assert.match(
      outcome,
      /filled in between: 1 episodes, 80 events, .*; of these 1 events are in no existing log or file/,
    );
    assert.deepEqual(kinds(layout), []);
    assert.deepEqual(points(layout), whole.filter((point) => !point.startsWith("called 2")));
    const after = rows(layout);
    const timeless = (row: unknown) => (row as string).replace(/\|\d{19}\|/, "|");
    const said = (all: unknown[]) =>
      all.map((row) => timeless(row).split("|").slice(1).join("|")).sort();
    assert.deepEqual(after["steps"], before["steps"]);
    assert.deepEqual(after["episodes"]!.map(timeless), before["episodes"]!.map(timeless));
    assert.equal(after["worker_events"]!.length, events);
    assert.equal(
      after["worker_events"]!.filter((row, i) => row === before["worker_events"]![i]).length >=
        events - 80,
      true,
    );
    const lost = (row: string) => row.includes("record_lost") || row.includes('"called":2');
    assert.deepEqual(
      said(after["worker_events"]!).filter((row) => !lost(row)),
      said(before["worker_events"]!).filter((row) => !lost(row)),
    );
  });
});

Deno.test("refill: whose records are is known again when a damaged page has taken it", () => {
  withRun((layout, journal) => {
    const lastly = lines(1, 3000).replaceAll('"type":"step"', '"type":"step","agent_id":"a1"')
      .replaceAll('"step_index":7', '"agent_id":"a2","step_index":7');
    Deno.writeTextFileSync(journal, lastly);
    repair(layout.stateDir);
    const before = rows(layout);
    const db = new DatabaseSync(layout.telemetryDb);
    assert.ok(
      Number(db.prepare("SELECT count(*) AS n FROM step_blocks").get()!.n) > 0,
      "no step is in a block",
    );
    assert.ok(Number(db.prepare("DELETE FROM sources").run().changes) > 0);
    db.close();
    assert.match(examine(layout.stateDir)[0]!.message, /lacks .* sources/);
    assert.equal(repair(layout.stateDir).repaired[0]!.done, true);
    assert.deepEqual(kinds(layout), []);
    assert.deepEqual(rows(layout), before);
  });
});

Deno.test("refill: counters that have changed by themselves, up or down, are counted again; no row goes, none is made up", () => {
  withRun((layout, journal) => {
    Deno.writeTextFileSync(journal, lines(1, 250));
    repair(layout.stateDir);
    const own = "run_key = (SELECT run_key FROM telemetry_runs WHERE deleting = 0)";
    const counters = () => {
      const db = new DatabaseSync(layout.telemetryDb);
      const { crc: _, wide: __, ...row } = db.prepare(`SELECT * FROM telemetry_runs WHERE ${own}`)
        .get()!;
      db.close();
      return row;
    };
    const before = { rows: rows(layout), counters: counters() };
    const flips = [
      ...[
        "steps = steps - 64",
        "steps = steps + 65536",
        "episodes = episodes - 1",
        "events = events + 1024",
      ],
      ...["metrics = metrics - 2", "attempt = attempt + 4", "violations = '{'"],
    ];
    for (const flip of flips) {
      const db = new DatabaseSync(layout.telemetryDb);
      assert.equal(
        db.prepare(`UPDATE telemetry_runs SET ${flip} WHERE ${own}`).run().changes,
        1,
        flip,
      );
      db.close();
      const [finding, ...others] = examine(layout.stateDir);
      assert.match(finding!.message, /the counters of the telemetry of run .* are damaged/, flip);
      assert.deepEqual(others, []);
      const [repaired] = repair(layout.stateDir).repaired;
      assert.match(repaired!.outcome, /counted the run's rows again/, flip);
      assert.deepEqual(kinds(layout), [], flip);
      assert.deepEqual({ rows: rows(layout), counters: counters() }, before, flip);
    }
  });
});

/**
 * Changes a value of the run as damage does: it is found, named and mended. @returns the other
 * findings
 */
function assertMended(layout: Layout, table: string, named: string, change: string): Finding[] {
  // What a repair has replaced is deleted after the next start.
  const own = "(SELECT run_key FROM telemetry_runs WHERE deleting = 0)";
  const db = new DatabaseSync(layout.telemetryDb);
  assert.equal(
    db.prepare(`UPDATE ${table} SET ${change} AND run_key = ${own}`).run().changes,
    1,
    change,
  );
  db.close();
  const [finding, ...others] = examine(layout.stateDir);
  assert.match(finding?.message ?? "", new RegExp(`lacks .*${named}`), change);
  const [repaired] = repair(layout.stateDir).repaired;
  assert.equal(repaired!.done, true, `${change}: ${repaired!.outcome}`);
  assert.deepEqual(kinds(layout), [], change);
  return others;
}

Deno.test("refill: a value that has changed by itself is damage in every table, and the log has what was stored", () => {
  withRun((layout, journal) => {
    const agent = lines(1, 250).replaceAll(
      '"type":"step"',
      '"type":"step","agent_id":"a1","ts":1700000000',
    );
    Deno.writeTextFileSync(journal, agent);
    repair(layout.stateDir);
    const before = rows(layout);
    const flips = {
      step_blocks: [
        "steps",
        "crc = crc + 1 WHERE first_seq = (SELECT max(first_seq) FROM step_blocks)",
      ],
      episodes: ["episodes", "total_reward = total_reward * 2 WHERE seq = 2"],
      worker_events: ["events", "data = replace(data, 'loss', 'loqs') WHERE seq = 3"],
      metrics: ["metrics", "value = -value WHERE seq = 4"],
      series_buckets: ["series", "max = max + 1 WHERE series = 1 AND level = 1 AND bucket = 1"],
      sources: ["sources", "agent_id = 'b1' WHERE source = 1"],
      journal_positions: ["position", "position = position + 64 WHERE attempt = 1"],
    };
    for (const [table, [named, change]] of Object.entries(flips)) {
      assert.deepEqual(assertMended(layout, table, named!, change!), [], table);
      assert.deepEqual(rows(layout), before, table);
    }
  });
});

Deno.test("refill: names and summaries of series, their attempts, parameters and cursors of files that have changed by themselves", () => {
  withRun((layout, journal) => {
    const registry = Registry.open(layout.registryDb);
    registry.apply(ID, { type: "retry", reason: "by_hand" });
    registry.apply(ID, { type: "spawned" });
    registry.apply(ID, { type: "cancelled", reason: "user_cancel" });
    registry.close();
    const file = observing(layout);
    append(file, rowsOfFile(0, 300));
    append(
      journal,
      `{"type":"parameters","payload":{"source":"init","values":{"lr":0.1,"env":"CartPole"}}}\n${
        lines(1, 500)
      }`,
    );
    const again = runFiles(layout, knownRuns(layout.registryDb)[0]!).stdout(2);
    append(again, lines(300, 700));
    repair(layout.stateDir);
    assert.deepEqual(kinds(layout), []);
    const before = rows(layout);
    for (const table of TABLES) assert.ok(before[table.replace("run_", "")]!.length > 0, table);
    const flips: [table: string, named: string, change: string][] = [
      ["series", "series", "name = 'losr' WHERE series = 16"],
      ["series", "series", "last = -last WHERE series = 1"],
      ["series", "series", "points = points + 32 WHERE series = 1"],
      ["series_starts", "series", "position = position + 64 WHERE series = 16"],
      ["parameters", "parameters", "value = '0.2' WHERE name = 'lr'"],
      ["source_cursors", "cursors", "serial = serial + 1 WHERE source LIKE '%jsonl'"],
      ["source_cursors", "cursors", "state = replace(state, '1', '3') WHERE source LIKE '%jsonl'"],
    ];
    for (const [table, named, change] of flips) {
      const others = assertMended(layout, table, named, change);
      assert.deepEqual(others.filter(({ severity }) => severity !== "note"), [], change);
      assert.deepEqual(rows(layout), before, change);
    }
  });
});

Deno.test("refill: what is in no log stays: what the run used of its host, and where a retried attempt begins", () => {
  withRun((layout, journal) => {
    const withStore = <T>(work: (store: TelemetryStore) => T): T => {
      const store = TelemetryStore.open(layout.telemetryDb, { checkpoints: { mode: "inline" } });
      try {
        return work(store);
      } finally {
        store.close();
      }
    };
    const use = (store: TelemetryStore, attempt: number) => {
      for (let n = 1; n <= 50; n++) {
        store.sample(ID, attempt, [["host/cpu", n * attempt], ["host/memory", NaN]]);
      }
    };
    Deno.writeTextFileSync(journal, lines(1, 500));
    repair(layout.stateDir);
    const registry = Registry.open(layout.registryDb);
    registry.apply(ID, { type: "retry", reason: "by_hand" });
    registry.apply(ID, { type: "spawned" });
    registry.apply(ID, { type: "cancelled", reason: "user_cancel" });
    registry.close();
    withStore((store) => {
      use(store, 1);
      store.beginAttempt(ID, 2, null);
    });
    append(runFiles(layout, knownRuns(layout.registryDb)[0]!).stdout(2), lines(1, 700));
    repair(layout.stateDir);
    withStore((store) => use(store, 2));
    const curves = () =>
      withStore((store) =>
        ["reward", "episode_reward", "data.loss", "host/cpu", "host/memory"].map((name) => ({
          name,
          points: store.series(ID, name, 1, 1e9, 2000),
          overwritten: store.overwritten(ID, name),
        }))
      );
    const before = curves();
    for (const { name, points, overwritten } of before) {
      assert.ok(points.length > 10, name);
      assert.equal(overwritten.length > 0, name.includes("reward"), name);
    }
    const db = new DatabaseSync(layout.telemetryDb);
    db.exec("UPDATE worker_events SET data = replace(data, 'loss', 'loqs') WHERE seq = 3");
    db.close();
    const [repaired] = repair(layout.stateDir).repaired;
    assert.equal(repaired!.done, true, repaired!.outcome);
    assert.deepEqual(curves(), before);
  });
});
