import assert from "node:assert/strict";
import {
  EMPTY_EPISODE,
  type StoredEpisode,
  type StoredStep,
} from "../../src/gen/records/record_types.ts";
import {
  create,
  type DescMessage,
  type MessageInitShape,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { RunEpisodeSchema, RunStepSchema } from "../../src/gen/gymgui/trainer_pb.ts";
import { TelemetryBatchSchema } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { messagesOf } from "../../src/wire/message_frames.ts";
import { RUN_EPISODES, RUN_STEPS, telemetryBatch } from "../../src/rpc/records/record_forms.ts";
import { jsonLines } from "../../src/records/public_json.ts";
import { RECORDS } from "../../src/records/record_fields.ts";
import { type Timestamp, TimestampSchema } from "@bufbuild/protobuf/wkt";
import { A_STEP } from "../harness/played_engine.ts";

const RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const TEXTS = [
  "",
  "x",
  "é",
  "😀",
  "a".repeat(48),
  "b".repeat(49),
  "ü".repeat(50),
  "c".repeat(127),
  "ö".repeat(64),
];
const LONG = [
  "d".repeat(128),
  "é".repeat(127),
  "e".repeat(16_383),
  "€".repeat(8000),
  "f".repeat(300_000),
  "\ud800",
];
const NUMBERS = [
  0,
  1,
  127,
  128,
  16_384,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32,
  2 ** 40 + 5,
  Number.MAX_SAFE_INTEGER,
];
const REWARDS = [0, 1, -0.5, NaN, Infinity, -Infinity, 1e-308];
const TIMES = [
  "0",
  "1",
  "999999999",
  "1000000000",
  "1700000000123456789",
  "1700000000000000000",
  "9223372036854775807",
];

/** @param ns Unix nanoseconds, not negative, as decimal text */
function timestampOfNs(ns: string): Timestamp {
  return create(TimestampSchema, {
    seconds: BigInt(ns) / 1_000_000_000n,
    nanos: Number(BigInt(ns) % 1_000_000_000n),
  });
}

/** A row as the library encodes it: each value under the number that the table gives its field. */
function encoded<S extends DescMessage>(
  schema: S,
  kind: "steps" | "episodes",
  row: StoredStep | StoredEpisode,
) {
  const { fields, message } = RECORDS[kind];
  const values: Record<string, unknown> = {};
  const set = (number: number, name: string, value: unknown) => {
    const field = schema.fields.find((one) => one.number === number);
    assert.equal(field?.name, name, `${schema.typeName}, field ${number}`);
    values[field!.localName] = field!.scalar === ScalarType.UINT64
      ? BigInt(value as number)
      : value;
  };
  set(1, "run_id", RUN);
  set(message!.seq, "seq_id", row.seq);
  for (const { key, kind: type, json, proto } of fields) {
    const value = (row as unknown as Record<string, unknown>)[key];
    if (proto === undefined) continue;
    set(
      proto,
      type === "json" ? `${json}_json` : json,
      type === "time" ? timestampOfNs(String(value)) : value,
    );
  }
  return toBinary(schema, create(schema, values as MessageInitShape<S>));
}

Deno.test("frames: the table of fields names every field of the original's messages", () => {
  for (
    const [kind, schema] of [["steps", RunStepSchema], ["episodes", RunEpisodeSchema]] as const
  ) {
    const { fields, message } = RECORDS[kind];
    const numbers = [1, message!.seq, ...fields.flatMap(({ proto }) => proto ?? [])];
    assert.deepEqual(
      numbers.sort((a, b) => a - b),
      schema.fields.map(({ number }) => number).sort((a, b) => a - b),
    );
  }
});

/** Every value of every field at least once, in odd company. */
function steps(): StoredStep[] {
  const texts = [...TEXTS, ...LONG];
  const of = <T>(values: readonly T[], i: number): T => values[i % values.length]!;
  return Array.from({ length: 150 }, (_, i) => ({
    ...A_STEP,
    seq: of(NUMBERS, i + 1),
    attempt: 1,
    episode: of(NUMBERS, i),
    step: of(NUMBERS, i * 3),
    reward: of(REWARDS, i),
    terminated: i % 2 === 0,
    truncated: i % 3 === 0,
    tsNs: of(TIMES, i),
    agentId: of(TEXTS, i),
    workerId: of(TEXTS, i * 5 + 1),
    policyLabel: of(TEXTS, i * 7 + 2),
    backend: of(TEXTS, i + 3),
    actionJson: of(TEXTS, i * 2),
    observationJson: of(texts, i),
    renderHintJson: of(TEXTS, i + 4),
    renderPayloadJson: of(texts, i * 4 + 7),
    frameRef: of(TEXTS, i + 6),
    payloadVersion: of([0, 1, 300], i),
    episodeSeed: of(NUMBERS, i + 2),
  }));
}

Deno.test("frames: a step is encoded as the library encodes it, byte for byte", () => {
  const rows = steps();
  const messages = [...messagesOf(RUN_STEPS.encode(RUN, rows))];
  assert.equal(messages.length, rows.length);
  for (const [i, row] of rows.entries()) {
    assert.deepEqual(messages[i], encoded(RunStepSchema, "steps", row), `step ${i}`);
  }
});

Deno.test("frames: episodes and batches of JSON are those of the library", () => {
  const episode = {
    ...EMPTY_EPISODE,
    ...{
      seq: 3,
      attempt: 1,
      episode: 2,
      totalReward: 1.5,
      steps: 9,
      terminated: true,
      truncated: false,
    },
    ...{ metadataJson: '{"é":1}', tsNs: "1700000000123456789", agentId: "a", workerId: "" },
  };
  assert.deepEqual(
    [...messagesOf(RUN_EPISODES.encode(RUN, [episode, episode]))],
    Array(2).fill(encoded(RunEpisodeSchema, "episodes", episode)),
  );
  const rows = steps().slice(0, 20).map((row, i) => ({ ...row, seq: i + 5 }));
  const jsonl = new TextEncoder().encode(jsonLines(RUN, "steps", rows));
  assert.deepEqual(
    [...messagesOf(telemetryBatch("steps").encode(RUN, rows))],
    [toBinary(
      TelemetryBatchSchema,
      create(TelemetryBatchSchema, { jsonl, firstSeq: 5n, lastSeq: 24n }),
    )],
  );
});
