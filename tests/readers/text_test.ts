/**
 * What programs print for people, through the journal's chunks and through real proxies that are
 * killed.
 */
import assert from "node:assert/strict";
import { logStart } from "../../src/journal/journal_header.ts";
import { type BatchReading, buildBatch } from "../../src/proxy/delivery/batches.ts";
import { Journal } from "../../src/journal/journal.ts";
import { JournalFile } from "../../src/journal/journal_file.ts";
import type { EpisodeRecord, WorkerEventRecord } from "../../src/gen/records/record_types.ts";
import { TEXT_DIALECTS } from "../../src/readers/text/text_dialects.ts";
import { until } from "../harness/wait.ts";
import { inScene, type Scene } from "../proxy/scene.ts";

const FIXTURES = new URL("./formats/fixtures/", import.meta.url).pathname;
const READING: BatchReading = { context: { agentId: "agent", workerId: "" } };
/** CleanRL's PPO, as it prints them. */
const CLEANRL = [
  "global_step=29, episodic_return=[29.]",
  "SPS: 308",
  "global_step=41, episodic_return=[12.]",
];
const MIXED = [
  "Using cpu device",
  ...CLEANRL,
  '{"step": 10, "loss": 0.5, "reward": 2}',
  "{'loss': nan, 'epoch': 1.0}",
  "{'episode': {'r': 7.0, 'l': 9, 't': 0.5}, 'step': 50}",
  '{"type":"step","reward":1}',
  "----------------------------------------------",
  '{"type":"step","reward":1}',
  "",
];

interface Read {
  records: {
    episodes: EpisodeRecord[];
    events: WorkerEventRecord[];
    otherLines: number;
    steps: number;
  };
}

/** The file grows by `grow` bytes between two reads. */
function readInParts(text: string, grow: number, reading = READING): Read {
  const path = Deno.makeTempFileSync();
  const journal = new Journal(new JournalFile(path), {
    lines: 2048,
    bytes: 1 << 16,
    lineBytes: 1 << 20,
  });
  const read: Read = { records: { episodes: [], events: [], otherLines: 0, steps: 0 } };
  try {
    using file = Deno.openSync(path, { write: true });
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at <= bytes.length; at += grow) {
      file.writeSync(bytes.subarray(at, at + grow));
      const final = at + grow > bytes.length;
      for (let chunk; (chunk = journal.next(final)) !== undefined;) {
        const { message, to, steps } = buildBatch(
          chunk,
          reading,
          final ? { final } : { final, written: journal.size() },
        );
        journal.giveBack(to);
        if (to === chunk.from) break;
        const json = (bytes: Uint8Array | undefined) =>
          bytes === undefined || bytes.length === 0
            ? []
            : JSON.parse(new TextDecoder().decode(bytes));
        read.records.episodes.push(...json(message.episodesJson));
        read.records.events.push(...json(message.eventsJson));
        read.records.otherLines += Number(message.otherLines);
        read.records.steps += steps;
      }
    }
    assert.equal(journal.position, bytes.length);
    return read;
  } finally {
    journal.close();
    Deno.removeSync(path);
  }
}

Deno.test("printed text: what each line is stored as", () => {
  const { records } = readInParts(MIXED.join("\n"), 1 << 20);
  assert.deepEqual(records.events.map(({ kind, dataJson }) => [kind, dataJson]), [
    ["metrics", '{"global_step":10,"loss":0.5,"printed/reward":2}'],
    ["metrics", '{"loss":"NaN","epoch":1}'],
  ]);
  assert.deepEqual(
    records.episodes.map(({ totalReward, steps, metadataJson, agentId }) => [
      ...[totalReward, steps, metadataJson, agentId],
    ]),
    [
      [29, 0, '{"global_step":29,"episodic_return":29}', "agent"],
      [12, 0, '{"global_step":41,"episodic_return":12}', "agent"],
      [7, 9, '{"global_step":50}', "agent"],
    ],
  );
  assert.deepEqual([records.otherLines, records.steps], [3, 2]);
});

Deno.test("printed text: a reward beside the number of an episode is the episode's, at that step", () => {
  const lines = [
    "episode=3 reward=1.5",
    "step=4 episode=3 reward=1",
    "episode=5 reward=1 episode_reward=2",
    "a=1 reward=2",
  ];
  const { records } = readInParts(`${lines.join("\n")}\n`, 1 << 20);
  assert.deepEqual(records.events.map(({ dataJson }) => dataJson), [
    '{"global_step":3,"printed/episode_reward":1.5}',
    '{"global_step":4,"episode":3,"printed/reward":1}',
    '{"global_step":5,"printed/reward":1,"printed/episode_reward":2}',
    '{"a":1,"printed/reward":2}',
  ]);
});

Deno.test("printed text: more numbers than one record may give are several records", () => {
  const pairs = Array.from({ length: 150 }, (_, i) => `s${i}=${i}`);
  const { records } = readInParts(`step=3 ${pairs.join(" ")}\n`, 1 << 20);
  const read = records.events.map(({ dataJson }) => JSON.parse(dataJson));
  assert.deepEqual(read.map((one) => Object.keys(one).length), [65, 65, 23]);
  assert(read.every((one) => one.global_step === 3));
});

