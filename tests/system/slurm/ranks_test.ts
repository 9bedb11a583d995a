/** Runs on several nodes of a real Slurm: ranks, rendezvous, and the first failure. */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { Cluster, missing, nothingLeft } from "./cluster.ts";

/**
 * Each rank tells where it is; rank 0 prints steps. It runs until a file in the run's directory
 * says how it ends.
 */
const RANK =
  `echo "rank $RANK of $WORLD_SIZE local $LOCAL_RANK of $LOCAL_WORLD_SIZE node $NODE_RANK at $MASTER_ADDR:$MASTER_PORT"
echo "trouble of rank $RANK" >&2
trap 'echo told; exit 0' TERM
i=0
while [ ! -e "$MOSAIC_RUN_DIR/end-$RANK" ]; do
  [ "$RANK" != 0 ] || echo '{"event_type":"step","episode":0,"step_index":'$i',"action":0,"reward":1.0}'
  i=$((i + 1)); sleep 0.05
done
exit "$(cat "$MOSAIC_RUN_DIR/end-$RANK")"`;

function ranked(slurm: Record<string, unknown> = {}): string {
  const worker = { script: "/bin/sh", arguments: ["-c", RANK], use_grpc: false };
  return configOf({
    command: ["/bin/sh"],
    metadata: { launcher: "slurm", slurm: { nodes: 2, ...slurm }, worker },
  });
}

async function logOf(
  daemon: TestDaemon,
  run: string,
  rank: number,
  stream = "stdout",
): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of daemon.client.stream(Mosaic.method.streamLogs, { run, rank, stream })) {
    text += decoder.decode(chunk.text);
  }
  return text;
}

/** Its ranks end with these codes, now. */
async function end(daemon: TestDaemon, run: string, codes: Record<number, number>): Promise<void> {
  const { directory } = await getRun(daemon, run);
  for (const [rank, code] of Object.entries(codes)) {
    // Renamed into place: a rank reads the file as soon as it is there.
    await Deno.writeTextFile(`${directory}/ending-${rank}`, String(code));
    await Deno.rename(`${directory}/ending-${rank}`, `${directory}/end-${rank}`);
  }
}

async function untilRanks(daemon: TestDaemon, run: string): Promise<void> {
  await until(async () => (await getRun(daemon, run)).ranks.every(({ node }) => node !== ""), {
    what: "all ranks",
  });
  await untilSteps(daemon, run, 3, true);
}

Deno.test({
  name: "Slurm: runs on several nodes",
  ignore: missing() !== undefined,
  async fn(t) {
    await using cluster = await Cluster.start();
    await using daemon = await cluster.daemon();

    await t.step(
      "each rank knows its place; rank 0's records are the run's; each has its own log and exit",
      async () => {
        const run = await submit(daemon, ranked({ tasks_per_node: 2 }));
        await untilRanks(daemon, run);
        await end(daemon, run, { 0: 0, 1: 0, 2: 0, 3: 0 });
        await untilState(daemon, run, "TERMINATED");
        const { ranks, placement } = await getRun(daemon, run);
        assert.equal(placement?.nodes.length, 2);
        const [n1, n2] = placement!.nodes;
        assert.deepEqual(ranks.map(({ rank, node, code }) => [rank, node, code]), [
          [0, n1, 0],
          [1, n1, 0],
          [2, n2, 0],
          [3, n2, 0],
        ]);
        const told = await logOf(daemon, run, 3);
        assert.match(told, /^rank 3 of 4 local 1 of 2 node 1 at 127\.0\.0\.1:\d+$/m);
        assert.equal(/at (.+)$/m.exec(await logOf(daemon, run, 0))![1], /at (.+)$/m.exec(told)![1]);
        await assert.rejects(logOf(daemon, run, 4), /ranks 0 to 3/);
        const stored = await steps(daemon, run);
        assert.deepEqual(stored.map(({ step_index }) => step_index), stored.map((_, i) => i));
        await nothingLeft(cluster, daemon, run);
      },
    );

    for (const failing of [0, 1]) {
      await t.step(
        `rank ${failing} fails: it is the run's reason, with its node, and ends the other`,
        async () => {
          const run = await submit(daemon, ranked());
          await untilRanks(daemon, run);
          await end(daemon, run, { [failing]: 9 });
          const { node } = (await getRun(daemon, run)).ranks[failing]!;
          await assert.rejects(
            untilState(daemon, run, "TERMINATED"),
            new RegExp(`exit_code_9: rank ${failing} on ${node}`),
          );
          const { ranks, stderrTail, exitCode } = await getRun(daemon, run);
          assert.deepEqual(ranks.map(({ first }) => first), [failing === 0, failing === 1]);
          assert.equal(ranks[failing]!.code, 9);
          assert.equal(exitCode, 9);
          assert.ok(
            stderrTail.some((line) => line.includes(`trouble of rank ${failing}`)),
            stderrTail.join("\n"),
          );
          await nothingLeft(cluster, daemon, run);
        },
      );
    }

    for (const killed of [0, 1]) {
      await t.step(`rank ${killed} is killed: its signal is the reason`, async () => {
        const run = await submit(daemon, ranked());
        await untilRanks(daemon, run);
        const environment = ({ pid }: { pid: number }) =>
          Deno.readTextFileSync(`/proc/${pid}/environ`).split("\0");
        const [worker] = processesOf(`/${run}`).filter(({ command }) =>
          command.includes("trouble of rank") && !command.includes("mosaic-rank") &&
          !command.includes(" proxy ")
        ).filter((one) => environment(one).includes(`RANK=${killed}`));
        Deno.kill(worker!.pid, "SIGKILL");
        await assert.rejects(
          untilState(daemon, run, "TERMINATED"),
          new RegExp(`exit_code_137: rank ${killed} on n\\d`),
        );
        await nothingLeft(cluster, daemon, run);
      });
    }

    await t.step(
      "cancelled: all ranks are told and have their time; a pause by signal is refused",
      async () => {
        const run = await submit(daemon, ranked());
        await untilRanks(daemon, run);
        await assert.rejects(daemon.client.unary(Mosaic.method.pauseRun, { run }), /several ranks/);
        await daemon.client.unary(Mosaic.method.cancelRun, { run });
        await untilState(daemon, run, "CANCELLED");
        await nothingLeft(cluster, daemon, run);
        for (const rank of [0, 1]) assert.match(await logOf(daemon, run, rank), /^told$/m);
      },
    );
  },
});
