import assert from "node:assert/strict";
import { BLOCK_BYTES, CHUNK } from "../../../src/readers/wandb/leveldb_log.ts";
import { openFormat } from "../../../src/readers/formats.ts";
import type { SourceRecord } from "../../../src/readers/format/tracker_records.ts";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { assertSameHoweverRead, FIXTURES, readAll, readOn } from "./harness.ts";
import { chunk, item, logOf, message, rowOf } from "../../harness/wandb_log.ts";

async function fixture(): Promise<Uint8Array> {
  const file = (await Deno.open(`${FIXTURES}offline.wandb.gz`)).readable.pipeThrough(
    new DecompressionStream("gzip"),
  );
  return new Uint8Array(await new Response(file).arrayBuffer());
}

function scalars(
  records: readonly SourceRecord[],
): [tag: string, step: number | undefined, value: number][] {
  return records.flatMap((r) => r.kind === "scalar" ? [[r.tag, r.step, r.value] as const] : [])
    .map(([tag, step, value]): [string, number | undefined, number] => [tag, step, value])
    .sort(([a, s], [b, t]) => s! - t! || (a < b ? -1 : 1));
}

Deno.test("W&B: an offline run of wandb 0.30, however its log grows", async () => {
  const { records, problems } = assertSameHoweverRead("wandb", await fixture());
  assert.deepEqual(problems, []);
  const steps = Array.from({ length: 5 }, (_, i): [string, number, number][] => [
    ["charts/return", i, i],
    ["loss", i, 0.1 * i],
    ["nested.a", i, i],
    ["nested.b.c", i, i / 3],
  ]).flat();
  assert.deepEqual(scalars(records), [
    ...steps,
    ["bad", 5, NaN],
    ["i64", 5, 7],
    ["inf", 5, Infinity],
    ["ninf", 5, -Infinity],
    ["np32", 5, Math.fround(0.1)],
    ["custom", 100, 1.5],
    ["big", 103, 0.25],
    ["summary/best", undefined, 0.75],
  ]);
  const [run] = records.filter((r) => r.kind === "run");
  assert.deepEqual(run && [run.name, run.project, run.wallTime! > 1.7e9], [
    "ppo-1",
    "cartpole",
    true,
  ]);
  assert.deepEqual(records.flatMap((r) => r.kind === "params" ? [{ ...r.values }] : []), [
    { lr: 0.0003, env_id: "CartPole-v1", anneal: true, net: { layers: [64, 64] }, clip: null },
    { late: 5 },
  ]);
  const histogram = records.find((r) => r.kind === "histogram")!;
  assert.deepEqual(
    histogram.kind === "histogram" &&
      [histogram.tag, histogram.step, histogram.left, histogram.right, histogram.count],
    ["h", 101, [0, 1, 2], [1, 2, 3], [1, 2, 3]],
  );
  const media = records.find((r) => r.kind === "media")!;
  assert.deepEqual(
    media.kind === "media" &&
      [media.media, media.tag, media.step, media.type, media.width, media.height, media.caption],
    ["image", "img", 102, "image/png", 4, 4, "black"],
  );
  assert.match(
    media.kind === "media" ? media.path! : "",
    /^media\/images\/img_\d+_[0-9a-f]+\.png$/,
  );
  const texts = records.flatMap((r) => r.kind === "text" ? [[r.tag, r.text.length]] : []);
  assert.deepEqual(texts, [["name", 4], ["long", 40000]]);
  assert.deepEqual(records.at(-1), {
    kind: "status",
    wallTime: undefined,
    status: "success",
    exitCode: 0,
  });
  const loss = records.find((r) => r.kind === "scalar" && r.tag === "loss");
  assert.ok(loss?.kind === "scalar" && Math.abs(loss.wallTime! - run!.wallTime!) < 60);
});

/** `Record` with a history of one value, and a text of the given length. */
function history(step: number, value: string, padding = 0): Uint8Array {
  const record = new BinaryWriter();
  record.tag(2, WireType.LengthDelimited).fork();
  const item = (key: string, json: string) => {
    record.tag(1, WireType.LengthDelimited).fork();
    record.tag(1, WireType.LengthDelimited).string(key).tag(16, WireType.LengthDelimited).string(
      json,
    ).join();
  };
  item("loss", value);
  if (padding > 0) item("_runtime", `"${"x".repeat(padding)}"`);
  record.tag(2, WireType.LengthDelimited).fork().tag(1, WireType.Varint).int64(step).join().join();
  return record.finish();
}

const values = (records: readonly SourceRecord[]) =>
  records.map((r) => r.kind === "scalar" ? [r.step, r.value] : [r.kind]);

