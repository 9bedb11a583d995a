/** The demo's daemon: on free ports, with its own state directory. */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { readTextIfThere } from "../../os/files/files.ts";
import { daemonPlan } from "../../permissions/daemon_plan.ts";
import { flagsOf } from "../../permissions/permissions.ts";
import { realWorld } from "../../permissions/world.ts";
import { hostEnvironment } from "../../os/processes/environment.ts";
import { type ProcessRef, processRef } from "../../os/processes/identity.ts";
import { selfCommand } from "../../os/processes/self.ts";
import { startDetached } from "../../os/processes/shell.ts";
import { signalProcess } from "../../os/processes/signals.ts";
import { sleep } from "../../base/time/sleep.ts";

const START_MS = 60_000;
const STOP_MS = 15_000;
const POLL_MS = 30;

export interface LocalDaemon {
  stateDir: string;
  /** gRPC, HOST:PORT. */
  target: string;
  /** The status page, HOST:PORT. */
  http: string;
  pid: number;
  /** Sends SIGTERM, then SIGKILL after a timeout. Does not end the runs. */
  stop(): Promise<void>;
}

/**
 * Starts the daemon and resolves when it is ready. It leads its own session, so that Ctrl-C in the
 * demo does not reach it.
 *
 * @throws {MosaicError} `unavailable` with the daemon's output when it does not start
 */
export async function startLocalDaemon(
  stateDir: string,
  signal: AbortSignal,
): Promise<LocalDaemon> {
  const layout = new Layout(stateDir);
  const output = layout.daemonOutput;
  const words = [
    "--state-dir",
    stateDir,
    "--listen",
    "127.0.0.1:0",
    "--http",
    "127.0.0.1:0",
    "--gpus",
    "0",
  ];
  const self = selfCommand(flagsOf(daemonPlan(words, realWorld())));
  const child = startDetached([...self.argv, "daemon", ...words], {
    ...hostEnvironment(),
    ...self.env,
  }, output);
  let ended = false;
  child.status.then(() => ended = true);
  const process = processRef(child.pid);
  const stop = async () => {
    if (process !== undefined && !ended) await stopProcess(process, child.status);
  };
  try {
    for (const deadline = performance.now() + START_MS;;) {
      const found = addresses(layout.daemonJson, child.pid);
      if (found !== undefined) return { stateDir, pid: child.pid, stop, ...found };
      if (ended || performance.now() > deadline || signal.aborted) {
        const printed = (readTextIfThere(output) ?? "").trim();
        throw new MosaicError(
          "unavailable",
          `the daemon did not start${printed === "" ? "" : `:\n${printed}`}`,
        );
      }
      await sleep(POLL_MS);
    }
  } catch (error) {
    await stop();
    throw error;
  }
}

function addresses(daemonJson: string, pid: number): { target: string; http: string } | undefined {
  const text = readTextIfThere(daemonJson);
  if (text === undefined) return undefined;
  try {
    const recorded = JSON.parse(text) as { pid: number; socket: string; http: string };
    return recorded.pid === pid
      ? { target: `unix:${recorded.socket}`, http: recorded.http }
      : undefined;
  } catch (error) {
    throw new MosaicError("unavailable", `cannot read ${daemonJson}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

async function stopProcess(process: ProcessRef, gone: Promise<unknown>): Promise<void> {
  signalProcess(process, "SIGTERM");
  const timer = setTimeout(() => signalProcess(process, "SIGKILL"), STOP_MS);
  await gone;
  clearTimeout(timer);
}
