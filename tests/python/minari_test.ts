import assert from "node:assert/strict";
import { MosaicClient } from "../../src/wire/client/client.ts";
import { TrainerService } from "../../src/gen/gymgui/trainer_pb.ts";
import { Mosaic } from "../../src/gen/mosaic/v1/mosaic_pb.ts";
import { configOf } from "../harness/configs.ts";
import { TestDaemon } from "../harness/daemon.ts";
import { until } from "../harness/wait.ts";
import { pythonTest, runPython } from "./python.ts";
import { runVerb } from "../cli/verb.ts";

const WORKER = new URL("minari_worker.py", import.meta.url).pathname;

pythonTest(
  "export --format minari: what mosaic.RecordSteps recorded of environments that take turns, array for array",
  ["gymnasium", "numpy", "pyarrow"],
  async (python) => {
    await using daemon = await TestDaemon.start();
    const cwd = Deno.makeTempDirSync();
    const client = new MosaicClient(daemon.target, { deadlineMs: 60_000 });
    try {
      for (const which of ["cartpole", "pendulum", "mixed"]) {
        const { runId } = await client.unary(TrainerService.method.submitRun, {
          configJson: configOf({
            command: [python, WORKER, which],
            metadata: {
              worker: { script: python, arguments: [WORKER, which], cwd, use_grpc: false },
            },
          }),
        });
        const run = await until(async () => {
          const now = await client.unary(Mosaic.method.getRun, { run: runId });
          return now.outcome === "" ? undefined : now;
        }, { what: "the run to end", timeoutMs: 120_000 });
        assert.equal(run.state, "TERMINATED", run.stderrTail.join("\n"));
        const written = await runVerb(daemon, [
          "export",
          runId,
          "--format",
          "minari",
          "--out",
          `${cwd}/sets`,
        ]);
        assert.equal(written.code, 0, written.err);
        assert.match(written.out, /6 episodes, \d+ steps/);
        assert.equal(written.err, "", "its spaces are recorded");
        const id = /sets\/(mosaic\/\S+-v0) /.exec(written.out)?.[1];
        const args = [`${cwd}/sets`, String(id), `${cwd}/truth.json`];
        console.log(
          `${which}: read by ${(await runPython(python, "minari_reader.py", args)).trim()}`,
        );
      }
    } finally {
      client.close();
      Deno.removeSync(cwd, { recursive: true });
    }
  },
);
