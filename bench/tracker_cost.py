"""What 100 000 scalars cost the training loop and the proxy, by how a program writes them. Processor seconds.

    python bench/tracker_cost.py --mosaic mosaic

The training loop's figure is that of its own process, without mosaic (alone) and under `mosaic run`; the proxy's is less
that of a proxy whose worker writes nothing. Needs tensorboardX, and an executable: it runs in a directory of its own.
"""
import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time

COUNT = 100_000
LOOP = """
import json, os, sys, time
how, end = sys.argv[1:]
if how == "SummaryWriter":
    from tensorboardX import SummaryWriter
    writer = SummaryWriter("tb")
begin = time.process_time()
for step in range(%d if how != "nothing" else 0):
    for name in NAMES:
        if how == "SummaryWriter":
            writer.add_scalar(name, step * 0.5, step)
    if how == "JSON line":
        print(json.dumps({"step": step, **{name: step * 0.5 for name in NAMES}}))
if how == "SummaryWriter":
    writer.close()
sys.stdout.flush()
open("cost", "w").write(str(time.process_time() - begin))
while end and not os.path.exists(end):
    time.sleep(0.1)
""".replace("NAMES", repr(["loss/%d" % i for i in range(10)])) % (COUNT // 10)


def processor_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def loop(directory, how):
    os.makedirs(directory)
    subprocess.run([sys.executable, "-c", LOOP, how, ""], cwd=directory, stdout=subprocess.DEVNULL, check=True)
    return float(open(directory + "/cost").read())


def under_mosaic(mosaic, environment, directory, how):
    os.makedirs(directory)
    call = lambda *words: subprocess.run(
        mosaic + list(words), env=environment, cwd=directory, capture_output=True, text=True, check=True).stdout
    run = call("run", "--", sys.executable, "-c", LOOP, how, directory + "/end").strip()
    wanted, shown, deadline = COUNT if how != "nothing" else 0, {}, time.time() + 300
    while time.time() < deadline:
        shown = json.loads(call("show", run, "-o", "json"))
        if os.path.exists(directory + "/cost") and shown["telemetry"]["metrics"] == wanted:
            break
        time.sleep(0.5)
    else:
        raise RuntimeError("%d of %d points are stored" % (shown["telemetry"]["metrics"], wanted))
    proxy = processor_seconds(shown["proxy_pid"])
    open(directory + "/end", "w").close()
    call("wait", run)
    return float(open(directory + "/cost").read()), proxy


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mosaic", default="mosaic")
    mosaic = shlex.split(parser.parse_args().mosaic)
    with tempfile.TemporaryDirectory() as root:
        environment = dict(os.environ, MOSAIC_STATE_DIR=root + "/state")
        daemon = subprocess.Popen(mosaic + ["daemon", "--listen", "none", "--http", "none"], env=environment,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while subprocess.run(mosaic + ["status"], env=environment, capture_output=True).returncode != 0:
                time.sleep(0.2)
            idle = under_mosaic(mosaic, environment, root + "/nothing", "nothing")[1]
            print("| %d scalars by | loop alone | loop under mosaic | proxy |\n|---|---|---|---|" % COUNT)
            for how in ("SummaryWriter", "JSON line"):
                alone = loop(root + "/alone " + how, how)
                own, proxy = under_mosaic(mosaic, environment, root + "/" + how, how)
                print("| %s | %.2f | %.2f | %.2f |" % (how, alone, own, proxy - idle), flush=True)
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
