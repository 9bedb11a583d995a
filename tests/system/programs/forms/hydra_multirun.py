"""Hydra's multirun: a directory for each job, with its composed config, its overrides, its log, and what the program writes."""
import os

from expect import Expected, pause, value

expected = Expected()
for job, lr in enumerate([0.1, 0.01, 0.001]):
    directory = "multirun/2026-11-27/12-00-00/%d" % job
    os.makedirs(directory + "/.hydra")
    with open(directory + "/.hydra/config.yaml", "w") as file:
        file.write("optimizer:\n  name: adam\n  lr: %s\nenv: CartPole-v1\n" % lr)
    with open(directory + "/.hydra/overrides.yaml", "w") as file:
        file.write("- optimizer.lr=%s\n" % lr)
    with open(directory + "/train.log", "w") as file:
        file.write("[2026-11-27 12:00:00,000][__main__][INFO] - job %d\n" % job)
    print("[2026-11-27 12:00:00,000][HYDRA] \t#%d : optimizer.lr=%s" % (job, lr), flush=True)
    expected.parameters[str(job)] = {"optimizer.lr": lr, "optimizer.name": "adam", "env": "CartPole-v1"}
    with open(directory + "/metrics.csv", "w") as file:
        file.write("step,loss\n")
        for step in range(40):
            file.write("%d,%r\n" % (step, value(step, job)))
            file.flush()
            expected.point("loss", step, value(step, job), within=str(job))
            pause()
expected.write()
