"""A training that uses all of the module `mosaic`, with values as programs have them."""
import argparse
import os
import pathlib
import sys
import threading

import gymnasium
import mosaic
import numpy as np

mosaic.init(
    argparse.Namespace(lr=np.float32(0.1), layers=(64, 64), out=pathlib.Path("/tmp/out"), seed=np.int64(7)),
    device=b"cpu",
)
print("half a line", end="", flush=True)
mosaic.log({"loss": np.float32(0.1), "eval": {"score": np.array(2.5)}, "reward": 3, "ok": np.True_}, step=np.int64(10))
mosaic.log({"loss": float("nan"), "text": "none", "curve": [1, 2, 3]}, step=11)
mosaic.log({"loss": np.array([[0.25]]), "global_step": 12})
mosaic.log({"many/%d" % i: i for i in range(130)}, step=13)

# What no record can be made of is said on standard error, once, and costs nothing else.
mosaic.init(config=7)
mosaic.log(7)

# A redirected sys.stdout, threads and forks.
sys.stdout = open(os.devnull, "w")


def from_thread(name):
    for i in range(200):
        mosaic.log({name: i}, step=i)


threads = [threading.Thread(target=from_thread, args=("thread%d" % i,)) for i in range(3)]
for thread in threads:
    thread.start()
child = os.fork()
if child == 0:
    from_thread("child")
    os._exit(0)
os.waitpid(child, 0)
for thread in threads:
    thread.join()

env = mosaic.RecordSteps(gymnasium.make("CartPole-v1"))
env.reset(seed=1)
for _ in range(2):
    ended = False
    while not ended:
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        ended = terminated or truncated
    env.reset()
mosaic.episode(r=np.float64(1.5), l=np.int32(9), t=0.5, success=True)

os.makedirs("out", exist_ok=True)
open("out/model.pt", "w").close()
open("out/run.mp4", "w").close()
mosaic.checkpoint(pathlib.Path("out/model.pt"), step=1000)
mosaic.video("out/run.mp4", step=5)
assert mosaic.resume_path() is None
