import { strict as assert } from "node:assert";
import { parquetMetadataAsync, parquetReadObjects } from "npm:hyparquet@1.31.5";
import { runCli } from "../../src/cli/cli.ts";
import { crc32c, maskedCrc32c } from "../../src/base/crc32c.ts";
import { scalarFrame, scalarsOf, versionFrame } from "../../src/cli/export/event_file.ts";
import { type Answers, fakeRun, fakeWorld, ID_A } from "./fakes.ts";

const hex = (bytes: Uint8Array) => [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
const text = (t: string) => new TextEncoder().encode(t);

Deno.test("crc32c: the vectors of RFC 3720", () => {
  for (
    const [bytes, crc] of [
      [new Uint8Array(32), 0x8a9136aa],
      [new Uint8Array(32).fill(0xff), 0x62a8ab43],
      [Uint8Array.from({ length: 32 }, (_, i) => i), 0x46dd794e],
      [text("123456789"), 0xe3069283],
    ] as const
  ) assert.equal(crc32c(bytes), crc);
  assert.equal(
    maskedCrc32c(text("123456789")),
    ((((0xe3069283 >>> 15) | (0xe3069283 << 17)) >>> 0) + 0xa282ead8) >>> 0,
  );
});

Deno.test("event file: frames are length, checksum, event, checksum", () => {
  const frame = versionFrame(1.5);
  const view = new DataView(frame.buffer);
  assert.equal(Number(view.getBigUint64(0, true)), frame.length - 16);
  assert.equal(hex(frame.subarray(12, -4)), "09000000000000f83f1a0d627261696e2e4576656e743a32");
  const scalar = scalarFrame({ tag: "a", value: 0.5, step: 300, wallTime: 1.5 });
  assert.equal(hex(scalar.subarray(12, -4)), "09000000000000f83f10ac022a0a0a080a0161150000003f");
});

const TIME = "2025-11-22T14:00:00.250Z";

Deno.test("event file: what is no finite number is no point", () => {
  const wallTime = Date.parse(TIME) / 1000;
  assert.deepEqual(
    scalarsOf("episodes", { seq: 3, total_reward: null, steps: 9, timestamp: TIME }),
    [
      { tag: "episode/length", value: 9, step: 3, wallTime },
    ],
  );
  assert.deepEqual(
    scalarsOf("metrics", { seq: 3, name: "loss", value: 0.5, step: 70, timestamp: TIME }),
    [
      { tag: "loss", value: 0.5, step: 70, wallTime },
    ],
  );
});

const EPISODES = [1, 2, 3].map((seq) =>
  JSON.stringify({
    seq,
    run_id: ID_A,
    attempt: 1,
    episode_index: seq - 1,
    total_reward: seq === 2 ? null : seq * 10.5,
    ...(seq === 2 ? { total_reward_text: "NaN" } : {}),
    steps: seq,
    terminated: true,
    truncated: false,
    timestamp: TIME,
    ts_ns: "1763820000250000001",
    ...(seq === 1 ? { metadata: { success: true } } : {}),
  }) + "\n"
);
const METRICS = [
  `{"seq":1,"run_id":"${ID_A}","name":"loss","value":0.25,"step":12,"timestamp":"${TIME}"}\n`,
];

const DAEMON: Answers = {
  GetRun: () => fakeRun(),
  GetCode: () => ({}),
  StreamTelemetry: ({ kind }) => {
    const lines = kind === "episodes" ? EPISODES : kind === "metrics" ? METRICS : [];
    return lines.length === 0
      ? []
      : [{ jsonl: text(lines.join("")), firstSeq: 1n, lastSeq: BigInt(lines.length) }];
  },
};

async function exported(
  args: string[],
): Promise<{ dir: string; out: string; code: number; err: string }> {
  const dir = await Deno.makeTempDir();
  const world = fakeWorld(DAEMON);
  const code = await runCli(["export", "x", "--out", dir, ...args], world);
  return { dir, code, out: world.stdout(), err: world.stderr() };
}

Deno.test("export: jsonl is the daemon's own, csv has every field, and run.json tells of the run", async () => {
  const { dir, out } = await exported(["--format", "jsonl"]);
  try {
    assert.equal(Deno.readTextFileSync(`${dir}/episodes.jsonl`), EPISODES.join(""));
    assert.equal(Deno.readTextFileSync(`${dir}/steps.jsonl`), "");
    assert.equal(JSON.parse(Deno.readTextFileSync(`${dir}/run.json`)).run_id, ID_A);
    assert.match(out, new RegExp(`^${dir}/episodes.jsonl {2}3 records$`, "m"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
  const world = fakeWorld(DAEMON);
  assert.equal(
    await runCli(["export", "x", "--format", "csv", "-k", "episodes", "--out", "-"], world),
    0,
  );
  const lines = world.stdout().trimEnd().split("\n");
  assert.match(lines[0]!, /^seq,run_id,attempt,episode_index,total_reward,/);
  assert.equal(
    lines[1],
    `1,${ID_A},1,0,10.5,1,true,false,${TIME},1763820000250000001,,,"{""success"":true}"`,
  );
  assert.equal(lines.length, 4);
});

Deno.test("export: parquet has typed columns and every row", async () => {
  const { dir } = await exported(["--format", "parquet"]);
  try {
    const bytes = Deno.readFileSync(`${dir}/episodes.parquet`);
    const rows = await parquetReadObjects({ file: bytes.buffer as ArrayBuffer });
    assert.equal(rows.length, 3);
    assert.deepEqual(rows[0], {
      seq: 1n,
      run_id: ID_A,
      attempt: 1n,
      episode_index: 0n,
      total_reward: 10.5,
      steps: 1n,
      terminated: true,
      truncated: false,
      timestamp: new Date(TIME),
      ts_ns: 1763820000250000001n,
      agent_id: rows[0]!["agent_id"],
      worker_id: rows[0]!["worker_id"],
      metadata: { success: true },
    });
    assert.ok(Number.isNaN(rows[1]!["total_reward"]));
    assert.equal(
      (await parquetReadObjects({ file: Deno.readFileSync(`${dir}/steps.parquet`).buffer })).length,
      0,
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("export: parquet has lists of numbers as such, and other shapes as JSON", async () => {
  const step = (observation: unknown, action: unknown): Record<string, unknown> => ({
    ...{
      seq: 1,
      observation,
      action,
      timestamp: TIME,
      ts_ns: "1763820000250000001",
      reward: null,
      reward_text: "NaN",
    },
    ...{ terminated: true, agent_id: "a", info: { loss: 0.5 } },
  });
  async function* rows(last: unknown) {
    for (let i = 0; i < 1200; i++) yield step([i, 0.5], i);
    yield step(undefined, 7);
    yield step(last, 7);
  }
  const path = await Deno.makeTempFile();
  const { writeParquet } = await import("../../src/cli/export/parquet_file.ts");
  for (const last of [[1], { pixels: [1] }]) {
    assert.equal(await writeParquet(path, "steps", () => rows(last) as never), 1202);
    const file = Deno.readFileSync(path).buffer as ArrayBuffer;
    const read = await parquetReadObjects({ file });
    assert.deepEqual([read[3]!["observation"], read[3]!["action"]], [[3, 0.5], 3]);
    const { seq, timestamp, ts_ns, reward, terminated, agent_id, info, truncated } = read[1201]!;
    assert.deepEqual(
      [seq, timestamp, ts_ns, reward, terminated, agent_id, info, truncated ?? null],
      [
        ...[1n, new Date(TIME), 1763820000250000001n, NaN, true, "a", { loss: 0.5 }, null],
      ],
    );
    assert.deepEqual([read[1200]!["observation"] ?? null, read[1201]!["observation"]], [
      null,
      last,
    ]);
    const names = (await parquetMetadataAsync({
      byteLength: file.byteLength,
      slice: (a, b) => file.slice(a, b),
    })).schema;
    assert.equal(names.some(({ name }) => name === "element"), Array.isArray(last));
    if (pythonHas("pyarrow")) {
      const type = await python(
        `import sys, pyarrow.parquet as pq; print(pq.read_table(sys.argv[1]).schema.field("observation").type)`,
        path,
      );
      assert.equal(/^list<.*double>/.test(type.trim()), Array.isArray(last), type);
    }
  }
  await Deno.remove(path);
});

Deno.test("export: what cannot be is refused before anything is written", async () => {
  for (
    const [args, message] of [
      [["--format", "tensorboard", "-k", "steps"], /tensorboard can hold: episodes, metrics/],
      [["--format", "csv", "-k", "stpes"], /Did you mean steps/],
      [["--format", "parquet", "--out", "-"], /--out - takes one kind/],
      [["--format", "xml"], /It must be jsonl, csv, parquet, tensorboard, minari or mosaic/],
    ] as const
  ) {
    const { dir, code, err } = await exported([...args]);
    assert.equal(code, 2);
    assert.match(err, message);
    assert.deepEqual([...Deno.readDirSync(dir)], []);
    await Deno.remove(dir);
  }
});

const PYTHON = new URL("../../.venv/bin/python", import.meta.url).pathname;

function pythonHas(module: string): boolean {
  try {
    return new Deno.Command(PYTHON, {
      args: ["-c", `import ${module}`],
      stdout: "null",
      stderr: "null",
    })
      .outputSync().success;
  } catch {
    return false;
  }
}

async function python(script: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(PYTHON, {
    args: ["-c", script, ...args],
  }).output();
  const decoder = new TextDecoder();
  assert.ok(success, decoder.decode(stderr));
  return decoder.decode(stdout);
}

Deno.test({
  name: "export: TensorBoard itself reads the event file (needs .venv with tensorboard)",
  ignore: !pythonHas("tensorboard"),
  fn: async () => {
    const { dir } = await exported(["--format", "tensorboard"]);
    try {
      const read = await python(
        `
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1]); events.Reload()
print(json.dumps({tag: [[e.step, e.value, e.wall_time] for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
`,
        dir,
      );
      const at = Date.parse(TIME) / 1000;
      assert.deepEqual(JSON.parse(read), {
        "episode/reward": [[1, 10.5, at], [3, 31.5, at]],
        "episode/length": [[1, 1, at], [2, 2, at], [3, 3, at]],
        loss: [[12, 0.25, at]],
      });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test({
  name: "export: Arrow reads the Parquet file (needs .venv with pyarrow)",
  ignore: !pythonHas("pyarrow"),
  fn: async () => {
    const { dir } = await exported(["--format", "parquet"]);
    try {
      const read = await python(
        `
import json, sys
import pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
print(json.dumps({"rows": table.num_rows, "types": {f.name: str(f.type) for f in table.schema}, "reward": [str(v) for v in table["total_reward"].to_pylist()]}))
`,
        `${dir}/episodes.parquet`,
      );
      const { rows, types, reward } = JSON.parse(read);
      assert.deepEqual([rows, reward], [3, ["10.5", "nan", "31.5"]]);
      assert.deepEqual([types.seq, types.total_reward, types.terminated], [
        "int64",
        "double",
        "bool",
      ]);
      assert.match(types.timestamp, /^timestamp\[ms/);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});
