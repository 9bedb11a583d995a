import { strict as assert } from "node:assert";
import { isOneOfSeveral, nameBeside, roleOf } from "../../src/telemetry/series/source_names.ts";
import { Twins, type Verdict } from "../../src/telemetry/series/twins.ts";
import { batch, withStore } from "./harness.ts";

const EXACT = Array.from({ length: 12 }, (_, i) => 20 + 7 * Math.sin(i) + i / 3);
const steps = (values: readonly number[], by = 128) =>
  values.map((value, i): [number, number] => [i * by + by, value]);
const counted = (values: readonly number[]) =>
  values.map((value, i): [number, number] => [i, value]);
const asFloat = EXACT.map(Math.fround);
const printed = EXACT.map((value) => Number(value.toPrecision(3)));
const fixed = EXACT.map((value) => Number(value.toFixed(2)));

function compared(a: [number, number][], b: [number, number][], sameName = true): [Verdict, 0 | 1] {
  const twins = new Twins(sameName ? "exactly" : "no");
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (i < a.length) twins.add(0, ...a[i]!);
    if (i < b.length) twins.add(1, ...b[i]!);
  }
  return [twins.verdict, twins.exact];
}

Deno.test("twins: a rounded, a float32 and an equal copy are recognized by their values, the exact one is known", () => {
  assert.deepEqual(compared(steps(printed), steps(EXACT)), ["same", 1]);
  assert.deepEqual(compared(steps(EXACT), steps(printed)), ["same", 0]);
  assert.deepEqual(compared(steps(fixed), steps(asFloat)), ["same", 1]);
  assert.deepEqual(compared(steps(asFloat), steps(EXACT)), ["same", 1]);
  assert.deepEqual(compared(steps(EXACT), steps(EXACT)), ["same", 0]);
  // The float32 of 0.0003 has 16 digits, and is not more exact.
  assert.deepEqual(compared(steps([0.0003, 0.0003]), steps([0.0003, 0.0003].map(Math.fround))), [
    "same",
    0,
  ]);
  // Repeated steps are compared in their order.
  const repeated = steps(EXACT).map((
    [step, value],
    i,
  ): [number, number] => [i < 6 ? 64 : step, value]);
  const rounded = repeated.map((
    [step, value],
  ): [number, number] => [step, Number(value.toPrecision(3))]);
  assert.deepEqual(compared(repeated, rounded), ["same", 0]);
});

Deno.test("twins: other values, and values off by more than the rounding, are another quantity", () => {
  const off = EXACT.map((value, i) => i === 9 ? value + 0.2 : value);
  assert.equal(compared(steps(printed), steps(off))[0], "different");
  assert.equal(compared(steps(EXACT), steps(EXACT.map((value) => value * 1.0001)))[0], "different");
  assert.equal(compared(steps(EXACT), steps(EXACT, 100))[0], "unknown");
});

Deno.test("twins: a source without steps is compared in order; other names need more in common", () => {
  assert.deepEqual(compared(counted(printed), steps(EXACT)), ["same", 1]);
  assert.equal(compared(counted(printed), steps(EXACT.toReversed()))[0], "different");
  assert.deepEqual(compared(steps(printed), steps(EXACT), false), ["same", 1]);
  assert.equal(compared(steps(printed.slice(0, 3)), steps(EXACT.slice(0, 3)), false)[0], "unknown");
  assert.equal(
    compared(steps([0, 0, 1, 1, 0, 1, 0]), steps([0, 0, 1, 1, 0, 1, 0]), false)[0],
    "unknown",
  );
});

Deno.test("sources: names have no seed, trial, time or host", () => {
  for (
    const [label, role] of [
      ["", "stdout"],
      ["ppo_lr0.0003_s0_1", "tensorboard"],
      ["runs/CartPole-v1__ppo__1__1700000000", "tensorboard"],
      ["trial_3/progress.csv", "progress.csv"],
      ["validation", "validation"],
      ["r/l_a", "l_a"],
      ["wandb", "wandb"],
    ] as const
  ) assert.equal(roleOf(label), role);
  const taken = new Set(["loss@tensorboard"]);
  assert.equal(nameBeside("loss", "s1", (name) => !taken.has(name)), "loss@tensorboard-2");
  assert.match(nameBeside("loss", "s1", () => false), /^loss@s1$/);
  assert.ok(isOneOfSeveral("eval/loss", "runs/eval_loss_train"));
  assert.ok(
    !isOneOfSeveral("loss", "runs/train") && !isOneOfSeveral("loss", "") &&
      !isOneOfSeveral("loss", "loss"),
  );
});

