/**
 * A record that cannot be read costs itself: the run ends, its other records are stored, and the
 * loss is counted and shown.
 */
import assert from "node:assert/strict";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { scalarFrame, versionFrame } from "../../src/cli/export/event_file.ts";
import { joinedBytes } from "../../src/base/text/joined_bytes.ts";
import { frame } from "../../src/readers/tensorboard/tfrecord.ts";
import { configOf } from "../harness/configs.ts";
import type { TestDaemon } from "../harness/daemon.ts";
import { records, submit, untilState } from "../harness/runs.ts";
import { testWithDaemon } from "../harness/shared_daemon.ts";

const NESTED = { arrays: ["[", "]"], objects: ['{"a":', "}"] } as const;

/**
 * One line each: `"FIELD": [[[…]]]`, in each field that a record has, so deep that walking it
 * overflows the stack.
 */
function deepLines(): string[] {
  const lines: string[] = [];
  for (const [open, close] of Object.values(NESTED)) {
    for (const levels of [300, 6000, 20_000]) {
      const value = `${open.repeat(levels)}0${close.repeat(levels)}`;
      for (const field of ["reward", "observation", "info", "metadata", "unknown", "terminated"]) {
        lines.push(`{"type":"step","step_index":1,"${field}":${value}}`);
      }
      lines.push(
        `{"type":"episode","total_reward":${value}}`,
        `{"type":"parameters","payload":{"a":${value}}}`,
      );
      lines.push(
        `{"type":"metrics","payload":{"loss":${value}}}`,
        `{"type":"checkpoint_saved","payload":${value}}`,
      );
    }
  }
  return lines;
}

const { LengthDelimited, Varint } = WireType;

function textSummary(tag: string, text: string): Uint8Array {
  const event = new BinaryWriter().tag(2, Varint).int64(7).tag(5, LengthDelimited).fork();
  event.tag(1, LengthDelimited).fork().tag(1, LengthDelimited).string(tag);
  event.tag(8, LengthDelimited).fork().tag(1, Varint).int32(7).tag(8, LengthDelimited).string(text)
    .join();
  return frame(event.join().join().finish());
}

async function ran(daemon: TestDaemon, files: Record<string, Uint8Array>, script: string) {
  const cwd = Deno.makeTempDirSync();
  try {
    Deno.mkdirSync(`${cwd}/from`);
    for (const [name, bytes] of Object.entries(files)) {
      Deno.writeFileSync(`${cwd}/from/${name}.part`, bytes);
    }
    const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
    const run = await submit(daemon, configOf({ command: ["sh"], metadata: { worker } }));
    return { run, shown: await untilState(daemon, run, "TERMINATED") };
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
}

testWithDaemon("security: poison", {}, [
  [
    "lines that nest some thousand levels: each is counted, those between are stored, the run ends",
    async (daemon) => {
      const lines = deepLines();
      const step = (i: number) => `{"type":"step","step_index":${i},"reward":1}`;
      const text = lines.map((line, i) => `${line}\n${step(i)}\n`).join("");
      const { run, shown } = await ran(
        daemon,
        { lines: new TextEncoder().encode(text) },
        "cat from/lines.part",
      );
      assert.equal(Number(shown.telemetry?.malformedLines), lines.length);
      const steps = await records(daemon, run, "steps");
      assert.deepEqual(steps.map((row) => row.step_index), lines.map((_, i) => i));
    },
  ],
  [
    "an event file of blanks and a deep JSON line: the file's other points are stored, the run ends",
    async (daemon) => {
      const at = (step: number) =>
        scalarFrame({ tag: "loss", value: step, step, wallTime: 1.7e9 + step });
      const blanks = " ".repeat(30_000);
      const events = joinedBytes([
        ...[versionFrame(1.7e9), at(1), textSummary("config/text_summary", `${blanks}x`)],
        ...[textSummary("hparams", `|param|value|\n|-|-|\n|${blanks}|${blanks}x`), at(2)],
      ]);
      const deep = `{"step":1,"config":{"a":${"[".repeat(20_000)}${
        "]".repeat(20_000)
      }}}\n{"step":2,"acc":0.5}\n`;
      const { run } = await ran(
        daemon,
        {
          "events.out.tfevents.1700000000.host": events,
          "metrics.jsonl": new TextEncoder().encode(deep),
        },
        "for f in from/*; do n=${f#from/}; cp $f ${n%.part}; done; sleep 1",
      );
      const points = (await records(daemon, run, "metrics")).map(({ name, value }) =>
        `${name} ${value}`
      );
      assert.deepEqual(
        ["loss 1", "loss 2", "acc 0.5"].filter((point) => !points.includes(point)),
        [],
      );
      const kinds = await records(daemon, run, "events");
      const problems = kinds.filter(({ event }) => event === "source_problem").map(({ payload }) =>
        payload
      );
      assert.equal(problems.length, 1, JSON.stringify(problems));
    },
  ],
]);
