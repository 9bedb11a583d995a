/**
 * The proxy's task, from its arguments and the daemon's start file or, stand-alone, from its
 * environment.
 */
import { HEARTBEAT_S } from "../../base/agreed.ts";
import { messageOf } from "../../base/errors.ts";
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
  /** What its user should know from the beginning. */
  warning?: string | undefined;
}

interface StandAlonePlace {
  directory: string;
  stateDir: string;
  daemonJson: string;
  warning?: string;
}

/**
 * The run's directory in the state directory; a temporary one if it cannot be created, with a
 * warning that says why.
 */
function standAloneDirectory(runId: string): StandAlonePlace {
  let wanted = "the state directory";
  try {
    const stateDir = resolveStateDir(undefined, (name) => Deno.env.get(name));
    const layout = new Layout(stateDir);
    const directory = wanted = layout.runDir("runs", runId);
    // No worker can change the way to it. What is above it cannot be looked at with the permissions
    // of a proxy.
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    return { directory, stateDir, daemonJson: layout.daemonJson };
  } catch (error) {
    // With another directory a container that is started again would not find its journal.
    if (error instanceof Deno.errors.NotCapable) throw error;
    const directory = Deno.makeTempDirSync({ prefix: `mosaic-${runId}-` });
    const warning =
      `the run's files are in the temporary directory ${directory}, where a proxy that is started again does ` +
      `not look for them: ${wanted} cannot be used (${
        messageOf(error)
      }); set MOSAIC_STATE_DIR or give --run-dir`;
    return { directory, stateDir: "", daemonJson: "", warning };
  }
}

/**
 * Also creates the run's directories. @throws MosaicError `failed_precondition` if the start file
 * of --run-dir is missing.
 */
export function planStart(args: ProxyArguments): StartPlan {
  let plan: StartPlan;
  if (
    args.runDir !== undefined &&
    readRecordInProxy(new RunFiles(args.runDir, args.workerId).proxyFile(args.attempt))
  ) {
    const files = new RunFiles(args.runDir, args.workerId);
    plan = { files, start: readStartFile(files.proxyFile(args.attempt)), standAlone: false };
  } else {
    const place: StandAlonePlace = args.runDir === undefined
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
      warning: place.warning,
    };
  }
  for (const directory of plan.files.own) makeDirectory(directory);
  return plan;
}
