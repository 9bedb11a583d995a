"""REINFORCE with numpy, in the style of single-file implementations: argparse, seeds, a writer, printed returns."""
import argparse
import time

import gymnasium as gym
import numpy as np
from tensorboardX import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--learning-rate", type=float, default=0.02)
parser.add_argument("--episodes", type=int, default=120)
args = parser.parse_args()

run_name = f"CartPole-v1__reinforce__{args.seed}__{int(time.time())}"
writer = SummaryWriter(f"runs/{run_name}")
table = "\n".join(f"|{key}|{value}|" for key, value in vars(args).items())
writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{table}")
rng = np.random.default_rng(args.seed)
env = gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))
weights = np.zeros((4, 2))
global_step, start = 0, time.time()
for episode in range(args.episodes):
    observation, _ = env.reset(seed=args.seed * 1000 + episode)
    gradients, rewards, done = [], [], False
    while not done:
        logits = observation @ weights
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        action = int(rng.random() < chances[1])
        gradients.append(np.outer(observation, np.eye(2)[action] - chances))
        observation, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        global_step += 1
        done = terminated or truncated
    returns = np.cumsum(rewards[::-1])[::-1]
    advantage = (returns - returns.mean()) / (returns.std() + 1e-8)
    step = sum(a * g for a, g in zip(advantage, gradients))
    weights += args.learning_rate * step
    print(f"global_step={global_step}, episodic_return={info['episode']['r']}")
    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
    writer.add_scalar("charts/episodic_length", info["episode"]["l"], global_step)
    writer.add_scalar("losses/gradient_norm", np.linalg.norm(step), global_step)
    writer.add_scalar("charts/SPS", int(global_step / (time.time() - start)), global_step)
    writer.add_histogram("weights", weights, global_step)
env.close()
writer.close()
