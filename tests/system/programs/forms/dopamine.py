"""Dopamine: a line that is drawn again and again, absl's log on standard error, and an event file."""
import sys

from expect import EventFile, Expected, pause, value

expected = Expected()
events = EventFile("agent/logs")
for iteration in range(40):
    sys.stderr.write("I1127 12:00:00.000000 1400 run_experiment.py:600] Starting iteration %d\n" % iteration)
    for steps in range(200, 1001, 200):
        sys.stdout.write("Steps executed: %d Episode length: 200 Return: %s\r" % (steps, value(steps)))
        sys.stdout.flush()
        for name, number in (("Steps_executed", steps), ("Episode_length", 200), ("Return", value(steps))):
            expected.point(name, 5 * iteration + steps // 200 - 1, number)
    mean = value(iteration)
    sys.stderr.write(
        "I1127 12:00:00.000000 1400 run_experiment.py:445] Average undiscounted return per training episode: %.2f\n" % mean)
    sys.stderr.write("I1127 12:00:00.000000 1400 run_experiment.py:447] Average training steps per second: 210.15\n")
    for tag in ("Train/AverageReturns", "Eval/AverageReturns"):
        events.scalar(tag, mean, iteration)
        expected.point(tag, iteration, mean)
    pause()
expected.write()
