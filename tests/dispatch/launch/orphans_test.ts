import assert from "node:assert/strict";
import { reapOrphans } from "../../../src/dispatch/launch/local/orphans.ts";
import { Layout, RunFiles } from "../../../src/base/layout.ts";
import { createLogger } from "../../../src/base/log.ts";
import { isAlive, type ProcessRef, processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { until } from "../../harness/wait.ts";

/** A detached process that says of itself which attempt of which run it is. */
function pretend(
  runDir: string,
  attempt: number,
): { child: Deno.ChildProcess; process: ProcessRef } {
  const child = new Deno.Command("sleep", {
    args: ["600"],
    env: { MOSAIC_RUN_DIR: runDir, MOSAIC_ATTEMPT: String(attempt) },
    detached: true,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return { child, process: processRef(child.pid)! };
}

Deno.test("strays: the group that an ended run's worker file names is killed; a living attempt's and a stranger's are not", async () => {
  const stateDir = Deno.makeTempDirSync({ prefix: "mosaic-strays-" });
  const layout = new Layout(stateDir);
  const log = createLogger({ sinks: [] });
  const started: ReturnType<typeof pretend>[] = [];
  const worker = (runId: string, named: boolean) => {
    const files = new RunFiles(layout.runDir("runs", runId), "");
    Deno.mkdirSync(files.control, { recursive: true });
    const one = pretend(files.directory, 1);
    started.push(one);
    if (named) Deno.writeTextFileSync(files.workerFile(1), JSON.stringify(one.process));
    return one.process;
  };
  try {
    const ended = worker("ended", true);
    const living = worker("living", true);
    // A helper that a worker has started in a session of its own: no worker file names it.
    const stranger = worker("helper", false);
    // The runtime's child may not have its environment yet when it is first looked at.
    await until(() => {
      reapOrphans(layout, (runId) => runId === "living" ? 1 : undefined, log);
      return !isAlive(ended);
    }, { what: "the ended run's worker to be gone" });
    assert.ok(isAlive(living));
    assert.ok(isAlive(stranger));
  } finally {
    for (const { process, child } of started) {
      signalProcess(process, "SIGKILL");
      await child.status;
    }
    Deno.removeSync(stateDir, { recursive: true });
  }
});
