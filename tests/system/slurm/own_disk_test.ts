/**
 * Runs that Slurm places on nodes which share no disk with the daemon: they do not see its state
 * directory.
 */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { Relay } from "../../faults/relay.ts";
import { configOf } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState } from "../../harness/runs.ts";
import { processesOf } from "../../harness/processes.ts";
import { kindOf } from "../../../src/os/files/file_kinds.ts";
import { until } from "../../harness/wait.ts";
import { Cluster, missing, nothingLeft } from "./cluster.ts";

/** The first attempt saves 50 MB and fails; the second goes on from what it is given. */
const WORKER = `
[ -e "$1/trainer" ] && { echo "the state directory is seen"; exit 9; }
count() { i=$1; while [ $i -lt $2 ]; do echo "{\\"type\\":\\"step\\",\\"step_index\\":$i}"; i=$((i + 1)); done; }
sum() { echo "$2 $(sha256sum <"$1" | cut -d ' ' -f 1)"; }
case $MOSAIC_ATTEMPT in
1)
  count 0 100
  head -c 50000000 /dev/urandom >"$MOSAIC_CHECKPOINT_DIR/model.pt"
  echo "{\\"event\\":\\"checkpoint_saved\\",\\"payload\\":{\\"path\\":\\"$MOSAIC_CHECKPOINT_DIR/model.pt\\",\\"step\\":100}}"
  echo video >"$MOSAIC_RUN_DIR/videos/a.mp4"
  sum "$MOSAIC_CHECKPOINT_DIR/model.pt" saved
  echo "no more" >&2
  exit 3 ;;
2)
  sum "$MOSAIC_RESUME_FROM" resumed
  count 100 200 ;;
esac
`;

async function leftOf(daemon: TestDaemon, run: string): Promise<string[]> {
  const left: string[] = [];
  for await (const event of daemon.client.stream(Mosaic.method.streamEvents, { run })) {
    if (event.kind === "file_left") left.push(event.dataJson);
  }
  return left;
}

