"""Optuna chooses the points of a mosaic sweep (mosaic-optimizer/1): TPE over a space, told the value of each trial.

    pip install optuna
    python examples/optuna_sweep.py --name ppo --metric eval/mean_reward:max --budget 40runs --max-parallel 4 \
        --space 'lr=log(1e-5,1e-2)' --space 'layers=int(1,4)' -- python train.py --lr {lr} --layers {layers}
    python examples/optuna_sweep.py --name ppo sweep.yaml    # also a file of Weights & Biases with method: bayes

What follows the script goes to `mosaic sweep --optimizer`. The sweep remembers its trials, and each start tells them all, so
after any death the same command goes on; `mosaic run --attempts 5 -- python examples/optuna_sweep.py …` restarts it by itself.
"""

import json
import subprocess
import sys

import optuna


def distribution(one):
    if one["type"] == "choice":
        return optuna.distributions.CategoricalDistribution(one["values"])
    if one["type"] == "int":
        return optuna.distributions.IntDistribution(one["low"], one["high"])
    log = one["type"] == "log"
    # A logarithmic range has no steps in Optuna.
    return optuna.distributions.FloatDistribution(
        one["low"], one["high"], log=log, step=None if log else one.get("quantum")
    )


def main() -> int:
    mosaic = subprocess.Popen(
        ["mosaic", "sweep", "--optimizer", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    study = None
    for line in mosaic.stdout:
        message = json.loads(line)
        if message["type"] == "begin":
            direction = "maximize" if message["goal"] == "max" else "minimize"
            if "space" not in message:
                mosaic.terminate()
                sys.exit("the space is not known: give --space or --grid, or a sweep file")
            space = {one["name"]: distribution(one) for one in message["space"]}
            study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=0))
        elif message["type"] == "tell":
            failed = message["value"] is None or message["state"] in ("faulted", "refused", "deleted")
            study.add_trial(
                optuna.trial.create_trial(
                    params=message["parameters"],
                    distributions=space,
                    value=None if failed else message["value"],
                    state=optuna.trial.TrialState.FAIL if failed else optuna.trial.TrialState.COMPLETE,
                )
            )
        elif message["type"] == "ask":
            point = study.ask(space)
            print(json.dumps({"parameters": point.params}), file=mosaic.stdin, flush=True)
        elif message["type"] == "end":
            print("best:", json.dumps(message["best"]))
    return mosaic.wait()


sys.exit(main())
