/** A run goes to another host in one file, and is the same there. */
import { strict as assert } from "node:assert";
import { DatabaseSync } from "node:sqlite";
import { createHash } from "node:crypto";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { until } from "../../harness/wait.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { runVerb } from "../../cli/verb.ts";

const WORKER = `i=0; while [ $i -lt 3000 ]; do
  echo '{"type":"step","episode":'$((i / 100))',"step_index":'$i',"reward":0.'$i',"observation":['$i',0.5],"loss":1.'$i'}'
  i=$((i + 1)); done
echo '{"type":"episode","episode":0,"total_reward":3.5,"steps":100}'
echo '{"event":"checkpoint_saved","payload":{"step":3000}}'
echo words
echo trouble >&2
echo weights >"$MOSAIC_RUN_DIR/checkpoints/step_3000.pt"
[ "$MOSAIC_ATTEMPT" = 2 ]`;

function mosaic(daemon: TestDaemon, ...args: string[]) {
  return runVerb(daemon, args, "", { MOSAIC_STATE_DIR: daemon.stateDir });
}

async function printed(daemon: TestDaemon, ...args: string[]): Promise<string> {
  const { code, out, err } = await mosaic(daemon, ...args);
  assert.equal(code, 0, `${args.join(" ")}: ${err}`);
  return out;
}

/** All of the bytes by their hash, and the list of parts, which says what differs. */
function contentOf(file: string): [string, string] {
  using db = new DatabaseSync(file, { readOnly: true });
  return [
    String(db.prepare("SELECT entries FROM head").get()!["entries"]),
    createHash("sha256").update(Deno.readFileSync(file)).digest("hex"),
  ];
}

/** How rows are changed: by SQL, and in the bytes of the database. */
type Forgery = Record<string, string | { sql: string; bytes: (database: Uint8Array) => void }>;

/** The file with another list of entries, and changed rows; its checksums are right again. */
function forged(file: string, change: (entries: Entry[]) => void, rows: Forgery = {}): string {
  const made = `${file}.forged`;
  Deno.copyFileSync(file, made);
  using db = new DatabaseSync(made);
  const head = db.prepare("SELECT run_id, entries FROM head").get()!;
  const entries = JSON.parse(String(head["entries"])) as Entry[];
  for (const [name, forgery] of Object.entries(rows)) {
    const { sql, bytes: patch } = typeof forgery === "string"
      ? { sql: forgery, bytes: () => {} }
      : forgery;
    const n = entries.findIndex((entry) => entry.path === name);
    const chunks = db.prepare("SELECT data FROM chunks WHERE entry = ? ORDER BY n").all(n);
    const path = `${file}.rows`;
    Deno.writeFileSync(path, Uint8Array.of());
    for (const { data } of chunks) {
      Deno.writeFileSync(path, zstdDecompressSync(data as Uint8Array), { append: true });
    }
    using of = new DatabaseSync(path);
    of.exec(sql);
    of.close();
    const bytes = Deno.readFileSync(path);
    patch(bytes);
    db.prepare("DELETE FROM chunks WHERE entry = ?").run(n);
    for (let i = 0; i << 20 < bytes.length; i++) {
      const chunk = zstdCompressSync(bytes.subarray(i << 20, (i + 1) << 20)) as Uint8Array;
      db.prepare("INSERT INTO chunks VALUES (?, ?, ?)").run(n, i, chunk);
    }
    entries[n]!.bytes = bytes.length;
    entries[n]!.content = createHash("sha256").update(bytes).digest("hex");
    Deno.removeSync(path);
  }
  change(entries);
  const text = JSON.stringify(entries);
  const sum = createHash("sha256").update(`${head["run_id"]}${text}`).digest("hex");
  db.prepare("UPDATE head SET entries = ?, sha256 = ?").run(text, sum);
  return made;
}

interface Entry {
  path: string;
  kind: string;
  mode: number;
  mtime: number;
  bytes: number;
  content: string;
}

