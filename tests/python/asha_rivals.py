"""Plays recorded curves under the ASHA of Optuna and, if it can be imported, of Ray Tune; prints whom each stopped where, as JSON.

Standard input: {"epochs", "workers", "min", "reduction", "trials": [{"pace", "curve"}, …]}; a lower value is better.
"""

import json
import sys


def play(given, stops):
    """Each worker takes the next trial; epochs end in order of time. `stops(trial, epoch, value)` decides."""
    busy, stopped, following = [], [], 0
    while True:
        while len(busy) < given["workers"] and following < len(given["trials"]):
            busy.append([play.now + given["trials"][following]["pace"], following, 0])
            following += 1
        if not busy:
            return stopped
        soonest = min(busy)
        play.now = soonest[0]
        _, trial, epoch = soonest
        epoch += 1
        soonest[2] = epoch
        soonest[0] += given["trials"][trial]["pace"]
        if stops(trial, epoch, given["trials"][trial]["curve"][epoch - 1]):
            stopped.append([trial, epoch])
        elif epoch < given["epochs"]:
            continue
        busy.remove(soonest)


def optuna_rule(given):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=given["min"], reduction_factor=given["reduction"])
    study = optuna.create_study(direction="minimize", pruner=pruner)
    trials = []

    def stops(trial, epoch, value):
        while len(trials) <= trial:
            trials.append(study.ask())
        # At the end of a trial there is nothing to stop.
        trials[trial].report(value, epoch)
        if epoch == given["epochs"]:
            return False
        stop = trials[trial].should_prune()
        if stop:
            study.tell(trials[trial], state=optuna.trial.TrialState.PRUNED)
        return stop

    return stops


def ray_rule(given):
    from ray.tune.schedulers.async_hyperband import AsyncHyperBandScheduler, _Bracket

    class Trial:
        def __init__(self, number):
            self.trial_id = str(number)

    bracket = _Bracket(given["min"], given["epochs"], given["reduction"], 0)
    # At the end of a trial there is nothing to stop.
    return lambda trial, epoch, value: epoch < given["epochs"] and bracket.on_result(
        Trial(trial), epoch, -value
    ) == AsyncHyperBandScheduler.STOP


def main():
    given = json.load(sys.stdin)
    answer = {}
    for name, rule in (("optuna", optuna_rule), ("ray", ray_rule)):
        try:
            decides = rule(given)
        except ImportError:
            continue
        play.now = 0.0
        answer[name] = play(given, decides)
    print(json.dumps(answer))


main()
