import { strict as assert } from "node:assert";
import { runCli } from "../../src/cli/cli.ts";
import { workedMs } from "../../src/runs/fields/run_texts.ts";
import { configDifferences, optionsApart } from "../../src/config/differences.ts";
import { runDetailJsonOf } from "../../src/runs/fields/run_json.ts";
import type { DaemonApi } from "../../src/wire/client/daemon_api.ts";
import { MosaicError } from "../../src/base/errors.ts";
import type { RunState } from "../../src/registry/lifecycle/lifecycle.ts";
import { type Answers, fakeApi, fakeRun, fakeWorld, ID_A, ID_B, NOW } from "./fakes.ts";

Deno.test("compare: configs differ only where it means something", () => {
  const config = (id: string, lr: number, extra: Record<string, unknown> = {}) => ({
    run_id: id,
    config: {
      run_name: "a",
      environment: { OUT: `/runs/${id}/out` },
      arguments: ["--lr", String(lr)],
      metadata: {
        submission: { nonce: id },
        artifacts: { path: id },
        worker: { config: { lr, run_id: id, ...extra } },
      },
    },
  });
  assert.deepEqual(configDifferences([config(ID_A, 1), config(ID_B, 2, { seed: null })]), [
    { name: "arguments", values: ['["--lr","1"]', '["--lr","2"]'] },
    { name: "metadata.worker.config.lr", values: ["1", "2"] },
    { name: "metadata.worker.config.seed", values: ["", "null"] },
  ]);
  assert.deepEqual(configDifferences([config(ID_A, 1), config(ID_B, 1)]), []);
});

Deno.test("compare: the mean rate is over the time of all attempts, without the waits between them", () => {
  const states: [RunState, number][] = [["INIT", 0], ["HANDSHAKE", 10], ["EXECUTING", 11], [
    "FAULTED",
    40,
  ]];
  const retried: [RunState, number][] = [...states, ["INIT", 50], ["HANDSHAKE", 80], [
    "EXECUTING",
    81,
  ], ["PAUSED", 90]];
  const run = (list: [RunState, number][]) => ({
    ...runDetailJsonOf(fakeRun()),
    transitions: list.map(([to, s], seq) => ({
      ...{ seq, from: null, to, event: "", reason: null, attempt: 1 },
      at: new Date(NOW + s * 1000).toISOString(),
    })),
  });
  assert.equal(workedMs(run(states), NOW + 1e9), 30_000);
  assert.equal(workedMs(run(retried), NOW + 100_000), 50_000);
  assert.equal(workedMs(run([["INIT", 0]]), NOW + 100_000), 0);
});

const DAEMON: Answers = {
  GetRun: ({ run }) =>
    run === "a"
      ? fakeRun({ configJson: `{"run_name":"a"}` })
      : fakeRun({ runId: ID_B, name: "cart-2", configJson: `{"run_name":"b"}` }),
  ListSeries: ({ run }) => ({
    series: [
      { name: "episode_reward", points: 2n, last: 5 },
      ...(run === ID_A ? [{ name: "loss", last: 0.5 }] : []),
    ],
  }),
  GetSeries: () => ({
    buckets: [
      { firstX: 1n, lastX: 1n, mean: 1, min: 0, max: 2, count: 1n },
      { firstX: 50n, lastX: 50n, mean: 9, count: 1n },
    ],
  }),
};

async function run(args: string[], answers = DAEMON) {
  const world = fakeWorld(answers);
  return { code: await runCli(args, world), out: world.stdout(), err: world.stderr() };
}

Deno.test("compare: figures, metrics, configs and curves side by side", async () => {
  const { out } = await run(["compare", "a", "b"]);
  for (
    const line of [
      /^-? *cart-1 +cart-2$/m,
      new RegExp(`^run +${ID_A} +${ID_B}$`, "m"),
      /^loss +0\.5 +-$/m,
      /^run_name +a +b$/m,
      /── cart-1 {3}── cart-2/,
    ]
  ) assert.match(out, line);
  const json = JSON.parse((await run(["compare", "a", "b", "-o", "json"])).out);
  assert.deepEqual(Object.keys(json), ["runs", "parameters", "metrics", "config"]);
  assert.deepEqual(json.metrics, { episode_reward: [5, 5], loss: [0.5, null] });
  assert.deepEqual(json.config, { run_name: ["a", "b"] });
});

