import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { runVerb } from "../../cli/verb.ts";
import { configOf as submission } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, records, submit, untilState } from "../../harness/runs.ts";
import { configOf, logOf, message, rowOf, runOf, type WandbRun } from "../../harness/wandb_log.ts";

/** One process' part of a W&B run. */
function part(run: WandbRun, from: number, config: Record<string, unknown>): Uint8Array {
  return logOf([
    runOf(run),
    configOf(config),
    ...[0, 1, 2].map((i) => rowOf(2, { loss: 1 / (from + i + 1) }, from + i)),
    message(18, () => {}),
  ]).file;
}

const PARTS: readonly [directory: string, bytes: Uint8Array][] = [
  [
    "offline-run-20260101_120000-aaaa",
    part({ id: "aaaa", name: "first", group: "seeds", tags: ["ppo", "new"] }, 0, { lr: 1 }),
  ],
  ["offline-run-20260101_120001-bbbb", part({ id: "bbbb", name: "second" }, 0, { lr: 2 })],
  // Both are resumed.
  ["offline-run-20260101_120002-aaaa", part({ id: "aaaa", name: "first" }, 3, { lr: 1 })],
  ["offline-run-20260101_120003-bbbb", part({ id: "bbbb", name: "second" }, 3, { lr: 2 })],
];
const fileOf = (directory: string) => `wandb/${directory}/run-${directory.slice(-4)}.wandb`;

Deno.test("W&B: several runs of a program, and resumed ones, each with its own curve, parameters, tags and group", async () => {
  await using daemon = await TestDaemon.start();
  const cwd = Deno.makeTempDirSync();
  try {
    const script = PARTS.map(([directory, bytes], i) => {
      Deno.writeFileSync(`${cwd}/part${i}`, bytes);
      return `mkdir -p wandb/${directory}; cat part${i} > ${fileOf(directory)}`;
    }).join("\n");
    const worker = { script: "/bin/sh", arguments: ["-c", script], cwd, use_grpc: false };
    const config = { name: "agent", command: ["sh"], metadata: { worker } };
    const run = await submit(daemon, submission(config));
    await untilState(daemon, run, "TERMINATED");
    const { runs } = await daemon.client.unary(Mosaic.method.listRuns, { within: run });
    assert.deepEqual(runs.map(({ name }) => name), ["agent/second"]);
    const expected = [...Array(6).keys()].map((i) => `loss ${i} ${1 / (i + 1)}`);
    const own = async (id: string) =>
      (await records(daemon, id, "metrics")).map((p) => `${p.name} ${p.step} ${p.value}`);
    assert.deepEqual(await own(run), expected);
    assert.deepEqual(await own(runs[0]!.runId), expected);
    const parent = await getRun(daemon, run);
    assert.deepEqual(parent.tags, ["ppo", "new"]);
    const parameters = (of: typeof parent) =>
      of.parameters.map(({ name, valueJson }) => `${name}=${valueJson}`).sort();
    assert.deepEqual(parameters(parent), ["lr=1", 'wandb_group="seeds"']);
    assert.deepEqual(parameters(await getRun(daemon, runs[0]!.runId)), ["lr=2"]);

    const { out } = await runVerb(daemon, ["import", "-o", "json", `${cwd}/wandb`]);
    const imported = JSON.parse(out) as { name: string; points: number; run_id: string }[];
    assert.deepEqual(imported.map(({ name, points }) => [name, points]), [["first", 6], [
      "second",
      6,
    ]]);
    await untilState(daemon, imported[0]!.run_id, "TERMINATED");
    assert.deepEqual(await own(imported[0]!.run_id), expected);
    assert.deepEqual(parameters(await getRun(daemon, imported[0]!.run_id)), parameters(parent));
  } finally {
    Deno.removeSync(cwd, { recursive: true });
  }
});
