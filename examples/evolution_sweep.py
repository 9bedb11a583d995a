"""An evolution strategy in plain Python chooses the points of a mosaic sweep and ends bad trials (mosaic-optimizer/1).

    python examples/evolution_sweep.py --name ppo --metric eval/mean_reward:max --budget 40runs --max-parallel 4 \
        --space 'lr=log(1e-5,1e-2)' --grid layers=1,2,3 --stop optimizer:min=1000,max=20000 \
        -- python train.py --lr {lr} --layers {layers}

What follows the script goes to `mosaic sweep --optimizer`. Each start tells all trials, so after any death the same command
goes on. The first points are random; later ones are changed copies of the best third. A trial ends at a rung where its value
is worse than the median of three or more others there. `--grid` lists choices, and a sweep file works, too, also one of
Weights & Biases with `method: bayes`.
"""

import json
import math
import random
import statistics
import subprocess
import sys

FIRST = 8
SIGMA = 0.2


def place(one, value):
    """A number as a place from 0 to 1 in its range."""
    low, high = one["low"], one["high"]
    if one["type"] == "log":
        low, high, value = math.log(low), math.log(high), math.log(value)
    return 0.5 if high == low else (value - low) / (high - low)


def at(one, u):
    """The number at a place from 0 to 1."""
    low, high = one["low"], one["high"]
    u = min(1.0, max(0.0, u))
    if one["type"] == "int":
        return min(high, low + int(u * (high - low + 1)))
    if one["type"] == "log":
        value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
    else:
        value = low + u * (high - low)
    if one.get("quantum"):
        value = round(value / one["quantum"]) * one["quantum"]
    return min(high, max(low, value))


def drawn(one):
    return random.choice(one["values"]) if one["type"] == "choice" else at(one, random.random())


def changed(one, value):
    if one["type"] == "choice":
        return value if random.random() < 0.7 else random.choice(one["values"])
    return at(one, place(one, value) + random.gauss(0, SIGMA))


def main() -> int:
    mosaic = subprocess.Popen(
        ["mosaic", "sweep", "--optimizer", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    sign, space, known, rungs = 1, [], [], {}

    def say(message):
        print(json.dumps(message), file=mosaic.stdin, flush=True)

    for line in mosaic.stdout:
        message = json.loads(line)
        if message["type"] == "begin":
            sign = 1 if message["goal"] == "max" else -1
            space = message.get("space")
            if not space:
                mosaic.terminate()
                sys.exit("the space is not known: give --space or --grid, or a sweep file")
        elif message["type"] == "tell" and message["value"] is not None and message["state"] != "faulted":
            known.append((sign * message["value"], message["parameters"]))
        elif message["type"] == "report":
            value = -math.inf if message["value"] is None else sign * message["value"]
            others = [v for trial, v in rungs.setdefault(message["rung"], {}).items() if trial != message["trial"]]
            rungs[message["rung"]][message["trial"]] = value
            if message["asks"]:
                say({"prune": len(others) >= 3 and value < statistics.median(others)})
        elif message["type"] == "ask":
            random.seed(message["trial"])
            if len(known) < FIRST:
                say({"parameters": {one["name"]: drawn(one) for one in space}})
            else:
                best = sorted(known, key=lambda one: -one[0])[: max(1, len(known) // 3)]
                parent = random.choice(best)[1]
                say({"parameters": {one["name"]: changed(one, parent[one["name"]]) for one in space}})
        elif message["type"] == "end":
            print("best:", json.dumps(message["best"]))
    return mosaic.wait()


if __name__ == "__main__":
    sys.exit(main())
