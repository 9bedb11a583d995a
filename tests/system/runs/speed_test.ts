/**
 * A guard against losing the speed of the whole way, from a worker's line to the acknowledged row.
 * Processor time, which other work on the machine changes little, compared with plain inserts of
 * the same rows in the same minute.
 */
import assert from "node:assert/strict";
import { processFigures, processorSeconds } from "../../../bench/measure.ts";
import { PlainInserts } from "../../../bench/plain_inserts.ts";
import { stepColumns } from "../../../bench/records.ts";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { TrainerService } from "../../../src/gen/gymgui/trainer_pb.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { until } from "../../harness/wait.ts";

const WORKER = new URL("../../../bench/worker.awk", import.meta.url).pathname;
const STEPS = 150_000;
const ROUNDS = 4;
/**
 * 3 to 4 where nothing is lost, in the first seconds of a daemon. 10 is a tenth of the rate of
 * plain inserts: no noise that was seen comes near.
 */
const MOST = 10;

/** Seconds of processor time for a plain insert of each row. */
function insertSeconds(directory: string): number {
  const columns = stepColumns(0, 20_000, { observationBytes: 0 });
  using plain = new PlainInserts(`${directory}/${crypto.randomUUID()}.sqlite`);
  return processorSeconds(() => plain.insert(columns)) / columns.n;
}

/**
 * Seconds of processor time of daemon and proxy for a step of one run, between its first look and
 * its last.
 */
async function deliverySeconds(daemon: TestDaemon): Promise<number> {
  const command = ["/usr/bin/awk", "-v", `n=${STEPS}`, "-f", WORKER];
  const { runId } = await daemon.client.unary(TrainerService.method.submitRun, {
    configJson: configOf({ command }),
  });
  const looks: { steps: number; cpu: number }[] = [];
  await until(async () => {
    const run = await daemon.client.unary(Mosaic.method.getRun, { run: runId });
    assert.ok(run.state !== "FAULTED", run.reason);
    const steps = Number(run.telemetry?.steps ?? 0);
    const processes = [processFigures(daemon.pid), processFigures(Number(run.proxyPid))];
    // A process that is ending has no memory any more, and no times worth reading.
    if (steps > 0 && processes.every((found) => found !== undefined && found.rssBytes > 0)) {
      looks.push({ steps, cpu: processes[0]!.cpuSeconds + processes[1]!.cpuSeconds });
    }
    return run.state === "TERMINATED" && steps === STEPS;
  }, { what: `${STEPS} steps` });
  const [first, last] = [looks[0], looks.at(-1)];
  if (first === undefined || last === undefined || last.steps - first.steps < STEPS / 3) {
    return Infinity;
  }
  return (last.cpu - first.cpu) / (last.steps - first.steps);
}

Deno.test("speed: the whole way of a step costs no more than a few times what a plain insert of its row does", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-speed-" });
  try {
    await using daemon = await TestDaemon.start();
    let inserting = Infinity;
    let delivering = Infinity;
    // The least of several rounds, and no more rounds than it takes.
    for (let round = 0; round < ROUNDS && !(delivering / inserting < MOST); round++) {
      inserting = Math.min(inserting, insertSeconds(directory));
      delivering = Math.min(delivering, await deliverySeconds(daemon));
    }
    // Where the processes could not be looked at in time there is nothing to compare.
    if (delivering === Infinity) return;
    const ratio = delivering / inserting;
    assert.ok(
      ratio < MOST,
      `a delivered step costs ${ratio.toFixed(1)} plain inserts (it was about 3.5)`,
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
