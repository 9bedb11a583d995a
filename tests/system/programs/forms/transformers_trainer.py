"""Transformers' Trainer: dictionaries without a step on standard output, trainer_state.json in each checkpoint, old checkpoints removed, and event files with names of their own."""
import json
import os
import shutil

from expect import EventFile, Expected, pause, value

STEPS, EVERY = 60, 10
expected = Expected()
events = EventFile("out/runs/host")
log = []


def write_state(directory, step):
    os.makedirs(directory, exist_ok=True)
    with open(directory + "/trainer_state.json", "w") as file:
        json.dump({"epoch": 3 * step / STEPS, "global_step": step, "log_history": log, "max_steps": STEPS,
                   "num_train_epochs": 3, "best_model_checkpoint": None}, file, indent=2)


for step in range(1, STEPS + 1):
    epoch = 3 * step / STEPS
    loss = value(step) + step / 64
    values = {"loss": loss, "epoch": epoch}
    print(values, flush=True)
    log.append({**values, "step": step})
    events.scalar("train/loss", loss, step)
    expected.point("loss", step, loss)
    expected.point("epoch", step, epoch)
    if step % EVERY == 0:
        values = {"eval_loss": loss + 0.125, "epoch": epoch}
        print(values, flush=True)
        log.append({**values, "step": step})
        expected.point("eval_loss", step, loss + 0.125)
        expected.point("epoch", step, epoch)
        at = "out/checkpoint-%d" % step
        write_state(at, step)
        if step > 2 * EVERY:
            shutil.rmtree("out/checkpoint-%d" % (step - 2 * EVERY))
    pause()
expected.parameters[""] = {"max_steps": STEPS, "num_train_epochs": 3}
write_state("out", STEPS)
expected.write()
