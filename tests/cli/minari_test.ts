/**
 * `mosaic export --format minari`: what becomes of steps that are not as mosaic.RecordSteps writes
 * them.
 */
import { strict as assert } from "node:assert";
import { parquetMetadataAsync, parquetReadObjects } from "npm:hyparquet@1.31.5";
import {
  checkDatasetId,
  datasetIdOf,
  type MinariOptions,
  writeMinari,
} from "../../src/cli/export/minari.ts";
import { NotInSpace, SeenSpace } from "../../src/cli/export/minari_space.ts";
import type { TelemetryRecord } from "../../src/cli/text/records.ts";

const OPTIONS: MinariOptions = { dropFirstStep: false, episodes: [0, Infinity] };

/** Steps of an episode whose observation is the number of steps taken, plus a half. */
function episode(
  index: number,
  steps: number,
  more: (step: number) => Record<string, unknown> = () => ({}),
) {
  return Array.from({ length: steps }, (_, step) => ({
    ...{
      attempt: 1,
      episode_index: index,
      step_index: step,
      action: step % 2,
      observation: [step + 1.5],
      reward: 1,
    },
    ...{ terminated: step === steps - 1, truncated: false },
    ...(step === 0 ? { info: { reset: { observation: [0.5], seed: index } } } : {}),
    ...more(step),
  }));
}

async function written(
  steps: Record<string, unknown>[],
  options: Partial<MinariOptions> = {},
  gaps: [number, number][] = [],
) {
  const dir = Deno.makeTempDirSync();
  try {
    const run = {
      ...{ runId: "01J", name: "seen", environment: {}, gaps },
      steps: async function* () {
        for (const [i, step] of steps.entries()) yield { seq: i + 1, ...step } as TelemetryRecord;
      },
    };
    const summary = await writeMinari(dir, "aa/b-v0", [run], { ...OPTIONS, ...options });
    const json = (path: string) => JSON.parse(Deno.readTextFileSync(`${dir}/aa/b-v0/data/${path}`));
    const episodes = [];
    for (let i = 0; i < summary.episodes; i++) {
      const file = Deno.readFileSync(`${dir}/aa/b-v0/data/${i}/part-0.parquet`).buffer;
      assert.equal(
        (await parquetMetadataAsync(file)).row_groups.length,
        1,
        "Minari takes each batch for an episode",
      );
      episodes.push({ ...json(`${i}/metadata.json`), rows: await parquetReadObjects({ file }) });
    }
    return { summary, metadata: json("metadata.json"), episodes };
  } catch (error) {
    assert.deepEqual(
      [...Deno.readDirSync(dir)].flatMap((
        { name },
      ) => [...Deno.readDirSync(`${dir}/${name}/b-v0`)]),
      [],
      "nothing half is left",
    );
    throw error;
  } finally {
    Deno.removeSync(dir, { recursive: true });
  }
}

Deno.test("minari: spaces that nobody recorded are taken from the values", async () => {
  const { summary, metadata, episodes } = await written(episode(0, 3));
  assert.equal(
    metadata.observation_space,
    '{"type": "Box", "dtype": "float64", "shape": [1], "low": [-Infinity], "high": [Infinity]}',
  );
  assert.equal(metadata.action_space, '{"type":"Discrete","dtype":"int64","start":0,"n":2}');
  assert.match(summary.notes.join("\n"), /observation space is taken.*\n.*action space is taken/);
  assert.deepEqual(episodes[0].rows.map((row: { observations: number[] }) => row.observations), [
    [0.5],
    [1.5],
    [2.5],
    [
      3.5,
    ],
  ]);
  assert.deepEqual([episodes[0].seed, episodes[0].rewards_sum, episodes[0].total_steps], [0, 3, 3]);
});

Deno.test("minari: an episode longer than one batch of Arrow goes on in the next, from its last observation", async () => {
  const { episodes } = await written(episode(0, 131_072));
  assert.deepEqual(episodes.map(({ rows }) => rows.length), [131_072, 2]);
  assert.deepEqual(episodes[0].rows[131_070].truncations, true);
  assert.deepEqual(episodes[1].rows.map((row: { observations: number[] }) => row.observations), [[
    131071.5,
  ], [
    131072.5,
  ]]);
});

