/** `mosaic import` against a real daemon: what it stores is what the readers give. */
import { strict as assert } from "node:assert";
import { scalarFrame, versionFrame } from "../../src/cli/export/event_file.ts";
import { Lines } from "../../src/readers/import/record_lines.ts";
import { recordsOf, recordsOfSource, sourcesOf } from "../../src/readers/import/read.ts";
import { formatOfName } from "../../src/readers/formats.ts";
import { TextLines } from "../../src/readers/text/text_lines.ts";
import type { SourceRecord } from "../../src/readers/format/tracker_records.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { FIXTURES, readAll } from "../readers/formats/harness.ts";
import { runVerb } from "./verb.ts";

let daemon: TestDaemon;
Deno.test.beforeAll(async () => void (daemon = await TestDaemon.start()));
Deno.test.afterAll(() => daemon[Symbol.asyncDispose]());

const mosaic = (args: string[]) => runVerb(daemon, args);

async function json(args: string[]) {
  const { code, out, err } = await mosaic([...args, "-o", "json"]);
  assert.equal(code, 0, `mosaic ${args.join(" ")}: ${err}`);
  return JSON.parse(out);
}

async function directory(): Promise<AsyncDisposable & { path: string }> {
  const path = await Deno.makeTempDir({ prefix: "mosaic-import-" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

function bytes(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

async function wandbFixture(): Promise<Uint8Array> {
  const file = (await Deno.open(`${FIXTURES}offline.wandb.gz`)).readable.pipeThrough(
    new DecompressionStream("gzip"),
  );
  return new Uint8Array(await new Response(file).arrayBuffer());
}

/** Imports one run and waits until it has ended. */
async function imported(path: string, ...options: string[]) {
  const [run, ...others] = await json(["import", path, ...options]);
  assert.deepEqual([others.length, run.status], [0, "submitted"]);
  assert.equal(
    (await mosaic(["wait", run.run_id])).code,
    0,
    (await mosaic(["logs", run.run_id])).out,
  );
  return run;
}

type Point = [name: string, step: number, value: number];
const byName = (a: Point, b: Point) => a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : a[1] - b[1];

async function pointsOf(run: string): Promise<Point[]> {
  const points = await json(["metrics", run, "--points"]) as Record<string, string>[];
  return points.map((
    { name, step, value, value_text },
  ): Point => [name!, Number(step), Number(value ?? value_text)])
    .sort(byName);
}

/** The points of what a reader gave. */
function scalars(records: readonly SourceRecord[]): Point[] {
  return records.flatMap((r): Point[] => r.kind === "scalar" ? [[r.tag, r.step!, r.value]] : [])
    .sort(byName);
}

Deno.test("import: event files of one writer are one run, bit for bit, with their times; twice is once", async () => {
  await using root = await directory();
  const dir = `${root.path}/CartPole-v1__ppo__1__1700000000`;
  await Deno.mkdir(dir);
  const at = (tag: string, step: number, value: number) =>
    scalarFrame({ tag, value, step, wallTime: 1_700_000_000 + step / 8 });
  const odd = [Math.fround(0.1), 1e-30, -0, 3, NaN, Infinity];
  const [first, second] = [0, 1].map((part) =>
    bytes(
      versionFrame(1_700_000_000),
      ...odd.flatMap((value, i) => {
        const step = part * 100 + i;
        return [
          at("charts/episodic_return", step, value),
          at("losses/value", step, step / 3),
          at("seed", step, 1),
        ];
      }),
    )
  );
  await Deno.writeFile(`${dir}/events.out.tfevents.1700000000.host.1.0`, first!);
  await Deno.writeFile(`${dir}/events.out.tfevents.1700000100.host.1.1`, second!);
  await Deno.symlink("/dev/zero", `${dir}/events.out.tfevents.1700000200.host`);

  const found = await json(["import", "--dry-run", root.path]);
  assert.deepEqual(found.map((r: { name: string; status: string }) => [r.name, r.status]), [
    ["CartPole-v1__ppo__1__1700000000", "found"],
  ]);
  const run = await imported(root.path, "--tag", "mine");
  const { status: _, ...same } = run;
  assert.deepEqual({ ...same, status: "found" }, found[0]);
  const expected = [first!, second!].flatMap((file) => scalars(readAll("tfevents", file).records))
    .map((
      [tag, step, value],
    ): Point => [tag === "seed" ? "imported.seed" : tag, step, value === 0 ? 0 : value])
    .sort(byName);
  assert.deepEqual(await pointsOf(run.run_id), expected);
  assert.deepEqual([run.series, run.points, run.files], [3, expected.length, 2]);
  assert.deepEqual(run.left_out, [
    "4 of the points are NaN or infinite: they are gaps in their curves",
  ]);
  const points = await json(["metrics", run.run_id, "losses/value", "--points"]);
  assert.equal(points[3].timestamp, new Date(1_700_000_000_375).toISOString());

  const [listed] = await json(["list", "-t", "imported"]);
  assert.deepEqual([listed.run_id, listed.name, listed.state, listed.tags], [
    run.run_id,
    run.name,
    "TERMINATED",
    ["imported", "mine"],
  ]);
  // A copy elsewhere, too, is known by its content.
  await Deno.rename(dir, `${root.path}/elsewhere`);
  const [again] = await json(["import", root.path]);
  assert.deepEqual([again.run_id, again.status, again.name], [
    run.run_id,
    "already imported",
    run.name,
  ]);
  assert.equal((await json(["list"])).length, 1);
  // Its records are stored: another attempt would store them again.
  const retried = await mosaic(["retry", run.run_id]);
  assert.equal(retried.code, 6);
  assert.match(retried.err, /import/);
  assert.equal((await json(["list"]))[0].state, "TERMINATED");
  assert.deepEqual(await pointsOf(run.run_id), expected);
});

Deno.test("import: Stable-Baselines3's monitor and progress files are one run: episodes and series", async () => {
  await using root = await directory();
  const dir = `${root.path}/sb3`;
  await Deno.mkdir(dir);
  for (const name of ["monitor.csv", "progress.csv", "progress.json"]) {
    await Deno.copyFile(`${FIXTURES}sb3.${name}`, `${dir}/${name}`);
  }
  await Deno.writeTextFile(`${dir}/dataset.csv`, "a,b\n1,2\n");
  const run = await imported(dir);
  const monitor = readAll("csv", await Deno.readFile(`${FIXTURES}sb3.monitor.csv`)).records;
  const rows = monitor.flatMap((r) => r.kind === "episode" ? [r] : []);
  const episodes = await json(["episodes", run.run_id]) as {
    total_reward: number;
    steps: number;
    timestamp: string;
  }[];
  assert.deepEqual(
    episodes.map((e) => [e.total_reward, e.steps, Date.parse(e.timestamp)]),
    rows.map((r) => [r.return, r.length, Math.floor(r.wallTime! * 1000)]),
  );
  assert.ok(rows.length > 2);
  // The same rows as progress.csv, which is not read.
  const progress = scalars(
    readAll("jsonl", await Deno.readFile(`${FIXTURES}sb3.progress.json`)).records,
  );
  assert.ok(progress.length > 10);
  assert.deepEqual((await pointsOf(run.run_id)).filter(([name]) => name.includes("/")), progress);
  assert.deepEqual([run.files, run.episodes, run.name], [2, rows.length, "sb3"]);
});

Deno.test("import: a W&B log with its name, config, texts, console output, secrets hidden", async () => {
  await using root = await directory();
  const log = await wandbFixture();
  const dir = `${root.path}/wandb/offline-run-20260101_000000-abc/`;
  await Deno.mkdir(`${dir}files`, { recursive: true });
  await Deno.writeFile(`${dir}run-abc.wandb`, log);
  await Deno.writeTextFile(`${dir}files/metrics.csv`, "step,x\n1,2\n");
  const run = await imported(root.path);
  const { records } = readAll("wandb", log);
  // A point without a step is at its index.
  const expected = scalars(records).map(([tag, step, value]) => [tag, step ?? 0, value]);
  assert.deepEqual(await pointsOf(run.run_id), expected);
  const shown = await json(["show", run.run_id]);
  assert.equal(shown.name, "ppo-1");
  assert.deepEqual(shown.config.metadata.parameters, {
    lr: 0.0003,
    env_id: "CartPole-v1",
    anneal: true,
    net: { layers: [64, 64] },
    clip: null,
    late: 5,
  });
  const events = await json(["events", run.run_id, "--worker"]) as {
    event: string;
    payload: Record<string, unknown>;
  }[];
  const texts = records.flatMap((r) => r.kind === "text" ? [[r.tag, r.text]] : []);
  assert.deepEqual(
    events.flatMap((e) => e.event === "text" ? [[e.payload.tag, e.payload.text]] : []),
    texts,
  );
  const said = records.flatMap((r) => r.kind === "output" ? [r.text] : []).join("");
  assert.equal((await mosaic(["logs", "--stderr", run.run_id])).out, said);
  assert.deepEqual(events.at(-1)!.event, "import_completed");
  assert.deepEqual(events.at(-1)!.payload.left_out, run.left_out);
  assert.ok(
    run.left_out.includes("1 histogram") && run.left_out.includes("1 image"),
    run.left_out.join(),
  );
});

Deno.test("import: one series per source, no more than a run may have, and what is left out is told", async () => {
  await using root = await directory();
  const line = (step: number) => {
    const fields = Array.from({ length: 10_050 }, (_, i) => `"s${i}": ${i + step}`).join(", ");
    return `{"step": ${step}, "loss": ${step / 2}, "api_key": "x", ${fields}}\n`;
  };
  await Deno.writeTextFile(
    `${root.path}/metrics.jsonl`,
    [1, 2].map(line).join("") + '{"step": 3, "los',
  );
  await Deno.writeTextFile(`${root.path}/metrics.csv`, "step,loss\n1,7.5\n");
  await Deno.writeTextFile(
    `${root.path}/result.json`,
    '{"training_iteration": 1, "x": 1, "config": {"lr": 0.1, "api_key": "hunter2", "odd": NaN}}\n',
  );
  const { out, err } = await mosaic(["import", "--dry-run", root.path]);
  assert.match(out, /SERIES +POINTS/);
  assert.match(
    err,
    /left out: \d+ points of \d+ series \(s\d+, .* …\): a run has at most 10000 series/,
  );
  assert.match(err, /left out: metrics\.jsonl: 16 bytes at \d+: the file ends within a record/);
  const run = await imported(root.path, "--name", "many");
  const points = await pointsOf(run.run_id);
  assert.deepEqual(points.filter(([name]) => name.startsWith("loss")), [
    ["loss", 1, 7.5],
    ["loss@metrics.jsonl", 1, 0.5],
    ["loss@metrics.jsonl", 2, 1],
  ]);
  assert.equal(
    (await json(["metrics", run.run_id])).filter((s: { name: string }) =>
      !/^(?:episode_)?reward$|^episode_length$|^system\//.test(s.name)
    ).length,
    10_000,
  );
  const shown = await json(["show", run.run_id]);
  assert.deepEqual(shown.config.metadata.parameters, { lr: 0.1, api_key: "(secret)", odd: "NaN" });
  assert.deepEqual(shown.telemetry.violations, {});
});

Deno.test("import: compare shows the parameters that differ, and not where the files were", async () => {
  await using root = await directory();
  const runs: string[] = [];
  for (const lr of [0.1, 0.2]) {
    await Deno.mkdir(`${root.path}/${lr}/version_0`, { recursive: true });
    const line = JSON.stringify({
      training_iteration: 1,
      score: lr * 3,
      config: { lr, net: { layers: [64, 64] } },
    });
    await Deno.writeTextFile(`${root.path}/${lr}/version_0/result.json`, `${line}\n`);
    runs.push((await imported(`${root.path}/${lr}`)).run_id);
  }
  const { config, metrics } = await json(["compare", ...runs, "--no-plot"]);
  assert.deepEqual(config, {
    "metadata.parameters.lr": ["0.1", "0.2"],
    run_name: ["0.1/version_0", "0.2/version_0"],
  });
  assert.deepEqual(metrics.score, [0.1 * 3, 0.2 * 3]);
});

Deno.test("import: what a program printed, where its file is named", async () => {
  await using root = await directory();
  const path = `${root.path}/train.log`;
  const printed = await Deno.readTextFile(`${FIXTURES}sb3.stdout.txt`);
  const others = `bar\rglobal_step=7, episodic_return=[12.5]\n${
    "x".repeat(300_000)
  }\n{'loss': 0.25, 'step': 3}`;
  await Deno.writeTextFile(path, printed + others);
  const run = await imported(path);
  const text = new TextLines();
  const fields = `${printed}${others}`.split(/[\r\n]/).flatMap((line) => text.read(line) ?? []);
  const expected = fields.flatMap(({ step, scalars }) =>
    scalars.map(([tag, value]): Point => [tag, step!, value])
  );
  assert.ok(expected.length > 10);
  assert.deepEqual(await pointsOf(run.run_id), expected.sort(byName));
  const episodes = await json(["episodes", run.run_id]) as { total_reward: number }[];
  assert.deepEqual(episodes.map((e) => e.total_reward), [12.5]);
});

Deno.test("import: files larger than what is read at a time, and records larger than that, give what their readers give", async () => {
  await using root = await directory();
  const wide = (step: number) =>
    JSON.stringify({ step, loss: step / 7, text: "x".repeat(step === 40 ? 1_500_000 : 20_000) }) +
    "\n";
  const rows = Array.from({ length: 60 }, (_, step) => wide(step)).join("");
  const table = `step,loss,note\n` +
    Array.from({ length: 30 }, (_, i) => `${i},${i / 3},"${"y,".repeat(20_000)}"\n`).join("");
  const files = {
    "metrics.jsonl": new TextEncoder().encode(rows),
    "metrics.csv": new TextEncoder().encode(table),
    "events.out.tfevents.1": bytes(
      versionFrame(1),
      ...Array.from(
        { length: 12_000 },
        (_, step) => scalarFrame({ tag: "loss", value: step / 3, step, wallTime: 1.7e9 }),
      ),
    ),
  };
  for (const [name, content] of Object.entries(files)) {
    const path = `${root.path}/${name}`;
    await Deno.writeFile(path, content);
    const problems: unknown[] = [];
    const records = [...recordsOf(path, (_, problem) => problems.push(problem))];
    const expected = readAll(formatOfName(path)!, content);
    assert.deepEqual(records, expected.records);
    assert.deepEqual(problems, expected.problems);
    assert.ok(records.length >= 30 && content.length > 500_000, name);
  }
});

Deno.test("import: monitor files that were written side by side give their episodes in the order of their times", async () => {
  await using root = await directory();
  for (const env of [0, 1]) {
    const rows = [1, 2, 3].map((i) => `${i * 10 + env},${i},${i + env / 2}\n`).join("");
    await Deno.writeTextFile(
      `${root.path}/${env}.monitor.csv`,
      `#{"t_start": 1700000000, "env_id": "x"}\nr,l,t\n${rows}`,
    );
  }
  const [source, ...others] = sourcesOf([0, 1].map((env) => `${root.path}/${env}.monitor.csv`));
  assert.deepEqual(others, []);
  const records = [...recordsOfSource(source!, () => {})];
  assert.deepEqual(records.map((r) => r.kind === "episode" && r.return), [10, 11, 20, 21, 30, 31]);
  const lines = new Lines(256);
  const printed = records.map((record) => JSON.parse(lines.add(record, source!.label)));
  assert.deepEqual(
    printed.map((line) => [line.episode_index, line.total_reward]),
    [10, 11, 20, 21, 30, 31].map((r, i) => [i, r]),
  );
});

Deno.test("import: refuses what it cannot import, and names it", async () => {
  await using root = await directory();
  await Deno.writeTextFile(`${root.path}/notes.md`, "");
  await Deno.mkdir(`${root.path}/deep/a`, { recursive: true });
  await Deno.writeTextFile(`${root.path}/deep/a/progress.csv`, "step,loss\n1,1\n");
  await Deno.mkdir(`${root.path}/deep/b`);
  await Deno.writeTextFile(`${root.path}/deep/b/progress.csv`, "step,loss\n1,2\n");
  const cases: [args: string[], code: number, message: RegExp][] = [
    [[`${root.path}/nowhere`], 4, /nowhere: there is no such file or directory/],
    [[`${root.path}/notes.md`], 2, /notes\.md: its name matches no format that mosaic reads/],
    [["--depth", "1", root.path], 4, /no files of trackers in it or 1 levels below it/],
    [["--name", "x", root.path], 2, /--name is for one run, and 2 are found/],
  ];
  for (const [args, code, message] of cases) {
    const result = await mosaic(["import", ...args]);
    assert.equal(result.code, code, result.err);
    assert.match(result.err, message);
  }
  assert.equal((await json(["import", "--dry-run", root.path])).length, 2);
});
