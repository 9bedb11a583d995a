"""Optuna chooses the points of a mosaic sweep and, if asked, ends bad trials (mosaic-optimizer/1).

    pip install optuna                # and cmaes, for --sampler cmaes
    python examples/optuna_sweep.py --name ppo --metric eval/mean_reward:max --budget 40runs --max-parallel 4 \
        --space 'lr=log(1e-5,1e-2)' --space 'layers=int(1,4)' -- python train.py --lr {lr} --layers {layers}
    python examples/optuna_sweep.py --name ppo sweep.yaml    # also a file of Weights & Biases with method: bayes
    python examples/optuna_sweep.py --storage sqlite:///my.db --study mine --name ppo …    # a study as it is

`--sampler` is tpe (the default), cmaes or random; `--pruner` (median, asha or hyperband) decides for a sweep with
`--stop optimizer:min=…,max=…`. With `--storage` the study outlives every death, and one that exists goes on: its trials
count, and its parameters are the space if the command line gives none. All other words go to `mosaic sweep --optimizer`.
The sweep remembers its trials, and each start tells them all, so after any death the same command goes on;
`mosaic run --attempts 5 -- python examples/optuna_sweep.py …` restarts it by itself.
"""

import argparse
import json
import subprocess
import sys

import optuna
from optuna.trial import TrialState

SAMPLERS = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed, constant_liar=True),
    "cmaes": lambda seed: optuna.samplers.CmaEsSampler(seed=seed),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}
PRUNERS = {
    "median": optuna.pruners.MedianPruner,
    "asha": optuna.pruners.SuccessiveHalvingPruner,
    "hyperband": optuna.pruners.HyperbandPruner,
}
#: A trial's number in the sweep, as an attribute of the study's.
MOSAIC = "mosaic_trial"


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


class Study:
    def __init__(self, begin, options):
        direction = "maximize" if begin["goal"] == "max" else "minimize"
        self.study = optuna.create_study(
            study_name=options.study or (begin["sweep"] if options.storage else None),
            storage=options.storage,
            load_if_exists=True,
            direction=direction,
            pruner=PRUNERS[options.pruner](),
        )
        if self.study.direction.name.lower() != direction:
            raise SystemExit(f"the study {self.study.study_name} has another direction: give --metric {begin['metric']}:"
                             f"{'min' if direction == 'maximize' else 'max'}")
        self.sweep = begin["sweep"]
        self.sampler = SAMPLERS[options.sampler]
        known = self.study.get_trials(deepcopy=False)
        if "space" in begin:
            self.space = {one["name"]: distribution(one) for one in begin["space"]}
        else:
            self.space = {name: one for trial in known for name, one in trial.distributions.items()}
        if not self.space:
            raise SystemExit("the space is not known: give --space or --grid, a sweep file, or a study that has trials")
        # One that a death has cut off before mosaic could hear of it is nobody's.
        begun = self.study.user_attrs.get(MOSAIC, len(known))
        for trial in known[begun:]:
            if trial.state == TrialState.RUNNING and MOSAIC not in trial.user_attrs:
                self.study.tell(trial.number, state=TrialState.FAIL)
        #: Trials of the sweep by their numbers.
        self.trials = {}
        for trial in known:
            sweep, number = trial.user_attrs.get(MOSAIC, (None, None))
            if sweep == self.sweep:
                self.trials[number] = optuna.trial.Trial(self.study, trial._trial_id)

    def ask(self, number):
        # One that was asked for just before a death is asked for again.
        if number not in self.trials:
            # Points depend on what the study knows, not on how often this program has died.
            self.study.sampler = self.sampler(number)
            self.study.set_user_attr(MOSAIC, len(self.study.get_trials(deepcopy=False)))
            self.trials[number] = self.study.ask(self.space)
            self.trials[number].set_user_attr(MOSAIC, (self.sweep, number))
        return self.trials[number].params

    def trial(self, number, parameters):
        """The study's trial; a study without a storage has forgotten it, and one of other values was never begun."""
        known = self.trials.get(number)
        if known is None or known.params != parameters:
            self.study.add_trial(
                optuna.trial.create_trial(
                    state=TrialState.RUNNING, params=parameters, distributions=self.space,
                    user_attrs={MOSAIC: (self.sweep, number)},
                )
            )
            known = optuna.trial.Trial(self.study, self.study.get_trials(deepcopy=False)[-1]._trial_id)
            self.trials[number] = known
        return known

    def report(self, number, parameters, step, value):
        trial = self.trial(number, parameters)
        if value is not None and step not in self._frozen(trial).intermediate_values:
            trial.report(value, step)
        return bool(trial.should_prune())

    def tell(self, number, parameters, state, value):
        trial = self.trial(number, parameters)
        if self._frozen(trial).state.is_finished():
            return
        if state == "pruned":
            # Optuna takes the last value at a rung.
            self.study.tell(trial, state=TrialState.PRUNED)
        elif value is None or state in ("faulted", "refused", "deleted", "cancelled"):
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            self.study.tell(trial, value)

    def _frozen(self, trial):
        return self.study.get_trials(deepcopy=False)[trial.number]


def main() -> int:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--storage")
    parser.add_argument("--study")
    parser.add_argument("--sampler", choices=SAMPLERS, default="tpe")
    parser.add_argument("--pruner", choices=PRUNERS, default="median")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options, rest = parser.parse_known_args(words[:end])
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    mosaic = subprocess.Popen(
        ["mosaic", "sweep", "--optimizer", *rest, *words[end:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    study = None

    def say(answer):
        print(json.dumps(answer), file=mosaic.stdin, flush=True)

    try:
        for line in mosaic.stdout:
            message = json.loads(line)
            if message["type"] == "begin":
                study = Study(message, options)
            elif message["type"] == "tell":
                study.tell(message["trial"], message["parameters"], message["state"], message["value"])
            elif message["type"] == "ask":
                say({"parameters": study.ask(message["trial"])})
            elif message["type"] == "report":
                worse = study.report(message["trial"], message["parameters"], message["step"], message["value"])
                if message["asks"]:
                    say({"prune": worse})
            elif message["type"] == "end":
                print("best:", json.dumps(message["best"]))
    except SystemExit:
        mosaic.terminate()
        raise
    return mosaic.wait()


if __name__ == "__main__":
    sys.exit(main())
