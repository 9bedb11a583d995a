import assert from "node:assert/strict";
import {
  type AlertFields,
  alertRules,
  alerts as alertFields,
  withShareRule,
} from "../../../src/config/alerts.ts";
import { Alerts, type Recorded } from "../../../src/dispatch/attempt/state/alerts.ts";
import { checked, seal } from "../../../src/records/sealed_steps.ts";

const watch = (...given: AlertFields[]) => new Alerts(alertRules(given), new Set());
const NOTHING: Recorded = { steps: { n: 0 }, episodes: [], events: [] };
const metrics = (...objects: unknown[]): Recorded => ({
  ...NOTHING,
  events: objects.map((object) => ({ dataJson: JSON.stringify(object) })),
});
const rewards = (...reward: (number | string)[]): Recorded => ({
  ...NOTHING,
  steps: { n: reward.length, reward },
});
const said = (alerts: Alerts) => alerts.due.splice(0).map(({ what }) => what);

Deno.test("alerts: a metric that is no number, wherever it is recorded; once", () => {
  const alerts = watch({ metric: "loss", when: "nan" }, { metric: "losses.policy", when: "nan" }, {
    metric: "reward",
    when: "nan",
  });
  alerts.recorded(
    metrics({ loss: 0.5 }, { other: null }, { loss: "text" }, { losses: { policy: 1 } }),
  );
  assert.deepEqual(said(alerts), []);
  // NaN and infinities are stored as null, those of rewards by name.
  alerts.recorded(metrics({ losses: { policy: null } }, { loss: null }, { loss: null }));
  alerts.recorded(rewards(1, "NaN", "NaN"));
  assert.deepEqual(said(alerts).sort(), ["loss is NaN", "losses.policy is NaN", "reward is NaN"]);
  alerts.recorded(metrics({ loss: null }));
  assert.deepEqual(said(alerts), []);
  const steps = watch({ metric: "loss", when: "nan" });
  steps.recorded({ ...NOTHING, steps: { n: 2, infoJson: ["{}", '{"loss":null}'] } });
  assert.deepEqual(said(steps), ["loss is NaN"]);
});

Deno.test("alerts: above and below their bound, for so many points in a row", () => {
  const alerts = watch({ metric: "kl", when: "above", value: 1, points: 3 }, {
    metric: "episode_reward",
    when: "below",
    value: -10,
  });
  alerts.recorded(metrics({ kl: 2 }, { kl: 2 }, { kl: 1 }, { kl: 2 }, { kl: 2 }));
  assert.deepEqual(said(alerts), []);
  alerts.recorded(metrics({ kl: 5 }));
  assert.deepEqual(said(alerts), ["kl is 5, above 1, 3 points in a row"]);
  const episode = {
    episode: 0,
    steps: 5,
    terminated: true,
    truncated: false,
    tsNs: "",
    agentId: "",
    workerId: "",
  };
  alerts.recorded({ ...NOTHING, episodes: [{ ...episode, totalReward: -11, metadataJson: "" }] });
  assert.deepEqual(said(alerts), ["episode_reward is -11, below -10"]);
});

Deno.test("alerts: a metric that no longer improves, up or down; a long silence", () => {
  const alerts = watch({ metric: "reward", when: "stuck", points: 3 }, {
    metric: "loss",
    when: "stuck",
    points: 2,
    goal: "min",
  }, { when: "silent", seconds: 60 });
  alerts.recorded(rewards(1, 2, 2, 1, 3, 3, 3));
  alerts.recorded(metrics({ loss: 3 }, { loss: 2 }, { loss: 2 }, { loss: 1 }));
  alerts.silent(60_000);
  assert.deepEqual(said(alerts), []);
  alerts.recorded(rewards(2));
  alerts.recorded(metrics({ loss: 1 }, { loss: 4 }));
  alerts.silent(60_001);
  assert.deepEqual(said(alerts).sort(), [
    "loss has not improved on 1 for 2 points",
    "reward has not improved on 3 for 3 points",
    "the worker has printed nothing for 60 s",
  ]);
});

Deno.test("alerts: rewards that come as a block", () => {
  const sealed = (reward: number[]): Recorded => ({
    ...NOTHING,
    steps: checked(seal({ n: reward.length, reward })!),
  });
  const alerts = watch({ metric: "reward", when: "nan" }, {
    metric: "reward",
    when: "stuck",
    points: 500,
  });
  alerts.recorded(sealed(Array(300).fill(1)));
  assert.deepEqual(said(alerts), []);
  alerts.recorded(sealed(Array.from({ length: 300 }, (_, i) => i === 7 ? NaN : -i)));
  assert.deepEqual(said(alerts).sort(), [
    "reward has not improved on 1 for 500 points",
    "reward is NaN",
  ]);
});

