"""An Optuna study whose trials each have an event file."""
import optuna
from torch.utils.tensorboard import SummaryWriter


def objective(trial):
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    width = trial.suggest_int("width", 4, 64)
    writer = SummaryWriter(f"runs/trial_{trial.number}")
    loss = 1.0
    for step in range(60):
        loss = loss * (1 - lr) + 1 / (width * (step + 10))
        writer.add_scalar("loss", loss, step)
    writer.add_hparams({"lr": lr, "width": width}, {"final": loss})
    writer.close()
    return loss


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
study.optimize(objective, n_trials=6)
print("best", study.best_params)
