import assert from "node:assert/strict";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { scalarFrame, versionFrame } from "../../../src/cli/export/event_file.ts";
import { openFormat } from "../../../src/readers/formats.ts";
import { frame } from "../../../src/readers/tensorboard/tfrecord.ts";
import type { SourceRecord } from "../../../src/readers/format/tracker_records.ts";
import { pythonTest, runPython } from "../../python/python.ts";
import { assertSameHoweverRead, readAll, readOn, restored } from "./harness.ts";

function joined(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]));
}

const at = (step: number, value = step / 8) =>
  scalarFrame({ tag: "loss", value, step, wallTime: 100.5 + step });
const point = (step: number, value = step / 8): SourceRecord => ({
  kind: "scalar",
  tag: "loss",
  step,
  wallTime: 100.5 + step,
  value,
});
const VERSION = versionFrame(100);

Deno.test("event file: scalars with their step and time, however the file grows", () => {
  const odd = [NaN, Infinity, -Infinity, -0, Math.fround(0.1)];
  const file = joined(VERSION, ...odd.map((value, step) => at(step, value)));
  const { records, problems } = assertSameHoweverRead("tfevents", file);
  assert.deepEqual(records, odd.map((value, step) => point(step, value)));
  assert.deepEqual(problems, []);
});

Deno.test("event file: a torn tail waits, and is told once nothing will follow", () => {
  const file = joined(VERSION, at(1), at(2));
  const reader = openFormat("tfevents");
  const cut = file.subarray(0, file.length - 1);
  assert.deepEqual(readOn(reader, cut), { records: [point(1)], problems: [] });
  const { offset } = reader;
  assert.equal(offset, file.length - at(2).length);
  assert.deepEqual(reader.read(cut.subarray(offset), { end: true }).problems, [
    { what: "torn", at: offset, bytes: at(2).length - 1, detail: "the file ends within a record" },
  ]);
  assert.equal(reader.read(cut.subarray(offset)).need, at(2).length);
  assert.deepEqual(readOn(reader, file), { records: [point(2)], problems: [] });
});

Deno.test("event file: a record with a wrong checksum is told and passed over", () => {
  const file = joined(VERSION, at(1), at(2), at(3));
  const broken = VERSION.length + at(1).length;
  file[broken + 20]! ^= 1;
  const { records, problems } = assertSameHoweverRead("tfevents", file);
  assert.deepEqual(records, [point(1), point(3)]);
  assert.deepEqual(problems, [{
    what: "corrupt",
    at: broken,
    bytes: at(2).length,
    detail: "wrong checksum",
  }]);
});

Deno.test("event file: behind a broken length reading goes on at the next record", () => {
  for (
    const junk of [
      [1],
      [0, 0, 0, 0, 0, 0, 0],
      Array.from({ length: 5000 }, (_, i) => (i * 7919) & 0xff),
    ]
  ) {
    const file = joined(VERSION, at(1), Uint8Array.from(junk), at(2), at(3));
    const { records, problems } = assertSameHoweverRead("tfevents", file);
    assert.deepEqual(records, [point(1), point(2), point(3)]);
    assert.deepEqual(problems.map(({ what, at, bytes }) => ({ what, at, bytes })), [
      { what: "corrupt", at: VERSION.length + at(1).length, bytes: junk.length },
    ]);
  }
});

Deno.test("event file: a broken length at the end is told with its length", () => {
  const file = joined(VERSION, at(1), new Uint8Array(300).fill(7));
  const { records, problems } = assertSameHoweverRead("tfevents", file);
  assert.deepEqual(records, [point(1)]);
  const expected = [["corrupt", file.length - 300, 300]];
  assert.deepEqual(problems.map((p) => [p.what, p.at, p.bytes]), expected);
  // Passed over before it was known that nothing follows.
  const reader = openFormat("tfevents");
  assert.deepEqual(readOn(reader, file).problems, []);
  assert.deepEqual(
    readOn(restored(reader), file, { end: true }).problems.map((p) => [p.what, p.at, p.bytes]),
    expected,
  );
});

