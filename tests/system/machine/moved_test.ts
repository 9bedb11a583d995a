/** A state directory that somebody moves while its daemon is down and its runs live on. */
import assert from "node:assert/strict";
import { RunFiles } from "../../../src/base/layout.ts";
import { readUnfinishedExit } from "../../../src/proxy/state/exit_record.ts";
import { configOf } from "../../harness/configs.ts";
import { TestDaemon } from "../../harness/daemon.ts";
import { killProcessesOf } from "../../harness/processes.ts";
import { getRun, submit, untilState } from "../../harness/runs.ts";
import { until } from "../../harness/wait.ts";
import { SteppedWorker } from "./workers.ts";

Deno.test("state directory moved while the daemon is down: the next one finds every step and every true end", async () => {
  const directory = Deno.makeTempDirSync({ prefix: "mosaic-moved-" });
  const [before, after] = [`${directory}/before`, `${directory}/after`];
  Deno.mkdirSync(before);
  try {
    const worker = new SteppedWorker(directory, [50, 50, 50]);
    const fails =
      `echo '{"type":"step"}'; while [ ! -e "${directory}/fail" ]; do sleep 0.05; done; kill -TERM $$; sleep 60`;
    // It is not disposed of: that would end the runs. Whatever lives at the end names the
    // directory.
    const first = await TestDaemon.start({ stateDir: before, gpus: "1" });
    const going = await submit(first, worker.config({ gpus: { requested: 1 } }));
    const failing = await submit(first, configOf({ command: ["/bin/sh", "-c", fails] }));
    for (const run of [going, failing]) await untilState(first, run, "EXECUTING");
    const { directory: place, workerId } = await getRun(first, failing);
    await first.stop();
    Deno.renameSync(before, after);
    worker.open(0);
    Deno.writeTextFileSync(`${directory}/fail`, "");
    const files = new RunFiles(place.replace(before, after), workerId);
    await until(() => readUnfinishedExit(files, 1), { what: "the worker's end to be written" });
    await using daemon = await TestDaemon.start({ stateDir: after, gpus: "1" });
    assert.equal((await untilState(daemon, failing, "FAULTED")).reason, "signal_SIGTERM");
    assert.deepEqual((await getRun(daemon, going)).gpuSlots, [0]);
    worker.open(1);
    await worker.assertWhole(daemon, going);
  } finally {
    await killProcessesOf(directory);
    Deno.removeSync(directory, { recursive: true });
  }
});
