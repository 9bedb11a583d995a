"""Tabular Q-learning on FrozenLake, as Gymnasium's tutorials do it: prints pairs, keeps curves in tensorboardX."""
import gymnasium as gym
import numpy as np
from tensorboardX import SummaryWriter

rng = np.random.default_rng(1)
env = gym.wrappers.RecordEpisodeStatistics(gym.make("FrozenLake-v1", is_slippery=False))
q = np.zeros((env.observation_space.n, env.action_space.n))
writer = SummaryWriter("runs/frozen_lake")
writer.add_text("hyperparameters", "|param|value|\n|-|-|\n|lr|0.8|\n|gamma|0.95|")
global_step = 0
for episode in range(300):
    state, _ = env.reset(seed=episode)
    done = False
    epsilon = max(0.05, 1 - episode / 200)
    while not done:
        best = np.flatnonzero(q[state] == q[state].max())
        action = env.action_space.sample() if rng.random() < epsilon else int(rng.choice(best))
        following, reward, terminated, truncated, info = env.step(action)
        error = reward + 0.95 * q[following].max() * (not terminated) - q[state, action]
        q[state, action] += 0.8 * error
        state, done = following, terminated or truncated
        global_step += 1
        if global_step % 10 == 0:
            writer.add_scalar("losses/td_error", error, global_step)
    print(f"global_step={global_step}, episodic_return={info['episode']['r']}")
    writer.add_scalar("charts/episodic_return", info["episode"]["r"], global_step)
    writer.add_scalar("charts/epsilon", epsilon, global_step)
writer.close()