Deno.test("W&B: a metric has the axis that define_metric gives it, and the summary's own values are results", () => {
  const define = (field: number, name: string, step: string) =>
    message(
      12,
      (r) =>
        r.tag(field, WireType.LengthDelimited).string(name).tag(4, WireType.LengthDelimited).string(
          step,
        ),
    );
  const row = (step: number, values: Record<string, number>) =>
    message(2, (r) => {
      for (const [key, value] of Object.entries(values)) item(r, key, String(value));
      r.tag(2, WireType.LengthDelimited).fork().tag(1, WireType.Varint).int64(step).join();
    });
  const summary = (values: Record<string, number>) =>
    message(
      3,
      (r) => Object.entries(values).forEach(([key, value]) => item(r, key, String(value))),
    );
  const { file } = logOf([
    define(1, "epoch", ""),
    define(2, "val/*", "epoch"),
    define(1, "val/other", "frames"),
    summary({ loss: 1 }),
    row(0, { loss: 1 }),
    summary({ "val/acc": 0.2 }),
    row(1, { "val/acc": 0.2, "val/other": 5, epoch: 0 }),
    row(2, { "val/acc": 0.3, epoch: 1.5 }),
    row(3, { "val/acc": 0.5, epoch: 7 }),
    row(4, { "val/acc": 0.6 }),
    summary({ best: 0.9, "val/acc": 0.6 }),
    // define_metric(summary="min") of a logged metric, and a result of several numbers.
    rowOf(3, { loss: { min: 0.5 }, final: { acc: 0.75, f1: 0.5 } }),
    message(18, () => {}),
  ]);
  const { records, problems } = assertSameHoweverRead("wandb", file);
  assert.deepEqual(problems, []);
  const found = records.flatMap((r) =>
    r.kind === "scalar" ? [`${r.tag} ${r.step} ${r.value}`] : []
  );
  assert.deepEqual(found.filter((one) => !one.startsWith("epoch")), [
    "loss 0 1",
    "val/acc 0 0.2",
    "val/other 1 5", // its axis was never logged
    "val/acc 0 0.3", // 1.5 is no step
    "val/acc 7 0.5",
    "val/acc 7 0.6",
    "summary/best undefined 0.9",
    "summary/final.acc undefined 0.75",
    "summary/final.f1 undefined 0.5",
  ]);
});

Deno.test("W&B: records at every place of a block", () => {
  // The second record begins at each of the last bytes of the first block, where only padding or a
  // header fits.
  for (let room = 0; room < 20; room++) {
    const bare = logOf([history(1, "1", 32000)]).file.length;
    const { file } = logOf([
      history(1, "1", 32000 + BLOCK_BYTES - bare - room),
      history(2, "2"),
      history(3, "3", 70000),
    ]);
    const { records, problems } = readAll("wandb", file);
    assert.deepEqual(
      [values(records), problems],
      [[[1, 1], [2, 2], [3, 3]], []],
      `${room} bytes left`,
    );
  }
});

Deno.test("W&B: a torn tail waits at the record's beginning", () => {
  const { file, starts } = logOf([history(1, "1"), history(2, "2", 70000)]);
  for (const cut of [1, 100, 5000, 40000, 70000]) {
    const reader = openFormat("wandb");
    assert.deepEqual(values(readOn(reader, file.subarray(0, file.length - cut)).records), [[1, 1]]);
    assert.equal(reader.offset, starts[1]);
    const waiting = reader.read(file.subarray(starts[1]!, file.length - cut));
    assert.ok(
      waiting.need > file.length - cut - starts[1]! && waiting.need <= file.length - starts[1]!,
    );
    assert.deepEqual(values(readOn(reader, file).records), [[2, 2]]);
  }
});

Deno.test("W&B: a broken chunk costs its block, and is told", () => {
  const datas = Array.from({ length: 60 }, (_, i) => history(i, String(i), 2000));
  const { file, starts } = logOf(datas);
  file[starts[20]! + 50]! ^= 1;
  const { records, problems } = assertSameHoweverRead("wandb", file);
  const block = Math.floor(starts[20]! / BLOCK_BYTES);
  const end = (block + 1) * BLOCK_BYTES;
  assert.deepEqual(problems, [
    { what: "corrupt", at: starts[20]!, bytes: end - starts[20]!, detail: "wrong checksum" },
  ]);
  // The record that crosses into the next block is lost with its beginning.
  const expected = datas.flatMap((_, i) => i < 20 || starts[i]! >= end ? [[i, i]] : []);
  assert.ok(expected.length > 30 && expected.length < 60);
  assert.deepEqual(values(records), expected);
});

Deno.test("W&B: a record without its end costs itself only", () => {
  const { file, starts } = logOf([history(1, "1"), history(2, "2", 70000)]);
  const torn = new Uint8Array([
    ...file.subarray(0, BLOCK_BYTES),
    ...chunk(CHUNK.FULL, history(3, "3")),
  ]);
  const { records, problems } = assertSameHoweverRead("wandb", torn);
  assert.deepEqual(values(records), [[1, 1], [3, 3]]);
  assert.deepEqual(problems.map((p) => [p.what, p.at, p.bytes]), [[
    "corrupt",
    starts[1],
    BLOCK_BYTES - starts[1]!,
  ]]);
});

Deno.test("W&B: a block that shows zeros where bytes are on their way waits", () => {
  const { file, starts } = logOf([history(1, "1"), history(2, "2", 500)]);
  const seen = file.slice();
  seen.fill(0, starts[1]!);
  const reader = openFormat("wandb");
  assert.deepEqual(readOn(reader, seen), {
    records: [{ ...readAll("wandb", file).records[0]! }],
    problems: [],
  });
  assert.deepEqual(values(readOn(reader, file).records), [[2, 2]]);
});

Deno.test("W&B: a file that is no such log is told once and not read", () => {
  const file = new TextEncoder().encode("something else\n".repeat(100));
  const { records, problems } = assertSameHoweverRead("wandb", file);
  assert.deepEqual([records, problems.map((p) => [p.what, p.at])], [[], [["corrupt", 0]]]);
});

Deno.test("W&B: what is no Record is told; reading goes on", () => {
  const { file, starts } = logOf([Uint8Array.of(0xff, 0xff), history(4, "NaN")]);
  const { records, problems } = assertSameHoweverRead("wandb", file);
  assert.deepEqual(values(records), [[4, NaN]]);
  assert.deepEqual(problems.map((p) => [p.what, p.at]), [["corrupt", starts[0]]]);
});
