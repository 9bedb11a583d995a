"""Brax: `progress_fn` of its notebooks prints the metrics, arrays of JAX among them."""
from expect import Expected, pause, value

expected = Expected()
for i in range(40):
    steps, reward, length = 1_000_000 * i, value(i), 100.0 + i
    print({"step": steps, "eval/episode_reward": "REWARD", "eval/avg_episode_length": length}.__repr__().replace(
        "'REWARD'", "Array(%r, dtype=float32)" % reward), flush=True)
    expected.point("eval/episode_reward", steps, reward)
    expected.point("eval/avg_episode_length", steps, length)
    pause()
expected.write()
