import assert from "node:assert/strict";
import { openFormat } from "../../../src/readers/formats.ts";
import { labelOf, writerOf } from "../../../src/readers/files/labels.ts";
import { findRuns } from "../../../src/readers/import/find.ts";
import type { FormatReader } from "../../../src/readers/format/format_reader.ts";
import type { SourceRecord } from "../../../src/readers/format/tracker_records.ts";
import { plainValue } from "../../../src/readers/transformers/plain_pickle.ts";
import { assertSameHoweverRead, bytesOf, readAll, restored } from "./harness.ts";

type Entry = Record<string, number>;

const logged = (step: number): Entry => ({ loss: 1 / step, epoch: step / 100, step });
const log = (upTo: number) => Array.from({ length: upTo }, (_, i) => logged(i + 1));

function state(entries: readonly Entry[], more: Record<string, unknown> = {}): Uint8Array {
  const document = { epoch: 1, global_step: 9, log_history: entries, max_steps: 50, ...more };
  return bytesOf(`${JSON.stringify(document, null, 2)}\n`);
}

const lossesIn = (records: readonly SourceRecord[]) =>
  records.flatMap((one) => one.kind === "scalar" && one.tag === "loss" ? [one.step] : []);

function losses(reader: FormatReader, file: Uint8Array): (number | undefined)[] {
  return lossesIn(reader.read(file, { end: true }).records);
}

Deno.test("trainer_state.json: entries, length and best checkpoint, however the file grows", () => {
  const best = { best_model_checkpoint: "out/checkpoint-2", best_metric: 0.5, best_global_step: 2 };
  const { records, problems } = assertSameHoweverRead("trainer_state", state(log(3), best));
  assert.deepEqual(problems, []);
  assert.deepEqual(lossesIn(records), [1, 2, 3]);
  assert.deepEqual(records.filter(({ kind }) => kind === "params" || kind === "text"), [
    {
      kind: "params",
      origin: "config",
      wallTime: undefined,
      values: { max_steps: 50 },
      removed: [],
    },
    {
      kind: "text",
      tag: "best_model_checkpoint",
      step: 2,
      wallTime: undefined,
      text: "out/checkpoint-2 (best_metric 0.5)",
    },
  ]);
});

Deno.test("trainer_state.json: each entry counts once, in whichever order checkpoints are read", () => {
  for (const order of [[2, 4, 6], [6, 2, 4], [4, 6, 2]]) {
    const read: FormatReader[] = [];
    const seen = order.flatMap((upTo) => {
      const reader = openFormat("trainer_state");
      reader.follow?.(read.map((one) => restored(one).state()));
      read.push(reader);
      return losses(reader, state(log(upTo)));
    });
    assert.deepEqual(seen.sort(), [1, 2, 3, 4, 5, 6], String(order));
  }
  // The same file written anew, and another course from a checkpoint on.
  const reader = openFormat("trainer_state");
  assert.deepEqual(losses(reader, state(log(4))), [1, 2, 3, 4]);
  reader.restart();
  assert.deepEqual(losses(restored(reader), state(log(6))), [5, 6]);
  reader.restart();
  const other = [...log(2), { loss: 9, step: 3 }, { loss: 9, step: 4 }];
  assert.deepEqual(losses(restored(reader), state(other)), [3, 4]);
});

Deno.test("trainer_state.json: another document of this name is named", () => {
  for (const text of ["[1, 2]", '{"log_history": [', "loss: 3"]) {
    const { records, problems } = readAll("trainer_state", bytesOf(text));
    assert.deepEqual([records, problems.map(({ what }) => what)], [[], ["corrupt"]], text);
  }
  assert.deepEqual(readAll("trainer_state", bytesOf('{"log_history": 3}')).problems, []);
});

