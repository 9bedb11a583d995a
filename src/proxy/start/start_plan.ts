/** The proxy's task, from its arguments and the daemon's start file or, stand-alone, from its environment. */
import { HEARTBEAT_S } from "../../base/agreed.ts";
import { Layout, resolveStateDir, RunFiles } from "../../base/layout.ts";
import { hostEnvironment } from "../../os/processes/environment.ts";
import { readRecordInProxy } from "../../os/files/untrusted.ts";
import { makeDirectory } from "../../os/files/untrusted_changes.ts";
import { standAloneEnvironment } from "./stand_alone_environment.ts";
import type { ProxyArguments } from "./arguments.ts";
import { type ProxyStartFile, readStartFile } from "./start_file.ts";

export interface StartPlan {
  files: RunFiles;
  start: ProxyStartFile;
  /** No daemon has started it. */
  standAlone: boolean;
}

/** The run's directory in the state directory; a temporary one if it cannot be created. */
function standAloneDirectory(runId: string): { directory: string; stateDir: string; daemonJson: string } {
  try {
    const stateDir = resolveStateDir(undefined, (name) => Deno.env.get(name));
    const layout = new Layout(stateDir);
    const directory = layout.runDir("runs", runId);
    // No worker can change the way to it. What is above it cannot be looked at with the permissions of a proxy.
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    return { directory, stateDir, daemonJson: layout.daemonJson };
  } catch (error) {
    // With another directory a container that is started again would not find its journal.
    if (error instanceof Deno.errors.NotCapable) throw error;
    return { directory: Deno.makeTempDirSync({ prefix: `mosaic-${runId}-` }), stateDir: "", daemonJson: "" };
  }
}

/**
 * Also creates the run's directories. @throws MosaicError `failed_precondition` if the start file of --run-dir is missing.
 */
export function planStart(args: ProxyArguments): StartPlan {
  let plan: StartPlan;
  if (
    args.runDir !== undefined && readRecordInProxy(new RunFiles(args.runDir, args.workerId).proxyFile(args.attempt))
  ) {
    const files = new RunFiles(args.runDir, args.workerId);
    plan = { files, start: readStartFile(files.proxyFile(args.attempt)), standAlone: false };
  } else {
    const place = args.runDir === undefined
      ? standAloneDirectory(args.runId)
      : { directory: args.runDir, stateDir: "", daemonJson: "" };
    plan = {
      files: new RunFiles(place.directory, args.workerId),
      start: {
        env: standAloneEnvironment(hostEnvironment(), { ...args, directory: place.directory }),
        cwd: Deno.cwd(),
        sessionToken: "",
        // An explicit target is used alone, wherever another daemon may be.
        daemonJson: args.targetGiven ? "" : place.daemonJson,
        stateDir: place.stateDir,
        schema: null,
        observe: { roots: [Deno.cwd()], globs: [] },
        supportsPause: false,
        maxBacklogBytes: 0,
        cgroup: null,
        umask: "",
        heartbeatIntervalS: HEARTBEAT_S,
      },
      standAlone: true,
    };
  }
  for (const directory of plan.files.own) makeDirectory(directory);
  return plan;
}
