/**
 * The real proxy dies or hangs at moments that matter; the daemon's own time limits with real
 * processes.
 */
import assert from "node:assert/strict";
import { readTextIfThere } from "../../../src/os/files/files.ts";
import { isAlive, type ProcessRef, processRef } from "../../../src/os/processes/identity.ts";
import { signalProcess } from "../../../src/os/processes/signals.ts";
import { configOf } from "../../harness/configs.ts";
import type { TestDaemon } from "../../harness/daemon.ts";
import { processesOf } from "../../harness/processes.ts";
import { getRun, submit, untilState, untilSteps } from "../../harness/runs.ts";
import { testWithDaemon } from "../../harness/shared_daemon.ts";
import { until } from "../../harness/wait.ts";
import { SteppedWorker } from "../machine/workers.ts";

const TALKS_THEN_SLEEPS = `echo '{"event_type":"step","step_index":0,"reward":1}'; exec sleep 600`;

async function proxyOf(daemon: TestDaemon, run: string): Promise<ProcessRef> {
  const pid = await until(async () => Number((await getRun(daemon, run)).proxyPid), {
    what: "the proxy's pid",
  });
  return processRef(pid)!;
}

/** Processes of the run, the daemon itself not among them. */
function left(daemon: TestDaemon, run: string): string[] {
  return processesOf(daemon.stateDir).filter(({ command, pid }) =>
    pid !== daemon.pid && command.includes(run)
  )
    .map(({ command }) => command);
}

testWithDaemon("a proxy dies, hangs, or is silent", { args: ["--grace", "0.5"] }, [
  [
    "proxy dies between the exit record and its report: another reports what the record says, and all that was printed",
    async (daemon) => {
      const worker = new SteppedWorker(daemon.stateDir, [50, 500]);
      const run = await submit(daemon, worker.config());
      await untilSteps(daemon, run, 50);
      const proxy = await proxyOf(daemon, run);
      const stopped = processRef(daemon.pid)!;
      signalProcess(stopped, "SIGSTOP");
      try {
        worker.open();
        const exit = `${daemon.layout.runDir("custom_scripts", run)}/.mosaic/exit-1.json`;
        await until(() => readTextIfThere(exit), { what: "the exit record" });
        signalProcess(proxy, "SIGKILL");
        await until(() => !isAlive(proxy), { what: "the proxy to be dead" });
      } finally {
        signalProcess(stopped, "SIGCONT");
      }
      await worker.assertWhole(daemon, run);
      const row = await getRun(daemon, run);
      assert.deepEqual([row.exitCode, row.attempt], [0, 1]);
    },
  ],

  [
    "proxy killed right at its start: the attempt begins anew, with one worker and every step",
    async (daemon) => {
      const worker = new SteppedWorker(daemon.stateDir, [30]);
      const run = await submit(daemon, worker.config());
      // As soon as there is a process, whether the daemon has entered it or not.
      await until(() => {
        const proxy = processesOf(daemon.stateDir).find(({ command }) =>
          command.includes(`--run-id ${run}`)
        );
        return proxy !== undefined && signalProcess(proxy, "SIGKILL");
      }, { what: "a proxy to kill" });
      await worker.assertWhole(daemon, run);
      assert.equal((await getRun(daemon, run)).attempt, 1);
    },
  ],

  [
    "heartbeat timeout: a proxy that hangs silences its run, which fails, and nothing of it is left",
    async (daemon) => {
      const metadata = { heartbeat_timeout_seconds: 2 };
      const run = await submit(
        daemon,
        configOf({ command: ["/bin/sh", "-c", TALKS_THEN_SLEEPS], metadata }),
      );
      await untilSteps(daemon, run, 1);
      signalProcess(await proxyOf(daemon, run), "SIGSTOP");
      const row = await untilState(daemon, run, "FAULTED");
      assert.equal(row.reason, "heartbeat_timeout");
      await until(() => left(daemon, run).length === 0, {
        what: "all of it to be gone",
        state: () => left(daemon, run),
      });
    },
  ],

  [
    "heartbeat timeout: a worker that has sent heartbeats and hangs fails its run, though its proxy is alive",
    async (daemon) => {
      const beat = `echo '{"event":"heartbeat","payload":{},"run_id":"R","timestamp":1}'`;
      const metadata = { heartbeat_timeout_seconds: 2 };
      const hangs = await submit(
        daemon,
        configOf({ command: ["/bin/sh", "-c", `${beat}; exec sleep 600`], metadata }),
      );
      const prints = [
        "/bin/sh",
        "-c",
        `${beat}; for i in 1 2 3 4 5 6; do sleep 1; echo training; done`,
      ];
      const goesOn = await submit(daemon, configOf({ command: prints, metadata }));
      assert.equal((await untilState(daemon, hangs, "FAULTED")).reason, "heartbeat_timeout");
      await untilState(daemon, goesOn, "TERMINATED");
    },
  ],

  [
    "handshake timeout: a proxy that never registers fails its run, and no worker is ever started",
    async (daemon) => {
      const marker = `${daemon.stateDir}/started`;
      const metadata = { handshake_timeout_seconds: 2 };
      /** Whether it was stopped in time, before it had registered. */
      const stopsInTime = async (): Promise<boolean> => {
        const run = await submit(
          daemon,
          configOf({ command: ["/bin/sh", "-c", `: >${marker}`], metadata }),
        );
        let hung: ProcessRef | undefined;
        await until(() => {
          hung = processesOf(daemon.stateDir).find(({ command }) =>
            command.includes(`--run-id ${run}`)
          );
          return hung !== undefined && signalProcess(hung, "SIGSTOP");
        }, { what: "a proxy to stop" });
        await until(async () => (await getRun(daemon, run)).state !== "HANDSHAKE", {
          what: "the run to go on",
        });
        const { reason } = await getRun(daemon, run);
        if (reason !== "handshake_timeout") {
          signalProcess(hung!, "SIGCONT");
          await untilState(daemon, run, "TERMINATED");
          Deno.removeSync(marker);
          return false;
        }
        assert.equal(readTextIfThere(marker), undefined);
        await until(() => !isAlive(hung!), { what: "the hung proxy to be killed" });
        return true;
      };
      for (let tries = 1; !(await stopsInTime()); tries++) {
        assert(tries < 10, "no proxy was stopped before it registered");
      }
    },
  ],

  [
    "stall timeout: a worker that lives and prints nothing fails, its heartbeats notwithstanding",
    async (daemon) => {
      const schedule = { stall_timeout_seconds: 2 };
      const metadata = { heartbeat_timeout_seconds: 60 };
      const run = await submit(
        daemon,
        configOf({ command: ["/bin/sh", "-c", TALKS_THEN_SLEEPS], schedule, metadata }),
      );
      const row = await untilState(daemon, run, "FAULTED");
      assert.equal(row.reason, "stall_timeout");
      await until(() => left(daemon, run).length === 0, {
        what: "all of it to be gone",
        state: () => left(daemon, run),
      });
    },
  ],
]);
