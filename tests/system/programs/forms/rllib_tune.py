"""RLlib under Tune: a directory for each trial in ~/ray_results, with params.json, and result.json beside its copies."""
import json
import os

from expect import EventFile, Expected, pause, value

expected = Expected()
experiment = os.path.expanduser("~/ray_results/PPO_2026-11-27_12-00-00")
trials = []
for number, lr in enumerate([0.001, 0.0001]):
    directory = "%s/PPO_CartPole-v1_1a2b3_%05d_%d_lr=%s_2026-11-27_12-00-00" % (experiment, number, number, lr)
    os.makedirs(directory)
    with open(directory + "/params.json", "w") as file:
        json.dump({"lr": lr, "env": "CartPole-v1"}, file)
    with open(directory + "/progress.csv", "w") as file:
        file.write("env_runners/episode_return_mean,training_iteration,config/lr\n")
    trials.append((directory, EventFile(directory), lr))
for iteration in range(1, 101):
    for number, (directory, events, lr) in enumerate(trials):
        mean, steps = value(iteration, number), 4000 * iteration
        result = {
            "env_runners": {"episode_return_mean": mean, "num_env_steps_sampled_lifetime": steps},
            "training_iteration": iteration, "num_env_steps_sampled_lifetime": steps, "done": False, "trial_id": "1a2b3_%05d" % number,
            "pid": os.getpid(), "hostname": os.uname().nodename, "node_ip": "127.0.0.1", "config": {"lr": lr, "env": "CartPole-v1"},
        }
        with open(directory + "/result.json", "a") as file:
            file.write(json.dumps(result) + "\n")
        with open(directory + "/progress.csv", "a") as file:
            file.write("%r,%d,%r\n" % (mean, iteration, lr))
        events.scalar("ray/tune/env_runners/episode_return_mean", mean, steps)
        child = "PPO_CartPole-v1-%d" % number
        expected.point("env_runners/episode_return_mean", steps, mean, within=child)
        expected.point("env_runners/num_env_steps_sampled_lifetime", steps, steps, within=child)
        expected.point("training_iteration", steps, iteration, within=child)
        expected.parameters[child] = {"lr": lr, "env": "CartPole-v1"}
    pause()
expected.write()
