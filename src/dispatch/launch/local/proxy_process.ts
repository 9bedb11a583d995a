/** Starts proxies detached, in a session of their own, so that they outlive the daemon. */
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { runProgram } from "../../../os/processes/external_program.ts";
import { flagsOf } from "../../../permissions/permissions.ts";
import { proxyPlan } from "../../../permissions/proxy_plan.ts";
import { realWorld } from "../../../permissions/world.ts";
import { hostEnvironment } from "../../../os/processes/environment.ts";
import { selfCommand } from "../../../os/processes/self.ts";
import { startDetached, withoutLoader } from "../../../os/processes/shell.ts";
import { type ProcessRef, processRef } from "../../../os/processes/identity.ts";
import { groupsCommand, type WorkerUser } from "../../../os/rights/worker_user.ts";
import { readRecord } from "../../../os/files/untrusted.ts";
import { parentOf } from "../../../os/files/files.ts";
import { makeDirectory, quarantineFile } from "../../../os/files/untrusted_changes.ts";

/** For the files that somebody has named, up to what one call prints. */
const READING_MS = 120_000;

export interface ProxyArguments {
  /** Where the daemon listens. */
  target: string;
  runId: string;
  agentId: string;
  workerId: string;
  attempt: number;
  runDir: string;
  /** Attach to a worker that was started already; start none. */
  attach: boolean;
  /** It only reads files that somebody has named. */
  readFiles?: boolean;
  /** argv of the worker. */
  command: string[];
  /** The worker's user; undefined: the daemon's. */
  user?: WorkerUser | undefined;
}

export interface ProxyProcess {
  /** Undefined if it ended before it could be identified, or no descriptor was free for that. */
  process: ProcessRef | undefined;
  exited: Promise<{ code: number; signal: string | null }>;
}

export interface ProxyLauncher {
  /** @throws when no process can be created. */
  start(proxy: ProxyArguments, logFile: string): ProxyProcess;
}

function proxyArguments(proxy: ProxyArguments): string[] {
  return [
    ...["--target", proxy.target, "--run-id", proxy.runId, "--agent-id", proxy.agentId],
    ...(proxy.workerId === "" ? [] : ["--worker-id", proxy.workerId]),
    ...["--attempt", String(proxy.attempt), "--run-dir", proxy.runDir],
    ...(proxy.attach ? ["--attach"] : []),
    ...(proxy.readFiles === true ? ["--read-files"] : []),
    ...(proxy.command.length === 0 ? [] : ["--", ...proxy.command]),
  ];
}

/** A process that cannot be identified is started nevertheless. */
function identified(pid: number): ProcessRef | undefined {
  try {
    return processRef(pid);
  } catch {
    return undefined;
  }
}

/**
 * The command that starts a proxy with its permissions, and its variables. The start file must
 * exist. @param readText reads it
 */
export function proxyCommand(
  proxy: ProxyArguments,
  readText = readRecord,
): { argv: string[]; env: Record<string, string> } {
  const words = proxyArguments(proxy);
  // A worker without a sandbox can put a FIFO in the start file's place.
  const self = selfCommand(flagsOf(proxyPlan(words, { ...realWorld(), readText })));
  return { argv: [...self.argv, "proxy", ...words], env: self.env };
}

/** Real processes. */
export const localLauncher: ProxyLauncher = {
  start(proxy, logFile) {
    const command = proxyCommand(proxy);
    // The worker of an earlier proxy may have put something else in the place of the directory or
    // of the log.
    makeDirectory(parentOf(logFile));
    quarantineFile(logFile);
    // The worker's variables are in its start file; here are the proxy's own. Those of the loader
    // are dropped.
    const env = withoutLoader({ ...hostEnvironment(), ...command.env });
    const groups = proxy.user === undefined ? [] : groupsCommand(proxy.user);
    const child = startDetached([...groups, ...command.argv], env, logFile, "/");
    return { process: identified(child.pid), exited: child.status };
  },
};

/**
 * What a proxy prints that reads the files named in `RunFiles.namedFiles`, and serves no attempt.
 * @throws MosaicError `unavailable` if it cannot be started, fails, or takes longer than two
 * minutes
 */
export async function readFilesBeside(proxy: ProxyArguments): Promise<string> {
  const command = proxyCommand({ ...proxy, readFiles: true });
  const groups = proxy.user === undefined ? [] : groupsCommand(proxy.user);
  const env = withoutLoader({ ...hostEnvironment(), ...command.env });
  const { code, stdout, stderr } = await runProgram([...groups, ...command.argv], {
    ...{ env, cwd: "/", limitMs: READING_MS, group: true },
  }).catch((error) => {
    throw new MosaicError(
      "unavailable",
      `the files of run ${proxy.runId} cannot be read: ${messageOf(error)}`,
    );
  });
  if (code === 0) return stdout;
  const why = stderr.trim().split("\n").at(-1) || `its reader exited with ${code}`;
  throw new MosaicError("unavailable", `the files of run ${proxy.runId} cannot be read: ${why}`);
}
