"""A hill climber on CartPole whose environment writes a monitor file as Stable-Baselines3's Monitor does."""
import json
import time

import gymnasium as gym
import numpy as np

rng = np.random.default_rng(3)
env = gym.make("CartPole-v1")
start = time.time()
best, best_weights = -1.0, np.zeros(4)
with open("0.monitor.csv", "w") as file:
    file.write("#" + json.dumps({"t_start": start, "env_id": "CartPole-v1"}) + "\nr,l,t\n")
    for episode in range(150):
        weights = best_weights + rng.normal(size=4) * 0.5
        observation, _ = env.reset(seed=episode)
        total, length, done = 0.0, 0, False
        while not done:
            observation, reward, terminated, truncated, _ = env.step(int(observation @ weights > 0))
            total, length, done = total + reward, length + 1, terminated or truncated
        if total >= best:
            best, best_weights = total, weights
        file.write(f"{round(total, 6)},{length},{round(time.time() - start, 6)}\n")
        file.flush()