Deno.test("printed text: behind carriage returns stand records of every kind", () => {
  const lines = [
    "\r 10%|#  | 1/10\r{'loss': 0.1, 'epoch': 1.0}",
    '\r 20%|## | 2/10 [00:01<00:09]{"type":"step","reward":1}',
    "\r 30%|## | 3/10 [00:01<00:09, 2it/s, loss=0.5]\r 40%|## | 4/10 [00:01<00:09, 2it/s, loss=0.4]",
    "step=4 loss=0.25\r",
  ];
  const { records } = readInParts(lines.join("\n"), 1 << 20);
  assert.deepEqual(records.events.map(({ dataJson }) => dataJson), [
    '{"loss":0.1,"epoch":1}',
    '{"global_step":3,"loss":0.5}',
    '{"global_step":4,"loss":0.4}',
    '{"global_step":4,"loss":0.25}',
  ]);
  assert.deepEqual([records.steps, records.otherLines], [1, 0]);
});

Deno.test("printed text: lines that seem to have results and are not read are counted, with the first of them", () => {
  const lines = ["step=x loss=1", "step=y loss=1", "loss 5 was the best so far", "Using cpu"];
  const { records } = readInParts(lines.join("\n"), 1 << 20);
  const said = records.events.map(({ kind, dataJson }) => [kind, JSON.parse(dataJson)]);
  assert.deepEqual(said.map(([kind, { source, count, line }]) => [kind, source, count, line]), [
    ["not_read", "stdout", 2, "step=x loss=1"],
    ["not_read", "stdout", 1, "loss 5 was the best so far"],
  ]);
});

Deno.test("printed text: wherever the text is cut, the records are the same", () => {
  const text = Deno.readTextFileSync(`${FIXTURES}sb3.stdout.txt`) + MIXED.join("\n");
  const whole = readInParts(text, 1 << 20);
  assert.equal(
    whole.records.events.filter(({ dataJson }) => dataJson.includes("time/fps")).length,
    4,
  );
  for (const grow of [1, 7, 40, 333, 1000]) {
    assert.deepEqual(readInParts(text, grow).records, whole.records, `${grow}`);
  }
});

Deno.test("printed text: reading goes on behind what looks like a table, whatever follows", () => {
  const rule = "-".repeat(20);
  const long = JSON.stringify({ type: "step", observation: "x".repeat(1 << 17) });
  const rows = `${rule}\n${`| ${"k".repeat(120)} | ${"1".repeat(120)} |\n`.repeat(400)}${rule}\n`;
  for (const text of [`${rule}\n${long}\n`, rows, `${rule}\n`.repeat(5000), rule]) {
    readInParts(text, 10_000);
  }
});

Deno.test("printed text: a config may leave out dialects", () => {
  const text = Deno.readTextFileSync(`${FIXTURES}sb3.stdout.txt`) + MIXED.join("\n");
  const none = readInParts(text, 50, { ...READING, textOff: TEXT_DIALECTS }).records;
  assert.deepEqual([none.events, none.episodes], [[], []]);
  const lines = text.split("\n").filter((line) => line.trim() !== "").length;
  assert.equal(none.otherLines, lines - 2);
  const noTables = readInParts(text, 50, { ...READING, textOff: ["table"] }).records;
  assert.deepEqual([noTables.events.length, noTables.episodes.length], [2, 3]);
});

/** Shell that prints a file's lines, with a wait for the file `go` after line `at`. */
function printFile(path: string, at: number): string {
  return `head -n ${at} ${path}; while [ ! -e go ]; do sleep 0.05; done; tail -n +${
    at + 1
  } ${path}`;
}

const metricsOf = (daemon: Scene["daemon"]) =>
  daemon.events.filter(({ kind }) => kind === "metrics");

function counts({ daemon }: Scene): [events: number, episodes: number] {
  return [metricsOf(daemon).length, daemon.episodes.length];
}

Deno.test("printed text: a proxy killed within a table, and another one goes on: each record once", () =>
  inScene(async (scene) => {
    const text = Deno.readTextFileSync(`${FIXTURES}sb3.stdout.txt`);
    Deno.writeTextFileSync(`${scene.directory}/out.txt`, `${CLEANRL.join("\n")}\n${text}`);
    const lines = text.split("\n");
    const within = CLEANRL.length + lines.findLastIndex((line) => line.startsWith("| time/"), -1);
    assert(within > CLEANRL.length);
    const first = scene.shell(printFile(`${scene.directory}/out.txt`, within));
    await until(() => counts(scene).join() === "3,2", { what: "three tables" });
    await until(() => scene.journal().split("\n").length > within, {
      what: "half of the fourth table",
    });
    await first.kill();
    Deno.writeTextFileSync(`${scene.directory}/go`, "");
    const second = scene.proxy([], { args: ["--attach"] });
    assert.equal(await second.code(), 0);
    assert.deepEqual(counts(scene), [4, 2]);
    assert.deepEqual(
      metricsOf(scene.daemon).map(({ dataJson }) => JSON.parse(dataJson).global_step),
      [
        256,
        512,
        768,
        1024,
      ],
    );
    using file = Deno.openSync(scene.files.stdout(1));
    assert.equal(Number(scene.daemon.exit?.finalPosition), file.statSync().size - logStart(file));
  }));

Deno.test("printed text: a table that the worker does not finish is delivered as output when it ends", () =>
  inScene(async (scene) => {
    const proxy = scene.shell(
      `echo 'step=1 loss=2'; echo --------------; echo '| a | 1 |'; exit 3`,
      {
        start: { textOff: ["json"] },
      },
    );
    assert.equal(await proxy.code(), 3);
    assert.deepEqual(counts(scene), [1, 0]);
  }));