Deno.test("event file: of a tag's plugins the first counts, as in TensorBoard", () => {
  const picture = (plugin: string) => {
    const event = new BinaryWriter();
    event.tag(5, WireType.LengthDelimited).fork().tag(1, WireType.LengthDelimited).fork();
    event.tag(1, WireType.LengthDelimited).string("x");
    event.tag(8, WireType.LengthDelimited).fork().tag(1, WireType.Varint).int32(7);
    for (const text of ["6", "4", "GIF89a"]) event.tag(8, WireType.LengthDelimited).string(text);
    event.join().tag(9, WireType.LengthDelimited).fork().tag(1, WireType.LengthDelimited).fork();
    event.tag(1, WireType.LengthDelimited).string(plugin).join().join().join().join();
    return frame(event.finish());
  };
  const { records } = assertSameHoweverRead(
    "tfevents",
    joined(VERSION, picture("images"), picture("histograms")),
  );
  assert.deepEqual(records.map((r) => r.kind === "media" && r.type), ["image/gif", "image/gif"]);
});

Deno.test("event file: zeros and a bad last checksum wait, for they may be bytes on their way", () => {
  const file = joined(VERSION, at(1), at(2));
  for (const hidden of [at(2).length, 8, 1]) {
    const seen = file.slice();
    seen.fill(0, file.length - hidden);
    const reader = openFormat("tfevents");
    assert.deepEqual(readOn(reader, seen), { records: [point(1)], problems: [] });
    assert.deepEqual(readOn(restored(reader), file).records, [point(2)]);
  }
});

Deno.test("event file: a record beyond the bound is passed over without being held", () => {
  const header = frame(new Uint8Array(0)).slice(0, 12);
  const view = new DataView(header.buffer);
  // Length and checksum of a frame of 100 MiB, without its data.
  const length = 100 << 20;
  const lengthBytes = new Uint8Array(8);
  new DataView(lengthBytes.buffer).setBigUint64(0, BigInt(length), true);
  view.setBigUint64(0, BigInt(length), true);
  view.setUint32(8, new DataView(frame(lengthBytes).buffer).getUint32(20, true), true);
  const reader = openFormat("tfevents");
  const first = reader.read(joined(VERSION, header));
  assert.deepEqual(first.problems.map((p) => [p.what, p.at, p.bytes]), [[
    "too_large",
    VERSION.length,
    length + 16,
  ]]);
  const chunk = new Uint8Array(1 << 20);
  for (let i = 0; i < 100; i++) assert.equal(reader.read(chunk).records.length, 0);
  assert.deepEqual(restored(reader).read(joined(new Uint8Array(4), at(9))).records, [point(9)]);
});

Deno.test("event file: what is no Event is told; a session's start is a rewind", () => {
  const session = new BinaryWriter();
  session.tag(1, WireType.Bit64).double(5).tag(2, WireType.Varint).int64(64);
  session.tag(7, WireType.LengthDelimited).fork().tag(1, WireType.Varint).int32(1).join();
  const file = joined(VERSION, frame(Uint8Array.of(0xff, 0xff)), frame(session.finish()), at(1));
  const { records, problems } = assertSameHoweverRead("tfevents", file);
  assert.deepEqual(records, [{ kind: "rewind", step: 64, wallTime: 5 }, point(1)]);
  assert.deepEqual(problems.map((p) => p.what), ["corrupt"]);
});

Deno.test("event file: a file that begins otherwise is not the same", () => {
  const reader = openFormat("tfevents");
  assert.equal(reader.headBytes, 0);
  readOn(reader, joined(VERSION, at(1)));
  const head = (file: Uint8Array) => file.subarray(0, reader.headBytes);
  assert.equal(restored(reader).isSame(head(joined(VERSION, at(7)))), true);
  assert.equal(reader.isSame(head(joined(versionFrame(101), at(1)))), false);
  assert.equal(reader.isSame(new Uint8Array(3)), false);
  reader.restart();
  assert.equal(reader.offset, 0);
  assert.deepEqual(readOn(reader, joined(versionFrame(101), at(5))).records, [point(5)]);
});

/** What EventAccumulator read of one file; floats as the hexadecimal of their bits. */
interface Read {
  scalars: [tag: string, step: number, wallTime: string, value: string][];
  texts: [tag: string, step: number, wallTime: string, text: string][];
  tensors: [tag: string, step: number, plugin: string][];
  histograms: [tag: string, step: number, ...stats: string[]][];
  images: [tag: string, step: number, width: number, height: number, hex: string][];
}

function bits(value: number | undefined): string {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value!);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

const hex = (bytes: Uint8Array | undefined) =>
  [...bytes!].map((b) => b.toString(16).padStart(2, "0")).join("");
const sorted = <T>(rows: T[]) => rows.map((row) => JSON.stringify(row)).sort();

