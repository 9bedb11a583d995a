"""How many records are left when a training is killed: the league table of docs/explanation/comparison.md.

    python bench/lost_records.py --mosaic mosaic [--kills 10] [TRACKER…]

A program logs the numbers 0, 1, 2 … as fast as a small training step does (1 ms), each as one scalar, and counts the
calls that have returned in a shared memory map, which survives its death. After a random time every process of it gets
SIGKILL, as the kernel's out-of-memory killer or a scheduler sends it. Then the tracker's own reader counts what is left. Under
mosaic the same program runs unchanged; its worker and its proxy are killed, in every second round the daemon, too, and
mosaic's points are counted when a daemon runs again. A tracker that is not installed is named and left out.
"""
import argparse
import csv
import glob
import importlib.util
import json
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import mmap, os, struct, sys, time
how, calls = sys.argv[1:]
shared = mmap.mmap(os.open(calls, os.O_RDWR), 8)
step = 0
def returned():
    shared[:8] = struct.pack("<q", step)
%s
while True:
    log(step)
    step += 1
    returned()
    time.sleep(0.001)
"""
WRITERS = {
    "tensorboardX": """
from tensorboardX import SummaryWriter
writer = SummaryWriter("tb")
log = lambda step: writer.add_scalar("x", step, step)
""",
    "torch.utils.tensorboard": """
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("tb")
log = lambda step: writer.add_scalar("x", step, step)
""",
    "wandb (offline)": """
os.environ["WANDB_MODE"] = "offline"
import wandb
run = wandb.init(project="kill", dir=".")
log = lambda step: run.log({"x": step}, step=step)
""",
    "mlflow (sqlite)": """
import mlflow
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.start_run()
log = lambda step: mlflow.log_metric("x", step, step=step)
""",
    "lightning CSVLogger": """
from lightning.pytorch.loggers import CSVLogger
logger = CSVLogger(".", name="csv")
def log(step):
    logger.log_metrics({"x": step}, step=step)
    logger.save() if step % 100 == 99 else None
""",
    "csv module": """
import csv
file = open("progress.csv", "w", newline="")
writer = csv.writer(file)
writer.writerow(["step", "x"])
log = lambda step: writer.writerow([step, step])
""",
    "print": """
log = lambda step: print("step=%d x=%d" % (step, step))
""",
    "print, flushed": """