Deno.test("minari: episodes that lack steps or their beginning are left out, and named", async () => {
  const holed = episode(1, 9).filter(({ step_index }) => step_index < 3 || step_index > 5);
  const headless = episode(2, 4).slice(1);
  // Another environment's steps lie among them.
  const other = episode(1, 9, () => ({ agent_id: "b" }));
  const { summary, episodes } = await written([
    ...episode(0, 2),
    ...holed.flatMap((step, i) => [step, other[i]!]),
    ...other.slice(holed.length),
    ...headless,
    ...episode(3, 2, () => ({ terminated: false })),
    ...episode(4, 2),
  ], { episodes: [0, 3] });
  assert.deepEqual(episodes.map((it) => [it.episode_index, it.total_steps]), [[0, 2], [1, 9], [
    3,
    2,
  ]]);
  assert.equal(episodes[2].rows[1].truncations, true, "an episode that nobody ended is cut");
  assert.deepEqual(summary.notes.slice(2), [
    "1 episode is left out: its first observation is not recorded",
    "1 episode is left out: some of its steps are missing",
  ]);
});

Deno.test("minari: an episode whose beginning or end is among damaged steps is no shorter one", async () => {
  const bare = (index: number) => episode(index, 5).map(({ info: _, ...step }) => step);
  // 0 ends there, 1 is there, 2 begins there; 5 ends among the last.
  const steps = [0, 1, 2, 3, 4, 5].flatMap(bare).map((step, i) => ({ seq: i + 1, ...step }));
  const gaps: [number, number][] = [[4, 12], [29, 30]];
  const read = steps.filter(({ seq }) =>
    !gaps.some(([first, last]) => seq >= first && seq <= last)
  );
  const { summary, episodes } = await written(read, { dropFirstStep: true }, gaps);
  assert.deepEqual(episodes.map((it) => [it.episode_index, it.total_steps]), [[3, 4], [4, 4]]);
  assert.match(
    summary.notes.join("\n"),
    /3 episodes are left out: some of their steps are missing/,
  );
});

Deno.test("minari: what is missing is named, and how to record it", async () => {
  const bare = episode(0, 3).map(({ info: _, ...step }) => step);
  const refused: [Record<string, unknown>[], Partial<MinariOptions>, RegExp, RegExp][] = [
    [
      episode(0, 3, () => ({ observation: null })),
      {},
      /step 1 of the run has no observation/,
      /mosaic.RecordSteps/,
    ],
    [
      episode(0, 3, (n) => n === 1 ? { action: null } : {}),
      {},
      /step 2 of the run has no action/,
      /RecordSteps/,
    ],
    [bare, {}, /no episode has its first observation/, /--drop-first-step/],
    [[], {}, /no episode of these runs has steps/, /RecordSteps/],
    [
      episode(0, 3, () => ({ observation: "up" })),
      {},
      /observation of step 1 does not tell it: "up"/,
      /--observation-space/,
    ],
    [episode(0, 3), { actionSpace: '{"type":"Sequence"}' }, /its type is "Sequence"/, /such as/],
    [
      episode(0, 3),
      {
        observationSpace:
          '{"type":"Box","dtype":"float32","shape":[2],"low":-Infinity,"high":Infinity}',
      },
      /observation of step 1 is not in its space: \[1.5\] does not have the shape \(2\)/,
      /--observation-space/,
    ],
    [
      episode(0, 3),
      { observationSpace: '{"type":"Box","dtype":"uint8","shape":[84,84],"low":0,"high":255}' },
      /the observation space is of images/,
      /JPEG/,
    ],
  ];
  for (const [steps, options, message, hint] of refused) {
    await assert.rejects(written(steps, options), (error: Error & { hint?: string }) => {
      assert.match(error.message, message);
      assert.match(error.hint ?? "", hint);
      return true;
    });
  }
  const { episodes } = await written(bare, { dropFirstStep: true });
  assert.deepEqual(episodes[0].rows.map((row: { observations: number[] }) => row.observations), [
    [1.5],
    [2.5],
    [3.5],
  ]);
});

Deno.test("minari: ids, and values that have no space in common", () => {
  for (const id of ["aa/b-v0", "D4RL/door/human-v12", "b-v1"]) assert.equal(checkDatasetId(id), id);
  for (const id of ["b", "../b-v0", "/b-v0", "a b-v0", "a/b-v0", "aa/b-v"]) {
    assert.throws(() => checkDatasetId(id), /no id of/);
  }
  assert.equal(datasetIdOf("PPO: seed 3"), "mosaic/PPO-seed-3-v0");
  assert.equal(datasetIdOf("…"), "mosaic/run-v0");
  const seen = new SeenSpace();
  seen.add([1, 2]);
  assert.throws(() => seen.add([1, 2, 3]), NotInSpace);
  assert.throws(() => new SeenSpace().add([[1], [1, 2]]), NotInSpace);
});