Deno.test("a run as a file: one that somebody has made up writes nothing elsewhere and breaks nothing", async () => {
  await using here = await TestDaemon.start();
  await using there = await TestDaemon.start();
  const place = Deno.makeTempDirSync({ prefix: "mosaic-run-file-" });
  try {
    const config = configOf({ command: ["/bin/sh", "-c", "echo words"] });
    const run = await submit(here, config);
    await untilState(here, run, "TERMINATED");
    const other = await submit(there, config);
    await untilState(there, other, "TERMINATED");
    const file = `${place}/run.mosaic`;
    await printed(here, "export", run, "--format", "mosaic", "--out", file);
    Deno.mkdirSync(`${place}/elsewhere`);
    const link = { kind: "link", mode: 0, mtime: 0, bytes: 0 };
    const lists: [string, (entries: Entry[]) => void][] = [
      ["a link below a link", (entries) => {
        entries.push({ ...link, path: "directory/a", content: `${place}/elsewhere` });
        entries.push({ ...link, path: "directory/a/b", content: "/etc/passwd" });
      }],
      ["another run's config", (entries) => {
        entries.find(({ path }) => path.startsWith("configs/config-"))!.path =
          `configs/config-${other}.json`;
      }],
      ["a directory that is a link", (entries) => {
        for (let i = entries.length - 1; i >= 0; i--) {
          if (entries[i]!.path.startsWith("directory")) entries.splice(i, 1);
        }
        entries.push({
          ...link,
          path: "directory",
          content: there.layout.runDir("custom_scripts", other),
        });
      }],
      ["a path upwards", (entries) => {
        entries.push({ ...link, path: "directory/../../x", content: "/etc/passwd" });
      }],
      ["processes", (entries) => {
        entries.push({ ...link, path: "directory/.mosaic/worker-1.json", content: "/etc/passwd" });
      }],
    ];
    const before = Deno.readTextFileSync(`${there.layout.configs}/config-${other}.json`);
    for (const [what, change] of lists) {
      const { code, err } = await mosaic(there, "import", forged(file, change));
      assert.equal(code, 2, what);
      assert.match(err, /is no part of a run/, what);
    }
    const strange = /has other tables than mosaic makes/;
    const endless =
      "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n > 0) SELECT max(n) AS run_id FROM a";
    const many = "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n < 4000)";
    const rows: [string, Forgery, RegExp][] = [
      ["a view that never ends", {
        "registry.db": `ALTER TABLE runs RENAME TO old; CREATE VIEW runs AS ${endless}`,
      }, strange],
      [
        "a view beside the tables",
        { "telemetry.sqlite": `CREATE VIEW more AS ${endless}` },
        strange,
      ],
      ["a trigger", {
        "registry.db": "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM runs; END",
      }, strange],
      ["a virtual table", { "telemetry.sqlite": "CREATE VIRTUAL TABLE v USING fts5(a)" }, strange],
      ["a computed column", {
        "registry.db": "ALTER TABLE runs ADD COLUMN z TEXT AS (hex(zeroblob(100000000)))",
      }, strange],
      ["a long default", {
        "registry.db": `ALTER TABLE events ADD COLUMN z TEXT DEFAULT '${"x".repeat(20_000)}'`,
      }, strange],
      [
        "an index by an expression",
        { "registry.db": "CREATE INDEX i ON runs (hex(zeroblob(10)))" },
        strange,
      ],
      ["a column that is SQL", {
        "telemetry.sqlite": 'ALTER TABLE telemetry_runs ADD COLUMN "a = 1 --" INTEGER',
      }, strange],
      ["a table whose pages are one page", {
        "registry.db": {
          sql: `INSERT INTO events (at, run_id, run_name, kind, attempt, data_json)
            ${many} SELECT 0, run_id, name, 'queued', 1, '{}' FROM runs, a`,
          bytes: (database) => sameChildren(database, "events"),
        },
      }, /is damaged: registry\.db .*(2nd reference to page|out of order)/],
      ["a table of tables that is its own child", {
        "registry.db": {
          sql: "PRAGMA user_version",
          bytes(database) {
            const view = new DataView(database.buffer);
            database[100] = 5;
            view.setUint16(103, 0);
            view.setUint32(108, 1);
          },
        },
      }, /table of tables has a page twice/],
      [
        "a text that is no JSON",
        { "registry.db": "UPDATE events SET data_json = '{'" },
        /events\.data_json has text that is no JSON/,
      ],
      ["nodes that are no JSON", {
        "registry.db":
          `INSERT INTO placements SELECT run_id, attempt, 'slurm', 0, 'n', NULL, NULL, 'ended', '', NULL, 'x', '[]', NULL, 0 FROM runs`,
      }, /placements\.nodes has text that is no JSON/],
      [
        "a row of many megabytes",
        { "registry.db": "UPDATE runs SET notes = hex(zeroblob(10000000))" },
        /runs\.notes has 20000000 bytes; the bound is 16777216/,
      ],
      ["logs elsewhere", { "registry.db": "UPDATE runs SET worker_id = '../../x'" }, /has no run/],
    ];
    for (const [what, forgery, why] of rows) {
      const { code, err } = await mosaic(there, "import", forged(file, () => {}, forgery));
      assert.notEqual(code, 0, what);
      assert.match(err, why, `${what}: ${err}`);
      assert.equal((await mosaic(there, "show", run)).code, 4, what);
      assert.equal(JSON.parse(await printed(there, "list", "-o", "json")).length, 1, what);
    }
    assert.equal(Deno.readTextFileSync(`${there.layout.configs}/config-${other}.json`), before);
    assert.deepEqual([...Deno.readDirSync(`${place}/elsewhere`)], []);
    assert.deepEqual([...Deno.readDirSync(there.layout.imports)], []);
    await printed(there, "import", forged(file, () => {}));
  } finally {
    Deno.removeSync(place, { recursive: true });
  }
});

