import assert from "node:assert/strict";
import { scalarFrame, versionFrame } from "../../../src/cli/export/event_file.ts";
import { FILE_KINDS, formatOfName, openFormat } from "../../../src/readers/formats.ts";
import { TEXT_DIALECTS } from "../../../src/readers/text/text_dialects.ts";
import type { FormatName } from "../../../src/readers/format/format_reader.ts";
import { FIXTURES, readAll, restored } from "./harness.ts";

Deno.test("formats: a file's format by its name", () => {
  const cases: readonly [path: string, format: FormatName | undefined][] = [
    ["runs/CartPole-v1__ppo__1__17/events.out.tfevents.1795373685.host.3380.0", "tfevents"],
    ["wandb/offline-run-2026/run-abc.wandb", "wandb"],
    ["wandb/offline-run-2026/run-abc.wandb.syncstate", undefined],
    ["logs/0.monitor.csv", "csv"],
    ["lightning_logs/version_0/metrics.csv", "csv"],
    ["logs/progress.json", "jsonl"],
    ["logs/progress_eval.json", "jsonl"],
    ["ray/result.json", "jsonl"],
    ["metrics.jsonl", "jsonl"],
    ["params.json", "parameters"],
    ["logs/scalars/loss.csv", "scalar_rows"],
    ["version_0/hparams.yaml", "parameters"],
    ["out/checkpoint-500/trainer_state.json", "trainer_state"],
    ["/w/.hydra/config.yaml", "parameters"],
    ["/w/files/config.yaml", undefined],
    ["experiment/args.json", "parameters"],
    ["data/my_args.json", undefined],
    ["result.json/model.pt", undefined],
    ["notes.txt", undefined],
  ];
  for (const [path, format] of cases) assert.equal(formatOfName(path), format, path);
});

/** Numbers that look random and are the same in each run. */
function numbersFrom(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 2 ** 32) * below);
  };
}

const gunzip = async (name: string) => {
  const file = (await Deno.open(FIXTURES + name)).readable.pipeThrough(
    new DecompressionStream("gzip"),
  );
  return new Uint8Array(await new Response(file).arrayBuffer());
};

const events = () =>
  new Uint8Array([
    ...versionFrame(1),
    ...Array.from(
      { length: 60 },
      (_, i) => [...scalarFrame({ tag: `a/${i % 3}`, value: i, step: i, wallTime: i })],
    )
      .flat(),
  ]);

const FILES: { readonly [format in FormatName]: () => Uint8Array | Promise<Uint8Array> } = {
  tfevents: events,
  csv: () => Deno.readFileSync(`${FIXTURES}sb3.progress.csv`),
  jsonl: () => Deno.readFileSync(`${FIXTURES}tune.result.json`),
  wandb: () => gunzip("offline.wandb.gz"),
};

for (
  const [format, make] of Object.entries(FILES) as [
    FormatName,
    () => Uint8Array | Promise<Uint8Array>,
  ][]
) {
  Deno.test(`${format}: broken bytes cost what they touch, and never the reader`, async () => {
    const file = await make();
    const whole = readAll(format, file).records.length;
    const next = numbersFrom(5);
    let kept = 0;
    for (let round = 0; round < 200; round++) {
      const broken = file.slice();
      const at = next(file.length);
      const length = 1 + next(40);
      for (let i = at; i < Math.min(at + length, file.length); i++) broken[i] = next(256);
      const { records, problems } = readAll(format, broken);
      kept += records.length / whole;
      for (const problem of problems) {
        assert.ok(
          problem.at >= 0 && problem.at <= file.length && problem.bytes >= 0,
          JSON.stringify(problem),
        );
      }
    }
    // A header that is broken, or a block of a log, costs more than a record.
    assert.ok(kept / 200 > 0.7, `${kept / 200} of the records are kept`);
  });

  Deno.test(`${format}: a state is small, plain JSON, and does not change by being stored`, async () => {
    const file = await make();
    const reader = openFormat(format);
    reader.read(file, { maxRecords: 20 });
    const text = JSON.stringify(reader.state());
    assert.ok(text.length < 2000, `${text.length} bytes`);
    assert.equal(JSON.stringify(restored(reader).state()), text);
    // Further reads do not change a state that was given out.
    const state = reader.state();
    reader.read(file.subarray(reader.offset));
    assert.equal(JSON.stringify(state), text);
  });
}

Deno.test("docs/reference/formats.md: names every dialect of text lines by its switch, and every format", async () => {
  const page = await Deno.readTextFile(
    new URL("../../../docs/reference/formats.md", import.meta.url),
  );
  for (const dialect of TEXT_DIALECTS) {
    assert.match(page, new RegExp(`^\\| \`${dialect}\` \\|`, "m"));
  }
  for (const { title } of FILE_KINDS) {
    for (const name of title.split(", ")) assert.ok(page.includes(name), name);
  }
});
