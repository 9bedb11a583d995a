/**
 * Everything on one small disk: the daemon's own writing does not fill it, and full it is never a
 * dead end.
 */
import assert from "node:assert/strict";
import { Mosaic } from "../../../src/gen/mosaic/v1/mosaic_pb.ts";
import { MosaicError } from "../../../src/base/errors.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { getRun, steps, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { diskTest } from "./small_disk.ts";
import { SteppedWorker } from "./workers.ts";

const SLOW = `i=0; while [ $i -lt $1 ]; do
  printf '{"event_type":"step","step_index":%d,"reward":1}\\n' $i; i=$((i + 1)); sleep 0.005
done`;

diskTest(
  "one small disk: slow workers do not fill it with the write-ahead log, and all that they say is stored",
  async (stage) => {
    const disk = stage.disk(stage.stateDir, "24m");
    await using daemon = await TestDaemon.start({ stateDir: stage.stateDir });
    // A commit for each line would be 10 MB and more.
    const count = 250;
    const config = () => configOf({ command: ["/bin/sh", "-c", SLOW, "sh", String(count)] });
    const runs = await Promise.all([0, 1, 2, 3].map(() => submit(daemon, config())));
    let longest = 0;
    let ended = false;
    const watching = (async () => {
      for (; !ended; await new Promise((resolve) => setTimeout(resolve, 20))) {
        longest = Math.max(longest, Deno.statSync(`${daemon.layout.telemetryDb}-wal`).size);
      }
    })();
    for (const run of runs) {
      await untilState(daemon, run, "TERMINATED");
      assert.equal((await steps(daemon, run)).length, count);
    }
    ended = true;
    await watching;
    // The log's bound there is the reserve's size: a sixteenth of the disk.
    assert.ok(longest <= 1.75 * 2 ** 20, `the log had ${longest} bytes`);
    assert.ok(disk.freeBytes > 12 * 2 ** 20, `${disk.freeBytes} bytes are free`);
  },
);

diskTest(
  "one disk full to the last byte: runs are cancelled and deleted, a restart serves, and with room work goes on",
  async (stage) => {
    const disk = stage.disk(stage.stateDir, "48m");
    const daemon = await TestDaemon.start({ stateDir: stage.stateDir });
    try {
      const ended = new SteppedWorker(stage.stateDir, [2000], 700);
      const endedRun = await submit(daemon, ended.config());
      await ended.assertWhole(daemon, endedRun);
      const workers = [0, 1, 2].map(() => new SteppedWorker(stage.stateDir, [50, 50]));
      const runs: string[] = [];
      for (const worker of workers) runs.push(await submit(daemon, worker.config()));
      for (const run of runs) {
        await untilSteps(daemon, run, 50);
      }
      disk.fill();
      await daemon.client.unary(Mosaic.method.cancelRun, { run: runs[0]! });
      await untilState(daemon, runs[0]!, "CANCELLED");

      await daemon.stop();
      disk.fill();
      await daemon.restart();
      assert.equal((await steps(daemon, endedRun)).length, ended.total);
      await daemon.client.unary(Mosaic.method.cancelRun, { run: runs[1]! });
      await untilState(daemon, runs[1]!, "CANCELLED");
      disk.fill();
      await daemon.client.unary(Mosaic.method.deleteRun, { run: endedRun, forever: true });
      await assert.rejects(
        getRun(daemon, endedRun),
        (error) => error instanceof MosaicError && error.code === "not_found",
      );
      assert.ok(disk.freeBytes > 0, "what the run took is free");
      disk.free();
      workers[2]!.open();
      await workers[2]!.assertWhole(daemon, runs[2]!);
      const next = new SteppedWorker(stage.stateDir, [50]);
      await next.assertWhole(daemon, await submit(daemon, next.config()));
    } finally {
      await daemon[Symbol.asyncDispose]();
    }
  },
);
