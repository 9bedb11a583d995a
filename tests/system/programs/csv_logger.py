"""A loop that keeps its own CSV with Python's csv module, flushed each row, and prints a progress line."""
import csv
import math

with open("progress.csv", "w", newline="") as file:
    writer = csv.DictWriter(file, fieldnames=["step", "train/loss", "train/accuracy", "lr"])
    writer.writeheader()
    for step in range(0, 2000, 10):
        loss = math.exp(-step / 700) + 0.01 * math.sin(step)
        writer.writerow({"step": step, "train/loss": loss, "train/accuracy": 1 - loss / 2, "lr": 3e-4 * (1 - step / 2000)})
        file.flush()