/** Lets every child of the table's root page be its first one: as many rows as there are paths. */
function sameChildren(database: Uint8Array, table: string): void {
  const file = Deno.makeTempFileSync();
  Deno.writeFileSync(file, database);
  using db = new DatabaseSync(file);
  const { page_size: size } = db.prepare("PRAGMA page_size").get() as { page_size: number };
  const { rootpage } = db.prepare("SELECT rootpage FROM sqlite_schema WHERE name = ?").get(
    table,
  ) as {
    rootpage: number;
  };
  Deno.removeSync(file);
  const page = new DataView(database.buffer, (rootpage - 1) * size, size);
  assert.equal(page.getUint8(0), 5, "the root has no children");
  const first = page.getUint32(page.getUint16(12));
  for (let i = 0; i < page.getUint16(3); i++) page.setUint32(page.getUint16(12 + 2 * i), first);
  page.setUint32(8, first);
}

Deno.test("a run as a file: 140 kB that unpack to 1.5 GB are refused on the way, and views in it are not read", async () => {
  await using here = await TestDaemon.start();
  const place = Deno.makeTempDirSync({ prefix: "mosaic-run-file-" });
  try {
    const run = await submit(here, configOf({ command: ["/bin/sh", "-c", "echo words"] }));
    await untilState(here, run, "TERMINATED");
    const file = `${place}/run.mosaic`;
    await printed(here, "export", run, "--format", "mosaic", "--out", file);
    await printed(here, "delete", "--forever", run);
    const bomb = forged(file, () => {});
    const withLong = (fill: number, chunks: number) => {
      const made = forged(file, (entries) => {
        const hash = createHash("sha256");
        const chunk = new Uint8Array(1 << 20).fill(fill);
        for (let i = 0; i < chunks; i++) hash.update(chunk);
        entries.push({
          ...{
            path: "directory/long",
            kind: "file",
            mode: 0o600,
            mtime: 0,
            bytes: chunks << 20,
            content: hash.digest("hex"),
          },
        });
        using db = new DatabaseSync(`${file}.forged`);
        const insert = db.prepare("INSERT INTO chunks VALUES (?, ?, ?)");
        const data = zstdCompressSync(chunk) as Uint8Array;
        db.exec("BEGIN");
        for (let i = 0; i < chunks; i++) insert.run(entries.length - 1, i, data);
        db.exec("COMMIT");
      });
      assert.ok(Deno.statSync(made).size < 400_000);
      return made;
    };
    const { code, err } = await mosaic(here, "import", withLong(1, 1500));
    assert.notEqual(code, 0);
    assert.match(err, /unpacks to more than 268435456 bytes, at directory\/long/);
    assert.match(err, /--max-unpacked/);
    assert.deepEqual([...Deno.readDirSync(here.layout.imports)], []);
    assert.match(
      (await mosaic(here, "import", "--max-unpacked", "2M", withLong(1, 3))).err,
      /more than 2097152 bytes/,
    );
    // Zeros take no room: they become a hole, as in a log that was packed.
    await printed(here, "import", "--max-unpacked", "2M", withLong(0, 300));
    const long = Deno.statSync(`${(await getRun(here, run)).directory}/long`);
    assert.equal(long.size, 300 << 20);
    assert.ok(long.blocks! * 512 < 1 << 20, `${long.blocks} blocks`);
    await printed(here, "delete", "--forever", run);

    const endless =
      "WITH RECURSIVE a(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM a WHERE n > 0) SELECT n, n, n, n FROM a";
    for (const table of ["head", "chunks"]) {
      Deno.copyFileSync(file, bomb);
      using db = new DatabaseSync(bomb);
      db.exec(`ALTER TABLE ${table} RENAME TO old; CREATE VIEW ${table} AS ${endless}`);
      db.close();
      const refused = await mosaic(here, "import", bomb);
      assert.equal(refused.code, 2, refused.err);
      assert.match(refused.err, /is damaged: the file .*has other tables than mosaic makes/);
    }
    assert.equal((await mosaic(here, "show", run)).code, 4);
    await printed(here, "import", file);
  } finally {
    Deno.removeSync(place, { recursive: true });
  }
});