Deno.test("--group-by: runs that differ in their seed are one row, one column and one curve with its spread", async () => {
  const listed = [3, 1, 2].map((seed) =>
    fakeRun({
      runId: seed === 1 ? ID_A : seed === 2 ? ID_B : `${ID_B.slice(0, -1)}X`,
      name: `ppo-seed${seed}`,
    })
  );
  const answers: Answers = {
    ...DAEMON,
    ListRuns: ({ columns }) => ({
      runs: [...listed, fakeRun({ runId: `${ID_B.slice(0, -1)}Y`, name: "dqn" })],
      values: columns.length === 0
        ? []
        : [[1], [2], [6], [null]].map((v) => ({ json: v.map((x) => JSON.stringify(x)) })),
    }),
    GetRun: ({ run }) => listed.find(({ runId, name }) => runId === run || name === run)!,
    GetSeries: ({ run }) => ({
      buckets: [1n, 2n].map((x) => ({
        firstX: x,
        lastX: x,
        mean: run === ID_A ? 3 : run === ID_B ? 6 : 9,
        count: 1n,
      })),
    }),
  };
  const rows = JSON.parse(
    (await run(["list", "--group-by", "name", "-c", "metric.loss,state", "-o", "json"], answers))
      .out,
  );
  assert.deepEqual(rows.map((r: { group: string; runs: string[] }) => [r.group, r.runs.length]), [[
    "dqn",
    1,
  ], [
    "ppo",
    3,
  ]]);
  const { sd, ...loss } = rows[1].values["metric.loss"];
  assert.deepEqual(loss, { mean: 3, min: 1, max: 6, runs: 3 });
  assert.ok(Math.abs(sd - Math.sqrt(7)) < 1e-12);
  assert.match(
    (await run(["list", "--group-by", "name", "-c", "metric.loss"], answers)).out,
    /^ppo +3 +3 \w+ +3 ± 2\.646$/m,
  );
  assert.match(
    (await run(["list", "--group-by", "name", "-c", "elapsed,steps,backlog"], answers)).out,
    /^ppo +3 +3 \w+ +3m 07s ± 0\.0s +6,200 ± 0 +\d+ B ± 0 B$/m,
  );
  const points = JSON.parse(
    (await run(["plot", "ppo-seed1", "--group-by", "name", "-o", "json"], answers)).out,
  );
  assert.deepEqual(points[0], { x: 1, mean: 6, low: 3, high: 9, runs: 3 });
  const both = await run([
    "compare",
    ...listed.map((r) => r.name),
    "--group-by",
    "name",
    "--band",
    "minmax",
  ], answers);
  assert.match(both.out, /^ +ppo$/m);
  assert.match(both.out, /^runs +3$/m);
  assert.match(both.out, /^steps +6,200 ± 0$/m);
  assert.match(both.out, /^elapsed +\S+ ± \S+$/m);
  assert.match(both.out, /^episode_reward, minimum to maximum$/m);
  const wrong = await run(["list", "--group-by", "parms"], answers);
  assert.equal(wrong.code, 2);
  assert.match(wrong.err, /--group-by is "parms"\. Did you mean params\?/);
});

Deno.test("plot: draws a series, or gives its numbers, or says what there is", async () => {
  const drawn = (await run(["plot", "a", "--width", "40", "--height", "8"])).out;
  assert.match(drawn, /^cart-1 {2}episode_reward\n/);
  assert.match(drawn, /9 ┤.*[⠁-⣿]/);
  assert.match(drawn, /1 episode +50/);
  const csv = (await run(["plot", "a", "loss", "-o", "csv"])).out.split("\n");
  assert.equal(csv[0], "first_x,last_x,min,max,mean,last,count,at,step,attempt,overwritten");
  const wrong = await run(["plot", "a", "lss"]);
  assert.equal(wrong.code, 4);
  assert.match(wrong.err, /no series "lss"\. Did you mean loss/);
});