Deno.test({
  name:
    "Slurm: nodes without the daemon's disk: all is uploaded through cuts, and the next attempt fetches its checkpoint",
  ignore: missing() !== undefined,
  async fn() {
    await using cluster = await Cluster.start({ hidden: "state" });
    const stateDir = `${cluster.directory}/state`;
    const nodeDir = `${cluster.directory}/node`;
    Deno.mkdirSync(nodeDir);
    const http = `127.0.0.1:${28_000 + Math.floor(Math.random() * 2000)}`;
    await using relay = new Relay(http);
    await using daemon = await cluster.daemon({
      stateDir,
      args: [
        "--http",
        http,
        "--advertise",
        relay.address,
        "--slurm",
        `node_dir=${nodeDir}`,
        "--upload-rate",
        "12M",
        "--max-upload",
        "60M",
      ],
    });
    const runId = await submit(
      daemon,
      configOf({
        command: ["unused"],
        metadata: {
          worker: {
            script: "/bin/sh",
            arguments: ["-c", WORKER, "worker", stateDir],
            use_grpc: false,
          },
          launcher: "slurm",
          restart: { max_attempts: 2, backoff_s: 0 },
        },
      }),
    );
    const directory = (await getRun(daemon, runId)).directory;
    const arrived = () => {
      try {
        const parts = `${directory}/.mosaic/upload-1/checkpoints`;
        return Math.max(
          0,
          ...[...Deno.readDirSync(parts)].map(({ name }) => Deno.statSync(`${parts}/${name}`).size),
        );
      } catch {
        return 0;
      }
    };
    await until(() => arrived() > 4_000_000, {
      what: "the checkpoint's first part",
      state: () => cluster.jobs(),
    });
    relay.cut();
    const cutAt = arrived();
    await until(() => arrived() > cutAt + 4_000_000, {
      what: "the checkpoint to go on behind a cut",
    });
    assert.equal(
      (await getRun(daemon, runId)).attempt,
      1,
      "the end is reported behind the checkpoint",
    );
    await daemon.restart();
    const run = await untilState(daemon, runId, "TERMINATED");
    assert.equal(run.attempt, 2);

    const saved = createHash("sha256").update(
      Deno.readFileSync(`${directory}/checkpoints/model.pt`),
    ).digest("hex");
    const logs = ["worker", "worker.2"].map((name) =>
      Deno.readTextFileSync(`${directory}/logs/${name}.stdout.log`)
    );
    assert.match(logs[0]!, new RegExp(`^saved ${saved}$`, "m"));
    assert.match(logs[1]!, new RegExp(`^resumed ${saved}$`, "m"));
    assert.equal(Deno.readTextFileSync(`${directory}/logs/worker.stderr.log`), "no more\n");
    assert.equal(Deno.readTextFileSync(`${directory}/videos/a.mp4`), "video\n");
    const stored = await steps(daemon, runId);
    assert.deepEqual(
      stored.map(({ step_index }) => step_index),
      Array.from({ length: 200 }, (_, i) => i),
    );
    const { artifacts } = await daemon.client.unary(Mosaic.method.listArtifacts, { run: runId });
    assert.deepEqual(artifacts.map(({ path }) => path).toSorted(), [
      "checkpoints/model.pt",
      "videos/a.mp4",
    ]);
    await nothingLeft(cluster, daemon, runId);
    await until(() => [...Deno.readDirSync(nodeDir)].length === 0, {
      what: "the node's directory to be empty",
      state: () => [...Deno.readDirSync(nodeDir)].map(({ name }) => name),
    });

    // What the daemon does not take stays on the node.
    const large = await submit(
      daemon,
      configOf({
        command: ["unused"],
        metadata: {
          worker: {
            script: "/bin/sh",
            arguments: ["-c", 'head -c 70000000 /dev/zero >"$MOSAIC_RUN_DIR/large"'],
            use_grpc: false,
          },
          launcher: "slurm",
        },
      }),
    );
    await untilState(daemon, large, "TERMINATED");
    await nothingLeft(cluster, daemon, large);
    assert.equal(Deno.statSync(`${nodeDir}/${large}.1/large`).size, 70_000_000);
    assert.match((await leftOf(daemon, large)).join(), /"large".*--max-upload/);

    // What a killed proxy has not uploaded does not come any more, and the run says so.
    const args = ["-c", `${WORKER.replace("exit 3", "sleep 600")}`, "worker", stateDir];
    const lost = await submit(
      daemon,
      configOf({
        command: ["unused"],
        metadata: {
          worker: { script: "/bin/sh", arguments: args, use_grpc: false },
          launcher: "slurm",
        },
      }),
    );
    const proxies = () =>
      processesOf(`${nodeDir}/${lost}.1`).filter(({ command }) => / proxy /.test(command));
    const part = `${(await getRun(daemon, lost)).directory}/.mosaic/upload-1/checkpoints`;
    await until(() => kindOf(part) === "directory", {
      what: "the second run's upload",
      state: () => cluster.jobs(),
    });
    for (const { pid } of proxies()) Deno.kill(pid, "SIGKILL");
    await assert.rejects(untilState(daemon, lost, "TERMINATED"), /lost/);
    assert.match(
      (await leftOf(daemon, lost)).join(),
      /checkpoints\/model.pt.*the attempt ended before it was uploaded/,
    );
    await nothingLeft(cluster, daemon, lost);
    // This cluster's proctrack/linuxproc does not find the worker of a killed proxy; the job's
    // script does (docs/how-to/slurm.md).
    await until(() => processesOf(`${nodeDir}/${lost}.1`).length === 0, {
      what: "the worker to be killed",
      state: () => processesOf(`${nodeDir}/${lost}.1`),
    });
  },
});
