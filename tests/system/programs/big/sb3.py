"""Stable-Baselines3 as its documentation uses it: sb3.py ALGORITHM ENVIRONMENT STEPS [OUTPUT…]"""
import sys

import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure

name, env_id, steps, *outputs = sys.argv[1:]
algorithm = getattr(stable_baselines3, name)
options = {"learning_starts": 100} if name in ("DQN", "SAC", "TD3", "DDPG") else {"n_steps": 64}
env = make_vec_env(env_id, n_envs=1, monitor_dir="monitor", seed=1)
model = algorithm("MlpPolicy", env, verbose=1, seed=1, tensorboard_log=None if outputs else "tb", **options)
if outputs:
    model.set_logger(configure("logs", outputs))
model.learn(int(steps), log_interval=1)
model.save("model")