Deno.test("plot, compare: without a name, a run that has only metrics is drawn by the one that tells most", async () => {
  const named = (...names: string[]): Answers => ({
    ...DAEMON,
    ListSeries: () => ({ series: names.map((name) => ({ name, points: 2n, last: 1 })) }),
  });
  for (
    const [drawn, ...others] of [
      ["charts/episodic_return", "charts/SPS", "charts/episodic_length", "losses/value_loss"],
      ["rollout/ep_rew_mean", "rollout/ep_len_mean", "train/loss"],
      ["val_loss", "epoch", "lr", "train_loss"],
      ["entropy", "charts/SPS"],
    ] as const
  ) {
    const plotted = await run(
      ["plot", "a", "--width", "60", "--height", "8"],
      named(...others, drawn),
    );
    assert.match(plotted.out, new RegExp(`^cart-1 {2}${drawn}\n[^]*[⠁-⣿]`));
    assert.equal(plotted.err, `mosaic: drawn is ${drawn}; there are also ${others.join(", ")}\n`);
    assert.match(
      (await run(["compare", "a", "b"], named(...others, drawn))).out,
      new RegExp(`\n${drawn}\n[^]*[⠁-⣿]`),
    );
  }
});

Deno.test("plot, compare: a metric is drawn over the worker's steps, and --from and --to are steps", async () => {
  const asked: [bigint, bigint][] = [];
  // Points 1 to 5, in buckets of one, at steps 1000 to 5000.
  const metric: Answers = {
    ...DAEMON,
    GetSeries: ({ fromX, toX }) => {
      asked.push([fromX, toX]);
      const points = [1n, 2n, 3n, 4n, 5n].filter((x) => x >= fromX && (toX === 0n || x <= toX));
      return {
        buckets: points.map((x) => ({
          firstX: x,
          lastX: x,
          mean: Number(x),
          count: 1n,
          step: Number(x) * 1000,
        })),
      };
    },
  };
  const size = ["--width", "40", "--height", "8"];
  assert.match((await run(["plot", "a", "loss", ...size], metric)).out, /1,?000 step +5,?000/);
  assert.match(
    (await run(["compare", "a", "a", "--metric", "loss"], metric)).out,
    /1,?000 step +5,?000/,
  );
  asked.length = 0;
  const part = ["plot", "a", "loss", "--from", "1500", "--to", "4000", "-o", "json"];
  const rows = JSON.parse((await run(part, metric)).out);
  assert.deepEqual(rows.map((r: { step: number }) => r.step), [2000, 3000, 4000]);
  assert.deepEqual(asked, [[0n, 0n], [2n, 4n]]);
  assert.equal(
    (await run(["plot", "a", "loss", "--from", "9000", "-o", "json"], metric)).out,
    "[]\n",
  );
});

Deno.test("prune: by number and age; a dry run deletes nothing", async () => {
  const deleted: string[] = [];
  const ended = (runId: string, minutes: number) =>
    fakeRun({
      runId,
      state: "TERMINATED",
      outcome: "succeeded",
      finishedAt: { seconds: BigInt(Date.parse("2025-11-22T14:00:00Z") / 1000 - minutes * 60) },
      submittedAt: {
        seconds: BigInt(Date.parse("2025-11-22T14:00:00Z") / 1000 - minutes * 60 - 10),
      },
    });
  const answers: Answers = {
    ListRuns: () => ({ runs: [ended(ID_B, 5), ended(ID_A, 90)] }),
    GetDiskUsage: () => ({ runs: { [ID_A]: 2048n, [ID_B]: 1n }, telemetry: { [ID_A]: 1024n } }),
    DeleteRun: ({ run }) => {
      deleted.push(run);
      return { freedBytes: 1024n };
    },
  };
  const dry = await run(["prune", "--older-than", "1h", "--dry-run"], answers);
  assert.match(
    dry.out,
    new RegExp(`${ID_A} .* age\n\n1 run would be deleted, with 3\.0 KiB of files and telemetry\n$`),
  );
  assert.deepEqual(deleted, []);
  assert.match(
    (await run(["prune", "--keep-last", "1"], answers)).out,
    /1 run deleted, 1\.0 KiB freed\n$/,
  );
  assert.deepEqual(deleted, [ID_A]);
  const none = await run(["prune"], answers);
  assert.equal(none.code, 2);
});

