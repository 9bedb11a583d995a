"""Runs programs unchanged under `mosaic run`, kills proxies and the daemon meanwhile, and compares every point with the
program's own tracker, bit for bit.

    run.py --mosaic "COMMAND" [--python PYTHON] [--only "WORDS"] [--cleanrl DIRECTORY] [fast|all]

Prints a table; exits 1 if a point is missing, doubled or different. `fast` needs the modules of tests/python/requirements.txt,
`all` the libraries that the programs import (docs/reference/programs.md).
"""
import argparse
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from own_points import own_points  # noqa: E402

FAST = [
    "q_learning_frozen_lake.py", "reinforce_cartpole.py", "reinforce_cartpole.py --seed 2", "regression_tensorboardx.py",
    "csv_logger.py", "json_lines.py", "python_dicts.py", "key_values.py", "monitor_csv.py", "two_writers.py",
]
SB3 = [("PPO", "CartPole-v1"), ("A2C", "CartPole-v1"), ("DQN", "CartPole-v1"), ("SAC", "Pendulum-v1"),
       ("TD3", "Pendulum-v1"), ("DDPG", "Pendulum-v1")]
BIG = (
    ["big/sb3.py %s %s 400" % of for of in SB3]
    + ["big/sb3.py PPO CartPole-v1 600 csv json stdout", "big/sb3.py A2C CartPole-v1 600 csv tensorboard"]
    + ["big/lightning_module.py csv", "big/lightning_module.py tensorboard", "big/torch_summary_writer.py"]
    + ["big/hf_trainer.py", "big/accelerate_tracker.py", "big/optuna_study.py", "big/flax_loop.py", "big/ray_tune.py"]
    + ["big/keras_csv.py", "big/wandb_offline.py"]
)
# Those of its files that run with the newest Gymnasium.
CLEANRL = [
    "ppo.py --total-timesteps 1024 --num-envs 2 --num-steps 64",
    "dqn.py --total-timesteps 900 --learning-starts 200",
    "c51.py --total-timesteps 700 --learning-starts 200",
    "pqn.py --total-timesteps 1024 --num-envs 2 --num-steps 64",
]
# Files of names that any program may use are observed where the user says so.
OBSERVED = {"big/keras_csv.py": "training.csv"}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Mosaic:
    def __init__(self, command, directory):
        self.command = shlex.split(command)
        self.state = directory + "/state"
        self.environment = dict(os.environ, MOSAIC_STATE_DIR=self.state)
        self.log = open(directory + "/daemon.log", "ab")
        self.daemon = None
        self.start()

    def start(self):
        self.daemon = subprocess.Popen(
            self.command + ["daemon", "--listen", "none", "--http", "none"],
            env=self.environment, stdout=self.log, stderr=self.log,
        )
        for _ in range(1200):
            if self.ask("GetHost") is not None:
                return
            if self.daemon.poll() is not None:
                raise RuntimeError("the daemon has ended; see " + self.log.name)
            time.sleep(0.05)
        raise RuntimeError("the daemon does not answer; see " + self.log.name)

    def ask(self, method, **request):
        """@return None if the daemon is not there. A command for each look would take more time than the programs do."""
        connection = UnixConnection(self.state + "/trainer/daemon.sock")
        try:
            connection.request("POST", "/mosaic.v1.Mosaic/" + method, json.dumps(request), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError("%s: HTTP %d %s" % (method, answer.status, body[:500]))
        return json.loads(body)

    def kill(self):
        self.daemon.kill()
        self.daemon.wait()

    def __call__(self, *words, cwd=None):
        done = subprocess.run(self.command + list(words), env=self.environment, cwd=cwd, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise RuntimeError("mosaic %s: exit %d\n%s" % (" ".join(words), done.returncode, done.stderr))
        return done.stdout

    def exported(self, run, directory):
        """@return everything known about the run, its points, its episodes"""
        self("export", run, "--format", "jsonl", "--kind", "metrics,episodes", "--out", directory)
        with open(directory + "/run.json") as file:
            shown = json.load(file)
        return (shown,) + tuple(json_lines("%s/%s.jsonl" % (directory, kind)) for kind in ("metrics", "episodes"))


def json_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def killer(mosaic, run, ended, kills):
    """The proxy as soon as it is there, then the daemon, then the proxy again, as often as the program's time allows."""
    while not ended.is_set():
        for what in ("proxy", "daemon", "proxy"):
            if ended.wait(0.3):
                return
            if what == "daemon":
                mosaic.kill()
                mosaic.start()
                kills["daemon"] += 1
                continue
            pid = int((mosaic.ask("GetRun", run=run) or {}).get("proxyPid", 0))
            try:
                os.kill(pid, signal.SIGKILL) if pid else None
                kills["proxy"] += 1 if pid else 0
            except ProcessLookupError:
                pass
        if ended.wait(20):
            return


def run_program(mosaic, python, words, directory):
    script, *arguments = words
    options = next((["--observe", glob] for name, glob in OBSERVED.items() if script.endswith(name)), [])
    if not script.startswith(HERE):
        options += ["-e", "PYTHONPATH=" + os.path.dirname(os.path.dirname(script))]  # the repository that it is in
    run = mosaic("run", *options, "--", python, script, *arguments, cwd=directory).strip()
    ended, kills = threading.Event(), {"proxy": 0, "daemon": 0}
    thread = threading.Thread(target=killer, args=(mosaic, run, ended, kills))
    thread.start()
    while not (mosaic.ask("GetRun", run=run) or {}).get("outcome"):
        time.sleep(0.1)
    ended.set()
    thread.join()
    return run, kills


def compare(own, points, episodes):
    """@return (points of the tracker, points that are the same in mosaic, what is wrong)"""
    series = {}
    for point in points:
        series.setdefault(point["name"], []).append([point["step"], point.get("value_text", point["value"])])
    total = same = 0
    wrong = []
    for file in own:
        for tag, expected in file["series"].items():
            total += len(expected)
            cut = (lambda p: p) if file["steps"] else (lambda p: p[1:])
            wanted = [cut(point) for point in expected]
            names = [n for n in series if n.split("@")[0] in (tag, "tracked/" + tag, "printed/" + tag, tag.replace("/", "."))]
            if any([cut(point) for point in series[name]] == wanted for name in names):
                same += len(expected)
            else:
                got = {name: len(series[name]) for name in names}
                wrong.append("%s: %s: %d points, mosaic has %s" % (file["file"], tag, len(expected), got or "none"))
        for name, key in (("episodes", lambda e: [e["total_reward"], e["steps"]]), ("returns", lambda e: e["total_reward"])):
            expected = file.get(name) or []
            total += len(expected)
            got = [key(e) for e in episodes]
            left = list(got)
            for episode in expected:
                if episode in left:
                    left.remove(episode)
                    same += 1
                else:
                    wrong.append("%s: an episode %s is missing" % (file["file"], episode))
                    break
    return total, same, wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("which", choices=["fast", "all"], nargs="?", default="fast")
    parser.add_argument("--mosaic", default="mosaic")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--cleanrl", default="", help="a copy of CleanRL's repository")
    parser.add_argument("--only", default="", help="words, one of which a program's name has")
    args = parser.parse_args()
    programs = [(p, os.path.join(HERE, p)) for p in FAST + (BIG if args.which == "all" else [])]
    if args.which == "all" and args.cleanrl:
        programs += [("CleanRL " + p, os.path.join(os.path.abspath(args.cleanrl), "cleanrl", p)) for p in CLEANRL]
    directory = tempfile.mkdtemp(prefix="mosaic-programs-")
    mosaic = Mosaic(args.mosaic, directory)
    failed = 0
    print("| Program | Own tracker | Points | The same in mosaic | Proxy, daemon killed | Seconds |\n|---|---|---|---|---|---|")
    try:
        for i, (name, line) in enumerate(programs):
            if not any(word in name for word in args.only.split(" ")):
                continue
            place = "%s/%d" % (directory, i)
            os.mkdir(place)
            begin = time.time()
            run, kills = run_program(mosaic, args.python, line.split(" "), place)
            seconds = time.time() - begin
            log = "%s/log%d" % (directory, i)
            with open(log, "w") as file:
                file.write(mosaic("logs", run))
            own = own_points(place, log)
            shown, points, episodes = mosaic.exported(run, "%s/export%d" % (directory, i))
            total, same, wrong = compare(own, points, episodes)
            if shown["outcome"] != "succeeded":
                wrong.append("the run ended as %s: %s\n%s" % (
                    shown["state"], shown["reason"], "\n".join(shown["stderr_tail"][-5:])))
            if total == 0:
                wrong.append("its own tracker holds nothing")
            kinds = ", ".join(sorted({file["kind"] for file in own}))
            print("| %s | %s | %d | %d | %d, %d | %.0f |" % (
                name, kinds, total, same, kills["proxy"], kills["daemon"], seconds), flush=True)
            for text in wrong[:8]:
                print("    " + text, flush=True)
            failed += bool(wrong)
    finally:
        mosaic.kill()
    if failed == 0:
        shutil.rmtree(directory)
    else:
        print("%d programs differ; their files are in %s" % (failed, directory))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
