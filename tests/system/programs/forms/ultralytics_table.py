"""Ultralytics: results.csv with padded columns, written anew for each row, bars with a heading, and args.yaml."""
import os
import sys

from expect import Expected, pause, value

expected = Expected()
os.makedirs("runs/detect/train/weights")
with open("runs/detect/train/args.yaml", "w") as file:
    file.write("task: detect\nepochs: 30\nlr0: 0.01\n")
names = ["epoch", "time", "train/box_loss", "metrics/mAP50(B)", "lr/pg0"]
for epoch in range(1, 31):
    row = [epoch, 1.5 * epoch, value(epoch), value(epoch, 1), 0.01]
    with open("runs/detect/train/results.csv", "a") as file:
        if epoch == 1:
            file.write(",".join("%23s" % name for name in names) + "\n")
        file.write(",".join("%23g" % number for number in row) + "\n")
    sys.stderr.write("      Epoch    GPU_mem   box_loss  Instances       Size\n")
    sys.stderr.write("\r      %d/30      2.1G   %.3f   8   640: 100%%|##########| 4/4 [00:01<00:00,  3.9it/s]\n" % (epoch, row[2]))
    sys.stderr.flush()
    for name, number in list(zip(names, row))[1:]:
        expected.point("tracked/time" if name == "time" else name, epoch, number)
    pause()
expected.write()
