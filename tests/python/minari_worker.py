"""Episodes of three Gymnasium environments through mosaic.RecordSteps; what happened is written to truth.json, too."""
import json
import sys

import gymnasium
import numpy as np

import mosaic


class Mixed(gymnasium.Env):
    """Spaces within spaces; an episode of seven steps."""

    observation_space = gymnasium.spaces.Dict({
        "position": gymnasium.spaces.Box(-np.inf, np.inf, (2, 2), np.float32),
        "place": gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(9), gymnasium.spaces.MultiBinary(3)]),
    })
    action_space = gymnasium.spaces.MultiDiscrete([3, 4])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self._observation(), {}

    def step(self, action):
        self.at += 1
        return self._observation(), float(self.np_random.normal()), self.at == 7, False, {}

    def _observation(self):
        return {
            "position": self.np_random.normal(size=(2, 2)).astype(np.float32),
            "place": (np.int64(self.at), np.array([1, 0, self.at % 2], np.int8)),
        }


def plain(value):
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return {str(i): plain(inner) for i, inner in enumerate(value)}
    return np.asarray(value).tolist()


which = sys.argv[1]
make = {"cartpole": lambda: gymnasium.make("CartPole-v1"), "pendulum": lambda: gymnasium.make("Pendulum-v1"), "mixed": Mixed}
# Two at once, which take turns: their steps lie among each other in the log.
environments = [mosaic.RecordSteps(make[which]()) for _ in range(2)]
episodes = []
for n in range(3):
    options = {"hard": True} if n == 1 and which == "mixed" else None
    pair = []
    for i, env in enumerate(environments):
        seed = 2 * n + i
        env.action_space.seed(seed)
        observation, _ = env.reset(seed=seed, **({"options": options} if options else {}))
        pair.append({
            "seed": seed, "options": options, "observations": [plain(observation)], "actions": [], "rewards": [],
            "terminations": [], "truncations": [],
        })
    # The last pair is left before its end.
    for step in range(10_000 if n < 2 else 5):
        for env, episode in zip(environments, pair):
            if episode["terminations"] and (episode["terminations"][-1] or episode["truncations"][-1]):
                continue
            action = env.action_space.sample()
            observation, reward, terminated, truncated, _ = env.step(action)
            episode["observations"].append(plain(observation))
            episode["actions"].append(plain(action))
            episode["rewards"].append(float(reward))
            episode["terminations"].append(bool(terminated))
            episode["truncations"].append(bool(truncated))
    for episode in pair:
        episode["truncations"][-1] = not episode["terminations"][-1]
    episodes += pair
with open("truth.json", "w") as file:
    json.dump(episodes, file)