Deno.test("series: what several sources write of one metric is one series, the most exact, across restarts and attempts", () =>
  withStore((bench) => {
    const { store: _ } = bench;
    let position = 0;
    const serial = new Map<string, number>();
    const event = (name: string, step: number, value: number) => ({
      kind: "metrics",
      dataJson: JSON.stringify({ global_step: step, [name]: value }),
      tsNs: "",
    });
    const print = (attempt: number, name: string, step: number, value: number) => {
      bench.store.ingest(
        "R",
        attempt,
        batch(position, position + 1, { events: [event(name, step, value)] }),
      );
      position++;
    };
    const file = (attempt: number, label: string, name: string, step: number, value: number) => {
      const n = (serial.get(`${attempt}${label}`) ?? 0) + 1;
      serial.set(`${attempt}${label}`, n);
      const source = { name: `/w/${label}`, label, serial: n, state: "{}" };
      bench.store.ingest("R", attempt, {
        ...batch(n - 1, n, { events: [event(name, step, value)] }),
        source,
      });
    };
    const named = () => bench.store.listSeries("R").map(({ name, points }) => [name, points]);
    EXACT.forEach((value, i) => {
      const step = (i + 1) * 128;
      print(1, "rollout/ep_rew_mean", step, Number(value.toPrecision(3)));
      file(1, "ppo_s0_1", "rollout/ep_rew_mean", step, Math.fround(value));
      file(1, "progress.csv", "rollout/ep_rew_mean", step, value);
      if (i === 5) bench.reopen();
    });
    assert.deepEqual(named(), [["rollout/ep_rew_mean", EXACT.length]]);
    const values = () =>
      bench.store.series("R", "rollout/ep_rew_mean", 0, 0, 1000).map(({ last }) => last);
    assert.deepEqual(values(), EXACT);
    assert.deepEqual(bench.store.summary("R").reportedReward, {
      name: "rollout/ep_rew_mean",
      value: EXACT.at(-1)!,
    });
    const sources = () =>
      bench.store.listSources("R").map(({ name, label, copyOf }) => [name, label, copyOf !== null]);
    assert.deepEqual(sources(), [
      ["rollout/ep_rew_mean", "progress.csv", false],
      ["rollout/ep_rew_mean@stdout", "", true],
      ["rollout/ep_rew_mean@tensorboard", "ppo_s0_1", true],
    ]);
    // The next attempt writes into another directory, and prints first again.
    bench.store.beginAttempt("R", 2, null);
    position = 0;
    EXACT.forEach((value, i) => {
      const step = (i + 1) * 128;
      print(2, "rollout/ep_rew_mean", step, Number((value + 1).toPrecision(3)));
      file(2, "ppo_s0_2", "rollout/ep_rew_mean", step, Math.fround(value + 1));
      file(2, "progress.csv", "rollout/ep_rew_mean", step, value + 1);
    });
    assert.deepEqual(named(), [["rollout/ep_rew_mean", 2 * EXACT.length]]);
    assert.deepEqual(values(), [...EXACT, ...EXACT.map((value) => value + 1)]);
    // Another quantity of the same name stays a series, under the name of its role.
    EXACT.forEach((value, i) => {
      file(2, "train", "loss", i, 1 / (i + 1));
      file(2, "validation", "loss", i, value);
      print(2, "acc", i, Number((value / 30).toFixed(3)));
      file(2, "train", "metrics/acc", i, value / 30);
    });
    assert.deepEqual(named().map(([name]) => name), [
      "loss",
      "loss@validation",
      "metrics/acc",
      "rollout/ep_rew_mean",
    ]);
  }));