Deno.test("alerts: what has alerted in the attempt already stays told", () => {
  const rules = alertRules([{ metric: "loss", when: "nan" }, {
    metric: "loss",
    when: "nan",
    then: "pause",
  }]);
  assert.deepEqual(rules.map(({ name }) => name), ["loss nan", "loss nan (2)"]);
  const alerts = new Alerts(rules, new Set(["loss nan"]));
  alerts.recorded(metrics({ loss: null }));
  assert.deepEqual(alerts.due.map(({ rule }) => rule.then), ["pause"]);
});

Deno.test("alerts: a rule that lacks what its kind needs is refused, with what it needs", () => {
  const wrong = (rule: unknown) => {
    const parsed = alertFields().safeParse([rule]);
    assert.ok(!parsed.success, JSON.stringify(rule));
    return parsed.error.issues[0]!.message;
  };
  assert.match(wrong({ when: "nan" }), /needs a metric/);
  assert.match(wrong({ when: "above", metric: "kl" }), /needs a value/);
  assert.match(wrong({ when: "stuck", metric: "kl" }), /needs points/);
  assert.match(wrong({ when: "silent" }), /needs seconds/);
  assert.match(wrong({ when: "silent", seconds: 1, metric: "kl" }), /of the whole run/);
  assert.match(wrong({ when: "nan", metric: "kl", the: 1 }), /the/);
});

Deno.test("alerts: idle GPUs, by the mean of a window; a pause or a gap begins it anew; bounds on a sample's series", () => {
  const alerts = watch({ when: "gpu_idle", seconds: 900 }, {
    when: "gpu_idle",
    seconds: 3600,
    value: 10,
    then: "cancel",
  }, {
    metric: "system/gpu_memory_mb",
    when: "above",
    value: 1000,
    points: 2,
  });
  let now = 0;
  const sample = (percent: number, seconds: number) => {
    for (let at = 0; at < seconds; at += 15) {
      alerts.sampled([["system/gpu_percent", percent]], now += 15_000);
    }
  };
  sample(0, 885);
  alerts.held();
  sample(0, 600);
  sample(90, 60);
  assert.deepEqual(said(alerts), []);
  // 90 % for a minute of 15 are 6 %.
  sample(0, 300);
  assert.deepEqual(said(alerts), []);
  sample(0, 600);
  assert.deepEqual(said(alerts), [
    "the run's GPUs were used to 4.4 % in the last 15m 00s, below 5 %",
  ]);
  now += 400_000;
  sample(0, 3585);
  assert.deepEqual(said(alerts), []);
  sample(0, 30);
  assert.deepEqual(said(alerts), [
    "the run's GPUs were used to 0 % in the last 1h 00m, below 10 %",
  ]);
  for (const value of [2000, 500, 2000, 2000]) {
    alerts.sampled([["system/gpu_memory_mb", value]], now);
  }
  assert.deepEqual(said(alerts), ["system/gpu_memory_mb is 2000, above 1000, 2 points in a row"]);
  // No utilisation is told: no rule is broken.
  const unknown = watch({ when: "gpu_idle", seconds: 60 });
  for (let at = 0; at < 1e6; at += 15_000) unknown.sampled([["system/memory_mb", 1]], at);
  assert.deepEqual(said(unknown), []);
});

Deno.test("alerts: memory of GPUs, of the cards or of what a run has declared; a run that shares has such a rule anyway", () => {
  const alerts = watch({ when: "gpu_memory" }, ...withShareRule([], true));
  alerts.sampled([["system/gpu_memory_percent", 95]], 0);
  assert.deepEqual(said(alerts), []);
  alerts.sampled([["system/gpu_memory_percent", 101], ["system/gpu_memory_mb", 6206]], 0);
  assert.deepEqual(said(alerts).sort(), [
    "the run uses 101 % (6.1 GiB) of the GPU memory that it has, above 100 %",
    "the run uses 101 % (6.1 GiB) of the GPU memory that it has, above 95 %",
  ]);
  const own: AlertFields[] = [{ when: "gpu_memory", value: 80, then: "cancel" }];
  assert.deepEqual([withShareRule(own, true), withShareRule([], false)], [own, []]);
});
