"""A loop that prints one JSON object a line, without a type."""
import json
import math

for step in range(500):
    print(json.dumps({"step": step, "loss": math.exp(-step / 100), "grad_norm": 1 + math.sin(step) / 3}))