log = lambda step: print("step=%d x=%d" % (step, step), flush=True)
""",
}
NEEDS = {"tensorboardX": "tensorboardX", "torch.utils.tensorboard": "torch", "wandb (offline)": "wandb",
         "mlflow (sqlite)": "mlflow", "lightning CSVLogger": "lightning"}


def event_points(directory):
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    return sum(len(event.summary.value) > 0 for path in glob.glob(directory + "/**/*tfevents*", recursive=True)
               for event in EventFileLoader(path).Load())


def wandb_points(directory):
    """Records of a .wandb file: blocks of 32 KiB, each with chunks of checksum, length and kind (LevelDB's log)."""
    from wandb.proto import wandb_internal_pb2

    count = 0
    # "latest-run" is a link to the run.
    for path in {os.path.realpath(path) for path in glob.glob(directory + "/**/*.wandb", recursive=True)}:
        with open(path, "rb") as file:
            data = file.read()
        at, whole = 7, b""
        while at + 7 <= len(data):
            if 32768 - at % 32768 < 7:
                at += 32768 - at % 32768
                continue
            length, kind = struct.unpack("<HB", data[at + 4:at + 7])
            chunk = data[at + 7:at + 7 + length]
            if kind == 0 or len(chunk) < length:
                break
            at += 7 + length
            # 1: a whole record; 2, 3, 4: its first, a middle, its last part.
            whole = chunk if kind in (1, 2) else whole + chunk
            if kind in (1, 4):
                record = wandb_internal_pb2.Record()
                record.ParseFromString(whole)
                count += record.HasField("history")
    return count


def mlflow_points(directory):
    import sqlite3

    try:
        return sqlite3.connect(directory + "/mlflow.db").execute("select count(*) from metrics").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def csv_points(directory):
    paths = glob.glob(directory + "/**/*.csv", recursive=True)
    return sum(max(0, sum(len(row) == 2 and row[1] != "" for row in csv.reader(open(path, newline=""))) - 1) for path in paths)


def line_points(directory):
    with open(directory + "/stdout") as file:
        return sum(line.endswith("\n") and line.startswith("step=") for line in file)


READERS = {"tensorboardX": event_points, "torch.utils.tensorboard": event_points, "wandb (offline)": wandb_points,
           "mlflow (sqlite)": mlflow_points, "lightning CSVLogger": csv_points, "csv module": csv_points,
           "print": line_points, "print, flushed": line_points}


class Calls:
    """The number of calls that have returned, in a file that the program maps."""

    def __init__(self, directory):
        self.path = directory + "/calls"
        with open(self.path, "wb") as file:
            file.write(bytes(8))
        self.map = mmap.mmap(os.open(self.path, os.O_RDWR), 8)

    def value(self):
        return struct.unpack("<q", self.map[:8])[0]

    def reach(self, wanted, what):
        deadline = time.time() + 120
        while self.value() < wanted:
            if time.time() > deadline:
                raise SystemExit("%s: only %d calls in two minutes" % (what, self.value()))
            time.sleep(0.01)


def alone(directory, how, wanted):
    calls = Calls(directory)
    with open(directory + "/stdout", "wb") as out, open(directory + "/stderr", "wb") as err:
        child = subprocess.Popen([sys.executable, "-c", PROGRAM % WRITERS[how], how, calls.path], cwd=directory,
                                 stdout=out, stderr=err, start_new_session=True)
    calls.reach(wanted, how)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    time.sleep(0.5)
    return calls.value(), READERS[how](directory)


def under_mosaic(mosaic, directory, how, wanted, kill_daemon):
    state = directory + "/state"
    environment = {**os.environ, "MOSAIC_STATE_DIR": state, "NO_COLOR": "1"}

    def call(*words):
        answer = subprocess.run(mosaic + list(words), env=environment, cwd=directory, capture_output=True, text=True)
        if answer.returncode not in (0, 1):
            raise SystemExit("mosaic %s: %s" % (" ".join(words), answer.stderr))
        return answer.stdout

    up = lambda: call("up", "--http", "127.0.0.1:0", "--listen", "none")
    up()
    try:
        calls = Calls(directory)
        run = call("run", "--", sys.executable, "-c", PROGRAM % WRITERS[how], how, calls.path).strip()
        calls.reach(wanted, how + " under mosaic")
        shown = json.loads(call("show", run, "-o", "json"))
        os.kill(shown["proxy_pid"], signal.SIGKILL)
        if kill_daemon:
            os.kill(json.load(open(state + "/trainer/daemon.json"))["pid"], signal.SIGKILL)
        os.killpg(shown["worker_pid"], signal.SIGKILL)
        returned = calls.value()
        if kill_daemon:
            up()
        call("wait", run)
        points = json.loads(call("metrics", run, "-o", "json"))
        return returned, sum(one["points"] for one in points if one["name"] == "x")
    finally:
        call("down")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("trackers", nargs="*", metavar="TRACKER", help=", ".join(WRITERS))
    parser.add_argument("--mosaic", required=True, help="the executable")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    # A shell's own setting would decide how much "print" loses.
    os.environ.pop("PYTHONUNBUFFERED", None)
    print("%-26s %-10s %6s %10s %10s %8s %8s" % ("", "", "kills", "returned", "left", "lost", "most"))
    for how in options.trackers or WRITERS:
        if how not in WRITERS:
            raise SystemExit("there is no tracker %r; there are: %s" % (how, ", ".join(WRITERS)))
        if how in NEEDS and importlib.util.find_spec(NEEDS[how]) is None:
            print("%-26s not installed, left out" % how)
            continue
        for place in ("alone", "in mosaic"):
            rounds = []
            for kill in range(options.kills):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
                    wanted = random.randint(200, 3000)
                    if place == "alone":
                        rounds.append(alone(directory, how, wanted))
                    else:
                        rounds.append(under_mosaic([options.mosaic], directory, how, wanted, kill % 2 == 1))
            lost = [returned - left for returned, left in rounds]
            returned = sum(one for one, _ in rounds)
            print("%-26s %-10s %6d %10d %10d %7.1f%% %8d" % (how, place, len(rounds), returned, returned - sum(lost),
                                                        100 * sum(lost) / returned, max(lost)), flush=True)


main()
