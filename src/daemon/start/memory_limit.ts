/**
 * `--max-memory`: the runtime retains some memory of each closed gRPC connection for ever. A daemon
 * that has grown beyond its limit is replaced by a new one at a quiet moment; runs continue, and
 * nothing is lost.
 */
import { flagsOf } from "../../permissions/permissions.ts";
import { daemonPlan } from "../../permissions/daemon_plan.ts";
import { realWorld } from "../../permissions/world.ts";
import type { Logger } from "../../base/log.ts";
import { messageOf } from "../../base/errors.ts";
import { ownEnvironment } from "../../os/processes/environment.ts";
import { selfCommand } from "../../os/processes/self.ts";
import { underShell } from "../../os/processes/shell.ts";

const POLL_MS = 5000;
/** If the limit is too low for the daemon's work, it must not restart all the time. */
const LEAST_UPTIME_MS = 60_000;
/** Longest wait for a quiet moment. */
const QUIET_WAIT_MS = 10 * 60_000;
/** Time between attempts to start a successor. */
const AGAIN_MS = 10 * 60_000;

export interface MemoryState {
  bytes: number;
  limitBytes: number;
  uptimeMs: number;
  /** How long it has been beyond the limit. */
  overMs: number;
  /** A run is being started, or output waits to be stored. */
  busy: boolean;
}

export function mustBeReplaced(
  { bytes, limitBytes, uptimeMs, overMs, busy }: MemoryState,
): boolean {
  return bytes > limitBytes && uptimeMs >= LEAST_UPTIME_MS && (!busy || overMs >= QUIET_WAIT_MS);
}

export interface MemoryLimit {
  limitBytes: number;
  log: Logger;
  busy: () => boolean;
  /** Called again later if the daemon is still running. */
  go: () => void;
}

/** @returns ends the watch */
export function watchMemory({ limitBytes, log, busy, go }: MemoryLimit): () => void {
  const started = performance.now();
  let overSince: number | undefined;
  let notBefore = -Infinity;
  const timer = setInterval(() => {
    const bytes = Deno.memoryUsage().rss;
    const now = performance.now();
    if (bytes <= limitBytes) return void (overSince = undefined);
    if (overSince === undefined) {
      log.warn({ bytes, limit: limitBytes }, "the daemon uses more memory than --max-memory");
    }
    overSince ??= now;
    if (
      !mustBeReplaced({
        bytes,
        limitBytes,
        uptimeMs: now - started,
        overMs: now - overSince,
        busy: busy(),
      })
    ) return;
    if (now < notBefore) return;
    notBefore = now + AGAIN_MS;
    try {
      go();
    } catch (error) {
      log.error({ error: messageOf(error) }, "no new daemon could be started to replace this one");
    }
  }, POLL_MS);
  return () => clearInterval(timer);
}

/** Starts a daemon with the same arguments, which replaces this one. */
export function startSuccessor(args: readonly string[]): void {
  const words = ["daemon", ...args.filter((arg) => arg !== "--replace"), "--replace"];
  const { argv, env } = selfCommand(flagsOf(daemonPlan(words.slice(1), realWorld())));
  new Deno.Command("/bin/sh", {
    ...underShell([...argv, ...words], { ...ownEnvironment(), ...env }),
    stdin: "null",
    stdout: "inherit",
    stderr: "inherit",
    detached: true,
  }).spawn().unref();
}
