import { strict as assert } from "node:assert";
import { objectiveIn, objectiveOf, oneNumber } from "../../src/records/objective.ts";
import { progressSeries, rewardRank } from "../../src/records/progress_series.ts";

/** Names by which libraries and programs call the reward of their episodes. */
const REWARDS: readonly (readonly [name: string, rank: number])[] = [
  ["rollout/ep_rew_mean", 0], // Stable-Baselines3
  ["charts/episodic_return", 0], // CleanRL
  ["episode_reward_mean", 1], // RLlib before 2.10
  ["env_runners/episode_return_mean", 1],
  ["ray/tune/evaluation/episode_reward_mean", 1],
  ["eprewmean", 1], // baselines
  ["AverageEpRet", 1], // Spinning Up
  ["EpRet", 1],
  ["ep_reward", 1],
  ["episode/score", 1], // Dreamer
  ["episodic_return", 1],
  ["printed/episode_reward", 1],
  ["eval/episode_reward", 1], // Brax
  ["train/episode_reward", 1],
  ["returned_episode_returns", 1], // PureJaxRL
  ["mean_episode_return", 1], // TorchBeast
  ["episode_reward@ppo", 1],
  ["eval/mean_reward", 2],
  ["Train/mean_reward", 2], // rsl_rl
  ["Reward / Total reward (mean)", 2], // skrl
  ["Environment/Cumulative Reward", 2], // ML-Agents
  ["Eval/AverageReturns", 2], // Dopamine
  ["Train_AverageReturn", 2], // CS285
  ["avg_return", 2],
  ["average_score", 2],
  ["total_reward", 2],
  ["test/returns_stat/mean", 2], // Tianshou
  ["test/reward", 3], // Tianshou before 1.0
  ["rewards/step", 3], // rl_games
  ["rewards/iter", 3],
  ["eval_return", 3],
  ["train/reward", 3], // TRL
  ["tracked/reward", 3],
  ["return", 3],
  ["score", 3],
];
const NONE = [
  ...[
    "loss/reward_model",
    "reward_std",
    "reward_scale",
    "rollout/ep_len_mean",
    "rewards/accuracies",
    "rewards/margins",
  ],
  ...[
    "intrinsic_reward",
    "advantages/mean",
    "val/loss",
    "episode/length",
    "returns/std",
    "value_loss",
    "f1_score",
  ],
  ...[
    "reward_loss",
    "episode_reward_max",
    "best_reward",
    "grad/reward_head",
    "epoch",
    "retry",
    "scorecard",
    "rewards/format_reward/std",
    "charts/SPS",
  ],
  ...["human_score", "train/loss", "reward_norm", "time/return", "rewards/time"],
];

Deno.test("reward: names of libraries are recognized, by how certain they are; figures about rewards are not", () => {
  assert.deepEqual(REWARDS.map(([name]) => [name, rewardRank(name)]), REWARDS);
  assert.deepEqual(NONE.filter((name) => rewardRank(name) !== Infinity), []);
});

Deno.test("reward: without a chosen metric the most certain reward shows the progress, then a score, then a loss", () => {
  const chosen = (names: string[], objective?: string) =>
    progressSeries(names.map((name) => ({ name, points: 1n })), [objective]);
  assert.equal(
    chosen(["loss", "train/reward", "eval/mean_reward", "eval/episode_reward"]),
    "eval/episode_reward",
  );
  assert.equal(chosen(["epoch", "val/loss", "accuracy"]), "accuracy");
  assert.equal(chosen(["epoch", "train/loss"]), "train/loss");
  assert.equal(chosen(["lr", "entropy"]), "entropy");
  assert.equal(chosen(["episode_reward", "val/loss"], "val/loss:min"), "val/loss");
  assert.equal(chosen(["episode_reward", "val/loss"], "other:min"), "episode_reward");
  assert.equal(chosen([]), undefined);
});

Deno.test("objective: a metric, and which of its values counts", () => {
  assert.deepEqual(objectiveOf("eval/reward:max"), { name: "eval/reward", value: "max" });
  assert.deepEqual(objectiveOf("loss"), { name: "loss", value: "last" });
  assert.deepEqual(objectiveOf("a:b:min"), { name: "a:b", value: "min" });
  for (const wrong of ["", ":max", "a:b", "a:", "a:maximum", "a\nb", "x".repeat(601)]) {
    assert.equal(objectiveOf(wrong), undefined, JSON.stringify(wrong));
  }
  assert.equal(objectiveIn('{"metadata":{"objective":"loss:min"}}'), "loss:min");
  for (
    const config of [
      "{",
      "{}",
      '{"metadata":{"worker":{"objective":1}}}',
      '{"metadata":{"objective":"a:b"}}',
      '"objective"',
    ]
  ) {
    assert.equal(objectiveIn(config), undefined, config);
  }
});

Deno.test("objective: a chosen metric without a value is no number, so that a list compares one metric only", () => {
  assert.equal(oneNumber({ value: 3 }, 1, { value: 2 }), 3);
  assert.equal(oneNumber({ value: null }, 1, { value: 2 }), null);
  assert.equal(oneNumber({}, 1, undefined), null);
  assert.equal(oneNumber(null, 1, { value: 2 }), 1);
  assert.equal(oneNumber(undefined, null, { value: 2 }), 2);
  assert.equal(oneNumber(null, null, null), null);
});
