"""A loop that prints dictionaries, as trainers do."""
import math

for step in range(0, 500, 5):
    print({"loss": round(math.exp(-step / 100), 4), "learning_rate": 5e-05 * (1 - step / 500), "step": step})