Deno.test("prune: by number and age without sizes that cannot be had in time; by size only with them", async () => {
  const answers: Answers = {
    ListRuns: () => ({
      runs: [fakeRun({ runId: ID_A, state: "TERMINATED", outcome: "succeeded" })],
    }),
    GetDiskUsage: () => {
      throw new MosaicError("deadline_exceeded", "GetDiskUsage: no answer in time");
    },
    DeleteRun: () => ({ freedBytes: 1024n }),
  };
  const dry = await run(["prune", "--keep-last", "0", "--dry-run"], answers);
  assert.equal(dry.code, 0);
  assert.match(dry.err, /cannot get the sizes of runs.* no answer in time/);
  assert.match(dry.out, new RegExp(`${ID_A} .* \\? +number\n\n1 run would be deleted\n$`));
  const done = await run(["prune", "--older-than", "1s", "-o", "json"], answers);
  assert.equal(done.code, 0);
  assert.deepEqual(JSON.parse(done.out).runs.map((r: { bytes: number | null }) => r.bytes), [null]);
  const bySize = await run(["prune", "--max-size", "0"], answers);
  assert.notEqual(bySize.code, 0);
  assert.match(bySize.err, /no answer in time/);
  assert.doesNotMatch(bySize.out, /deleted/);
});

Deno.test("prune, du: who needs the sizes waits for a long walk, who only shows them does not", async () => {
  const waits: (number | undefined)[] = [];
  const api = fakeApi({ ListRuns: () => ({ runs: [] }), GetDiskUsage: () => ({}) });
  for (const args of [["prune", "--keep-last", "1"], ["prune", "--max-size", "0"], ["du"]]) {
    const connected: DaemonApi = {
      ...api,
      unary(method, request, options) {
        if (method.name === "GetDiskUsage") waits.push(options?.deadlineMs);
        return api.unary(method, request, options);
      },
    };
    assert.equal(
      await runCli(args, fakeWorld({}, { connect: () => Promise.resolve(connected) })),
      0,
    );
  }
  const [shown, ...needed] = waits;
  assert.equal(shown, undefined);
  assert.equal(needed.length, 2);
  for (const wait of needed) assert.ok(wait! >= 60_000);
});

Deno.test("compare: a command's arguments differ once, though its config has them twice", () => {
  const run = (run_id: string, lr: string) => ({
    run_id,
    config: { arguments: ["a.py", lr], metadata: { worker: { arguments: ["a.py", lr] } } },
  });
  assert.deepEqual(configDifferences([run("a", "1"), run("b", "2")]).map(({ name }) => name), [
    "arguments",
  ]);
});

Deno.test("compare: for people, each option that differs is a row of its own", () => {
  const row = (...lists: unknown[]) => ({
    name: "arguments",
    values: lists.map((l) => l === "" ? "" : JSON.stringify(l)),
  });
  assert.deepEqual(
    optionsApart([
      row(["a.py", "--lr", "1", "--seed=3", "-v", "--x", "1", "--x", "2"], [
        "b.py",
        "--lr",
        "-2",
        "--seed=3",
      ], ""),
      { name: "priority", values: ["1", "2"] },
    ]),
    [
      { name: "arguments", values: ["a.py", "b.py", ""] },
      { name: "arguments --lr", values: ["1", "-2", ""] },
      { name: "arguments --seed", values: ["3", "3", ""] },
      { name: "arguments -v", values: ["given", "", ""] },
      { name: "arguments --x", values: ["1, 2", "", ""] },
      { name: "priority", values: ["1", "2"] },
    ],
  );
  for (
    const same of [row(["--a", "--b"], ["--b", "--a"]), row([1], [2]), {
      name: "x",
      values: ["[no", "list"],
    }]
  ) {
    assert.deepEqual(optionsApart([same]), [same]);
  }
});
