import assert from "node:assert/strict";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { scalarFrame, versionFrame } from "../../../src/cli/export/event_file.ts";
import { recordsOfSource, sourcesOf } from "../../../src/readers/import/read.ts";
import { frame } from "../../../src/readers/tensorboard/tfrecord.ts";

const point = (step: number, value: number) =>
  scalarFrame({ tag: "loss", value, step, wallTime: 1.7e9 + step });

/** As `SummaryWriter(purge_step=…)` begins its file. */
function startAt(step: number): Uint8Array {
  const event = new BinaryWriter();
  event.tag(1, WireType.Bit64).double(1.7e9).tag(2, WireType.Varint).int64(step);
  event.tag(7, WireType.LengthDelimited).fork().tag(1, WireType.Varint).int32(1).join();
  return frame(event.finish());
}

Deno.test("import: what a writer with purge_step has written again counts once, and is named", () => {
  const directory = Deno.makeTempDirSync();
  try {
    const files = [
      [...[0, 1, 2, 3, 4].map((step) => point(step, 1))],
      [startAt(3), point(3, 2), point(4, 2)],
      [startAt(2), point(2, 3)],
    ].map((frames, i) => {
      const path = `${directory}/events.out.tfevents.${1700000000 + i}.host.7.${i}`;
      const bytes = [versionFrame(1.7e9), ...frames].flatMap((one) => [...one]);
      Deno.writeFileSync(path, Uint8Array.from(bytes));
      return path;
    });
    const problems: string[] = [];
    const found = sourcesOf(files).flatMap((source) => [
      ...recordsOfSource(source, (_, { detail }) => void problems.push(detail)),
    ]);
    assert.deepEqual(
      found.flatMap((one) => one.kind === "scalar" ? [[one.step, one.value]] : []),
      [[0, 1], [1, 1], [2, 3]],
    );
    const why = "a later file begins there again (purge_step)";
    assert.deepEqual(problems, [
      `3 points from step 2 on: ${why}`,
      `2 points from step 2 on: ${why}`,
    ]);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