Deno.test("a Trainer's checkpoints are one writer, and one run on import", async () => {
  assert.equal(writerOf("/o/checkpoint-5/trainer_state.json"), writerOf("/o/trainer_state.json"));
  assert.notEqual(writerOf("/o/trainer_state.json"), writerOf("/p/trainer_state.json"));
  const taken = new Map([["trainer_state.json", writerOf("/o/trainer_state.json")]]);
  assert.equal(labelOf("/o/checkpoint-5/trainer_state.json", taken), "trainer_state.json");
  const directory = await Deno.realPath(await Deno.makeTempDir());
  try {
    for (const step of [500, 1000]) {
      await Deno.mkdir(`${directory}/out/checkpoint-${step}`, { recursive: true });
      await Deno.writeFile(`${directory}/out/checkpoint-${step}/trainer_state.json`, state(log(2)));
    }
    const found = () => findRuns(directory, 4).runs;
    assert.deepEqual(found(), [{
      directory: `${directory}/out`,
      files: [`${directory}/out/checkpoint-1000/trainer_state.json`],
    }]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

/** As torch.save writes it: an archive whose files are not compressed. */
function archive(name: string, content: Uint8Array): Uint8Array {
  const head = new DataView(new ArrayBuffer(30));
  head.setUint32(0, 0x04034b50, true);
  head.setUint16(26, name.length, true);
  head.setUint16(28, 2, true);
  return new Uint8Array([...new Uint8Array(head.buffer), ...bytesOf(name), 0, 0, ...content]);
}

/** A text of latin characters as the bytes of a pickle. */
const pickle = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0));
const word = (text: string) => `X${String.fromCharCode(text.length)}\0\0\0${text}`;
/** An object with fields, one of them an enumeration's member, and a private one. */
const ARGUMENTS = pickle(
  "\x80\x02ctransformers.training_args\nTrainingArguments\nq\x00)\x81}(" +
    `${word("learning_rate")}G\x3f\xe0\0\0\0\0\0\0${word("max_steps")}J\xff\xff\xff\xff` +
    `${word("kind")}cenums\nKind\n${word("linear")}\x85R${word("_private")}K\x01` +
    `${word("layers")}](K\x01K\x02e${word("fp16")}\x89ub.`,
);

Deno.test("training_args.bin: plain values of the pickle are parameters; nothing is run", () => {
  const file = archive("training_args/data.pkl", ARGUMENTS);
  const { records, problems } = assertSameHoweverRead("training_args", file);
  assert.deepEqual(problems, []);
  assert.deepEqual(records.map((one) => one.kind === "params" && one.values), [
    { learning_rate: 0.5, kind: "linear", layers: [1, 2], fp16: false },
  ]);
  // Each checkpoint repeats them.
  const first = openFormat("training_args");
  first.read(file);
  const second = openFormat("training_args");
  second.follow?.([first.state()]);
  assert.deepEqual(second.read(file).records, []);
  // What a pickle calls is not called: it is a value without a plain form.
  assert.deepEqual(
    plainValue(pickle(`cos\nsystem\n${word("touch /tmp/x")}\x85R.`)),
    "touch /tmp/x",
  );
});

Deno.test("training_args.bin: another content is named, with what helps", () => {
  const bad = [
    bytesOf("no archive, but long enough for its header"),
    archive("other.txt", ARGUMENTS),
    archive("a/data.pkl", ARGUMENTS.subarray(0, 60)),
    archive("a/data.pkl", pickle("\x80\x02\xff.")),
    archive("a/data.pkl", pickle("K\x01.")),
  ];
  for (const file of bad) {
    const { records, problems } = readAll("training_args", file);
    assert.deepEqual(records, []);
    assert.match(problems[0]!.detail, /not read \(.*training_args\.json/);
  }
});

Deno.test("training_args.bin: a small pickle that stands for endless values or a long number is refused", () => {
  // Each of ten places of a list is the list before it, seven times over.
  let doubled = "](K\x01eq\0";
  for (let n = 0; n < 7; n++) {
    doubled += `(${`h${String.fromCharCode(n)}`.repeat(10)}tq${String.fromCharCode(n + 1)}`;
  }
  assert.throws(() => plainValue(pickle(`${doubled}.`)), /stands for more than 100000 values/);
  assert.deepEqual(plainValue(pickle("}]K\x01s.")), {}, "a list is not a name");
  const long = new Uint8Array([0x80, 2, 0x8b, 0, 1, 0, 0, ...new Uint8Array(256), 0x2e]);
  assert.throws(() => plainValue(long), /a whole number of 256 bytes/);
});
