"""A program that knows nothing of mosaic: it logs to tensorboardX and to Monitor's table, in parts that a test paces.

At its end it writes points.json: what TensorBoard's EventAccumulator reads, values as the hexadecimal of their 64 bits.
"""
import json
import math
import os
import struct
import time

from tensorboardX import SummaryWriter


def wait_for(name):
    open(name + "-waits", "w").close()
    while not os.path.exists(name):
        time.sleep(0.02)


writer = SummaryWriter("runs/CartPole__ppo__1")
writer.add_text("hyperparameters", "|param|value|\n|-|-|\n|learning_rate|0.00025|\n|env_id|CartPole-v1|")
os.makedirs("logs")
monitor = open("logs/0.monitor.csv", "w")
monitor.write('#{"t_start": 1795390000.5, "env_id": "CartPole-v1"}\nr,l,t\n')
for part in range(3):
    for i in range(part * 500, part * 500 + 500):
        writer.add_scalar("charts/episodic_return", math.sin(i) * 100, i * 128)
        writer.add_scalar("losses/value_loss", 1 / (i + 3), i * 128)
        monitor.write(f"{i * 0.5},{i + 1},{i / 10}\n")
    writer.flush()
    monitor.flush()
    wait_for(f"part{part}")
open("ppo.cleanrl_model", "wb").write(b"weights")
monitor.write("1.5,9")
monitor.close()
writer.close()

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

accumulator = EventAccumulator("runs/CartPole__ppo__1", size_guidance={"scalars": 0})
accumulator.Reload()
points = {
    tag: [[event.step, struct.pack(">d", event.value).hex()] for event in accumulator.Scalars(tag)]
    for tag in accumulator.Tags()["scalars"]
}
with open("points.json", "w") as file:
    json.dump(points, file)