Deno.test("a run as a file: the same run on another host, twice is once, and damage is named", async () => {
  await using here = await TestDaemon.start();
  await using there = await TestDaemon.start();
  const place = Deno.makeTempDirSync({ prefix: "mosaic-run-file-" });
  try {
    const command = ["/bin/sh", "-c", WORKER];
    const metadata = {
      tags: ["moved"],
      parameters: { lr: 0.5 },
      restart: { max_attempts: 2, backoff_s: 0.1 },
    };
    const run = await submit(here, configOf({ name: "traveller", command, metadata }));
    await untilState(here, run, "TERMINATED");
    await printed(here, "note", run, "seen here");
    await until(
      async () =>
        (await here.client.unary(Mosaic.method.listArtifacts, { run })).artifacts.every((
          { sha256 },
        ) => sha256 !== ""),
      { what: "checksums of the artifacts" },
    );
    const file = `${place}/run.mosaic`;
    const live = await submit(here, configOf({ command: ["/bin/sleep", "600"] }));
    assert.match(
      (await mosaic(here, "export", live, "--format", "mosaic", "--out", file)).err,
      /only an ended run/,
    );
    await printed(here, "export", run, "--format", "mosaic", "--out", file);
    const bytes = Deno.readFileSync(file);
    assert.equal(Deno.statSync(file).mode! & 0o777, 0o600);

    // Wherever a bit flips, it is noticed or without meaning: nothing false is ever imported.
    let noticed = 0;
    for (let i = 0; i < 12; i++) {
      const damaged = bytes.slice();
      damaged[Math.floor((i + 0.5) / 12 * bytes.length)]! ^= 4;
      Deno.writeFileSync(`${place}/damaged.mosaic`, damaged);
      const { code, err } = await mosaic(there, "import", `${place}/damaged.mosaic`);
      if (code === 0) {
        await printed(there, "export", run, "--format", "mosaic", "--out", `${place}/again`);
        assert.deepEqual(contentOf(`${place}/again`), contentOf(file));
        await printed(there, "delete", "--forever", run);
        continue;
      }
      noticed++;
      assert.equal(code, 2, err);
      assert.match(
        err,
        /damaged\.mosaic is damaged: (the file|its list of files|registry\.db|telemetry\.sqlite|directory\/\S+|configs\/\S+) /,
      );
      assert.equal((await mosaic(there, "show", run)).code, 4);
    }
    assert.ok(noticed > 0);
    Deno.writeFileSync(`${place}/short.mosaic`, bytes.subarray(0, bytes.length / 2));
    assert.equal((await mosaic(there, "import", `${place}/short.mosaic`)).code, 2);

    for (const status of ["imported", "already imported"]) {
      const [imported] = JSON.parse(await printed(there, "import", file, "-o", "json"));
      assert.deepEqual([imported.run_id, imported.status, imported.left_out], [run, status, []]);
    }
    assert.deepEqual([...Deno.readDirSync(there.layout.imports)], []);
    for (
      const kind of [
        "steps",
        "episodes",
        "metrics --points",
        "events --worker",
        "events",
        "logs",
        "logs --stderr",
      ]
    ) {
      const [verb, ...more] = kind.split(" ");
      const form = verb === "logs" ? [] : ["-o", "jsonl"];
      const [was, is] = await Promise.all(
        [here, there].map((daemon) => printed(daemon, verb!, run, ...more, ...form)),
      );
      const unnumbered = (text: string) =>
        kind === "events"
          ? text.replace(/.*"kind":"deleted".*\n/, "").replace(/"seq":\d+,/g, "")
          : text;
      assert.equal(unnumbered(is!), unnumbered(was!), kind);
    }
    const [was, is] = await Promise.all([here, there].map(async (daemon) => {
      const { worker_pid: _, proxy_pid: __, directory: ___, ...rest } = JSON.parse(
        (await printed(daemon, "show", run, "-o", "json")).replaceAll(daemon.stateDir, "STATE")
          .replace(
            /"seq": \d+/g,
            '"seq": 0',
          ),
      );
      return rest;
    }));
    assert.deepEqual(is, was);
    assert.equal(
      Deno.readTextFileSync(`${(await getRun(there, run)).directory}/checkpoints/step_3000.pt`),
      "weights\n",
    );
    await printed(there, "export", run, "--format", "mosaic", "--out", `${place}/again`);
    assert.deepEqual(contentOf(`${place}/again`), contentOf(file));

    await printed(
      there,
      "export",
      run,
      "--format",
      "mosaic",
      "--no-artifacts",
      "--out",
      `${place}/light`,
    );
    await printed(there, "delete", "--forever", run);
    await printed(there, "import", `${place}/light`);
    await there.restart();
    assert.deepEqual(JSON.parse(await printed(there, "show", run, "-o", "json")).artifacts, []);
    assert.throws(() =>
      Deno.statSync(`${there.layout.runDir("custom_scripts", run)}/checkpoints/step_3000.pt`)
    );
    assert.equal(
      await printed(there, "steps", run, "-o", "jsonl"),
      await printed(here, "steps", run, "-o", "jsonl"),
    );
  } finally {
    Deno.removeSync(place, { recursive: true });
  }
});
