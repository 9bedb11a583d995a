"""A loop that prints key=value pairs."""
import math

for step in range(300):
    print(f"step={step} loss={math.exp(-step / 60):.6f} entropy={0.69 * math.exp(-step / 200):.6f}")
