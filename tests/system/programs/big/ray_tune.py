"""Ray Tune with a function trainable: result.json, progress.csv and event files in each trial's directory."""
import os

from ray import tune


def trainable(config):
    loss = 1.0
    for step in range(20):
        loss *= 1 - config["lr"]
        tune.report({"loss": loss, "step": step})


tune.Tuner(
    trainable,
    param_space={"lr": tune.grid_search([0.01, 0.1])},
    run_config=tune.RunConfig(name="demo", storage_path=os.path.abspath("ray_results")),
    tune_config=tune.TuneConfig(max_concurrent_trials=1),
).fit()
