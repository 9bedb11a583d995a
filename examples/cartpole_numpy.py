"""CartPole-v1 learned with numpy: a worker for mosaic that knows nothing of it but to print JSON lines.

    mosaic run --name cartpole -- python examples/cartpole_numpy.py --episodes 150

Needs `pip install gymnasium numpy`. The learner is Q-learning with a linear value function over a random Fourier basis
of the (clipped) state: small, seeded, and good enough that the pole stays up longer and longer.
"""

import argparse
import json
import os
import sys

import gymnasium
import numpy as np

# States beyond these count like these; velocities have no bounds of their own.
SCALE = np.array([2.4, 3.0, 0.21, 3.0])
FEATURES = 200


class Learner:
    def __init__(self, actions, seed, step_size):
        self.rng = np.random.default_rng(seed)
        self.frequencies = self.rng.normal(0.0, 1.2, (FEATURES, 4))
        self.phases = self.rng.uniform(0.0, 2 * np.pi, FEATURES)
        self.weights = np.zeros((actions, FEATURES))
        self.step_size = step_size / FEATURES

    def features(self, observation):
        state = np.clip(observation / SCALE, -1.0, 1.0)
        return np.cos(self.frequencies @ state + self.phases) * np.sqrt(2.0)

    def act(self, features, epsilon):
        if self.rng.random() < epsilon:
            return int(self.rng.integers(len(self.weights)))
        return int(np.argmax(self.weights @ features))

    def learn(self, features, action, target):
        error = target - self.weights[action] @ features
        self.weights[action] += self.step_size * error * features


def emit(record):
    sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")


def train(args):
    env = gymnasium.make("CartPole-v1")
    learner = Learner(env.action_space.n, args.seed, args.step_size)
    run_id = os.environ.get("RUN_ID", "")
    for episode in range(args.episodes):
        epsilon = max(0.0, 0.3 * (1 - episode / (0.5 * args.episodes)))
        observation, _ = env.reset(seed=args.seed + episode)
        features = learner.features(observation)
        total, step, ended = 0.0, 0, False
        while not ended:
            action = learner.act(features, epsilon)
            following, reward, terminated, truncated, _ = env.step(action)
            after = learner.features(following)
            future = 0.0 if terminated else args.discount * np.max(learner.weights @ after)
            # Falling has a cost; otherwise the learner would see only a constant.
            learner.learn(features, action, (-10.0 if terminated else float(reward)) + future)
            emit({
                "event_type": "step",
                "run_id": run_id,
                "episode": episode,
                "step_index": step,
                "action": action,
                "observation": [round(float(x), 6) for x in observation],
                "reward": float(reward),
                "terminated": terminated,
                "truncated": truncated,
            })
            observation, features = following, after
            total += float(reward)
            step += 1
            ended = terminated or truncated
        emit({
            "event_type": "episode",
            "run_id": run_id,
            "episode": episode,
            "total_reward": total,
            "steps": step,
            "terminated": terminated,
            "truncated": truncated,
            "metadata": {"epsilon": round(epsilon, 4), "seed": args.seed + episode},
        })
        sys.stdout.flush()
    env.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=150)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--step-size", type=float, default=0.5)
    parser.add_argument("--discount", type=float, default=0.98)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
