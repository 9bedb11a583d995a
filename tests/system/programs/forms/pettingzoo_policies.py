"""Several policies of a PettingZoo environment: nested numbers of each in one log of JSON lines."""
import json
import os

from expect import Expected, pause, value

expected = Expected()
os.makedirs("results")
with open("results/metrics.jsonl", "w") as file:
    for i in range(50):
        rewards = {"player_%d" % player: value(i, player) for player in range(3)}
        losses = {policy: {"loss": value(i, 4) / 2} for policy in ("hunter", "prey")}
        file.write(json.dumps({"global_step": 100 * i, "policy_reward_mean": rewards, "learner": losses}) + "\n")
        file.flush()
        for player, reward in rewards.items():
            expected.point("policy_reward_mean/" + player, 100 * i, reward)
        for policy, numbers in losses.items():
            expected.point("learner/%s/loss" % policy, 100 * i, numbers["loss"])
        pause()
expected.write()
