"""W&B as its quickstart uses it, without an account: WANDB_MODE=offline in the environment, or as here."""
import random
import time

import numpy
import wandb

run = wandb.init(project="mosaic-programs", mode="offline", config={"lr": 0.02, "layers": [64, 64], "api_key": "s3cret"})
random.seed(1)
loss = 2.0
for epoch in range(300):
    loss *= 1 - 0.02 * random.random()
    run.log({"train/loss": loss, "train/acc": 1 - loss / 2, "epoch": epoch})
    if epoch % 100 == 50:
        run.log({"picture": wandb.Image(numpy.full((8, 8, 3), epoch % 256, dtype="uint8"))})
    time.sleep(0.02)
run.log({"final": float("nan")})
run.finish()
