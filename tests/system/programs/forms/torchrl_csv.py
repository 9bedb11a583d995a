"""TorchRL's CSVLogger: a table without a header for each scalar; and its bar."""
import os
import sys

from expect import Expected, pause, value

expected = Expected()
os.makedirs("csv_logs/dqn/scalars")
for i in range(1, 41):
    frames = 1000 * i
    with open("csv_logs/dqn/scalars/reward_training.csv", "a") as file:
        file.write("%d,%r\n" % (frames, value(i, 2)))
    sys.stderr.write("\r %d%%|###  | %d/40000 [00:01<00:01, 900.0it/s]" % (100 * frames // 40000, frames))
    sys.stderr.flush()
    print("collected_frames=%d total_reward=%r" % (frames, value(i)), flush=True)
    expected.point("reward_training", frames, value(i, 2))
    expected.point("collected_frames", i - 1, frames)
    expected.point("total_reward", i - 1, value(i))
    pause()
expected.write()
