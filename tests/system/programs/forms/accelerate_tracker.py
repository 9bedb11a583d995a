"""Accelerate's TensorBoard tracker: an event file, hparams as YAML beside it, a bar on standard error."""
import sys

from expect import EventFile, Expected, pause, value

expected = Expected()
events = EventFile("logs/my_project")
with open("logs/my_project/hparams.yaml", "w") as file:
    file.write("learning_rate: 0.0003\nnum_train_epochs: 2\nseed: 42\n")
expected.parameters[""] = {"learning_rate": 0.0003, "num_train_epochs": 2, "seed": 42}
for step in range(60):
    sys.stderr.write("\rSteps: %d%%|###   | %d/60 [00:01<00:01, 20.0it/s, lr=0.0003, step_loss=%.3f]" % (
        100 * step // 60, step, value(step)))
    sys.stderr.flush()
    events.scalar("train_loss", value(step), step)
    expected.point("train_loss", step, value(step))
    # The values beside a bar are series, too.
    expected.point("lr", step, 0.0003)
    expected.point("step_loss", step, value(step))
    pause()
expected.write()
