"""A supervised loop with tensorboardX: scalars at every step, a group of scalars, a picture, hyperparameters."""
import numpy as np
from tensorboardX import SummaryWriter

rng = np.random.default_rng(0)
x = rng.normal(size=(512, 8))
y = x @ rng.normal(size=8) + 0.1 * rng.normal(size=512)
w = np.zeros(8)
writer = SummaryWriter()
for step in range(1500):
    batch = rng.integers(0, 512, 32)
    error = x[batch] @ w - y[batch]
    w -= 0.01 * x[batch].T @ error / 32
    writer.add_scalar("train/loss", float((error**2).mean()), step)
    if step % 50 == 0:
        held = x @ w - y
        writer.add_scalars("eval", {"mse": float((held**2).mean()), "mae": float(np.abs(held).mean())}, step)
        print(f"step {step}: loss {float((error**2).mean()):.4f}")
writer.add_image("weights", np.tile(np.abs(w) / np.abs(w).max(), (3, 8, 1)).astype(np.float32), 0)
writer.add_hparams({"lr": 0.01, "batch": 32}, {"hparam/mse": float(((x @ w - y) ** 2).mean())})
writer.close()