/** Our records in the same form. */
function asRead(records: readonly SourceRecord[]): Read {
  const read: Read = { scalars: [], texts: [], tensors: [], histograms: [], images: [] };
  for (const r of records) {
    if (r.kind === "scalar") read.scalars.push([r.tag, r.step!, bits(r.wallTime), bits(r.value)]);
    if (r.kind === "text") read.texts.push([r.tag, r.step!, bits(r.wallTime), r.text]);
    if (r.kind === "histogram" && r.stats !== undefined) {
      const { min, max, num, sum, sumSquares } = r.stats;
      read.histograms.push([r.tag, r.step!, ...[min, max, num, sum, sumSquares].map(bits)]);
    }
    if (r.kind === "media" && r.media === "image" && r.step === 5) {
      read.images.push([r.tag, r.step, r.width!, r.height!, hex(r.bytes)]);
    }
  }
  return read;
}

async function compared(python: string, writer: string): Promise<Map<string, SourceRecord[]>> {
  const dir = await Deno.makeTempDir();
  try {
    const files = JSON.parse(await runPython(python, "event_files.py", [writer, dir])) as Record<
      string,
      Read
    >;
    const byFile = new Map<string, SourceRecord[]>();
    for (const [path, expected] of Object.entries(files)) {
      const { records, problems } = assertSameHoweverRead("tfevents", await Deno.readFile(path));
      assert.deepEqual(problems, []);
      const ours = asRead(records);
      for (const part of ["scalars", "texts", "histograms", "images"] as const) {
        assert.deepEqual(
          sorted<unknown>(ours[part]),
          sorted<unknown>(expected[part]),
          `${part} of ${path}`,
        );
      }
      byFile.set(path.slice(dir.length + 1).replace(/\/?events.*$/, ""), records);
    }
    return byFile;
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

pythonTest(
  "event file: what tensorboardX writes reads as TensorBoard's EventAccumulator reads it, bit for bit",
  ["tensorboard", "tensorboardX"],
  async (python) => {
    const files = await compared(python, "tensorboardX");
    const records = files.get("")!;
    assert.equal(records.filter((r) => r.kind === "scalar").length, 409);
    const params = records.find((r) => r.kind === "params")!;
    assert.deepEqual(params.kind === "params" && [params.origin, params.values], ["text_summary", {
      lr: 0.00025,
      env_id: "CartPole-v1",
      anneal: true,
      clip: null,
      expr: "a|b",
    }]);
    const histogram = records.find((r) => r.kind === "histogram");
    assert.equal(histogram?.kind === "histogram" && histogram.count.reduce((a, b) => a + b), 5);
    assert.equal(histogram?.kind === "histogram" && histogram.left[0], -1);
    assert.equal(histogram?.kind === "histogram" && histogram.right.at(-1), 2);
    const hparams = files.get("h")!;
    const session = hparams.find((r) => r.kind === "params")!;
    assert.deepEqual(session.kind === "params" && [session.origin, session.values], [
      "hparams",
      { lr: 0.1, bs: 3, name: "x", flag: true },
    ]);
    assert.deepEqual(hparams.flatMap((r) => r.kind === "status" ? [r.status] : []), ["success"]);
  },
);

pythonTest(
  "event file: tensors of every type, named by a plugin in a tag's first value only, read as TensorBoard reads them",
  ["tensorboard"],
  async (python) => {
    const records = (await compared(python, "tensors")).get("")!;
    assert.equal(records.filter((r) => r.kind === "scalar" && r.tag === "t/bfloat16").length, 6);
    const histograms = records.filter((r) => r.kind === "histogram");
    assert.deepEqual(
      histograms.map(({ step, left, right, count }) => ({ step, left, right, count })),
      [0, 1].map((step) => ({
        step,
        left: [0, 0.5],
        right: [0.5, 1],
        count: [3, 4],
      })),
    );
    const media = records.filter((r) => r.kind === "media");
    assert.deepEqual(
      media.map((r) => [r.media, r.tag, r.step, r.index, r.type]),
      [0, 1].flatMap((step) => [
        ["image", "pictures", step, 0, "image/png"],
        ["image", "pictures", step, 1, "image/gif"],
        ["audio", "sound", step, 0, "audio/wav"],
      ]),
    );
  },
);

Deno.test("event file: what is read is bounded per call", () => {
  const file = joined(VERSION, at(1), at(2), at(3));
  const reader = openFormat("tfevents");
  assert.deepEqual(reader.read(file, { maxRecords: 2 }).records, [point(1), point(2)]);
  assert.deepEqual(reader.read(file.subarray(reader.offset)).records, [point(3)]);
  assert.deepEqual(readAll("tfevents", new Uint8Array(0)), { records: [], problems: [] });
});
