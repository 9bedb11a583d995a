/**
 * The command that starts a run's worker: program, arguments, environment and working directory;
 * and the checks before. Only decides.
 */
import { DEFAULT_LISTEN, GRPC_PORT } from "../../../base/agreed.ts";
import { MosaicError } from "../../../base/errors.ts";
import { sandboxed } from "../../../os/rights/bubblewrap.ts";
import type { Confinement } from "../../../os/rights/crossing.ts";
import type { WorkerUser } from "../../../os/rights/worker_user.ts";
import { socketPlace } from "../../../os/files/socket_path.ts";
import { Layout, RunFiles } from "../../../base/layout.ts";
import type { RunPlan } from "../../../config/plan.ts";
import { BUILT_IN_WORKERS } from "../../../config/schema.ts";
import type { PreflightChecks } from "../../../proxy/start/preflight.ts";
import type { CommandHost } from "./command_host.ts";
import { workerEnvironment } from "./worker_environment.ts";

export interface CommandContext {
  runId: string;
  attempt: number;
  stateDir: string;
  /** The run's directory, absolute. */
  directory: string;
  /**
   * Where the daemon's gRPC can be reached: `HOST:PORT` or `unix:PATH`; "" with `--listen none`.
   */
  listenTarget: string;
  /** Where the daemon serves MLflow's clients: HOST:PORT; "" if a worker cannot reach it. */
  trackingAddress: string;
  /** The worker's config file, if one was written. */
  workerConfigPath?: string | undefined;
  /** A file with the run's session token, if the daemon requires tokens. */
  tokenFile?: string | undefined;
  gpuSlots: readonly number[];
  /** By which the worker sees these slots and no others. */
  gpuVariables: Record<string, string>;
  /** Checkpoint that the attempt resumes from. */
  resumeFrom: string | null;
  /** The worker's user; undefined: the daemon's. */
  user?: WorkerUser | undefined;
  host: CommandHost;
}

export interface WorkerCommand extends Confinement {
  sandbox: string[];
  argv: string[];
  env: Record<string, string>;
  cwd: string;
  /**
   * The interpreter that the worker's modules are looked up with (src/proxy/start/preflight.ts).
   */
  python: string[];
}

/** Values that mean "the daemon at its default address". */
const USUAL_TARGETS = ["", DEFAULT_LISTEN, `localhost:${GRPC_PORT}`, `0.0.0.0:${GRPC_PORT}`];

/**
 * @throws {MosaicError} `failed_precondition` if the sandbox that the config asks for is not
 * available.
 */
export function workerCommand(plan: RunPlan, context: CommandContext): WorkerCommand {
  const { host } = context;
  const env = workerEnvironment(plan, {
    runId: context.runId,
    attempt: context.attempt,
    directory: context.directory,
    gpuSlots: context.gpuSlots,
    gpuVariables: context.gpuVariables,
    workerConfigPath: context.workerConfigPath,
    tokenFile: context.tokenFile,
    pythonHelper: helperOf(context),
    trackingUri: trackingUriOf(plan, context),
    resumeFrom: context.resumeFrom,
    hostEnv: host.env,
    user: context.user,
  });
  const cwd = plan.worker.cwd || defaultDirectory(context);
  const python = pythonOf(plan, { env, cwd, host });
  const sandbox = plan.sandbox.kind === "none" ? [] : sandboxOf(plan, context, cwd);
  return { argv: argvOf(plan, context, python), env, cwd, user: context.user, sandbox, python };
}

/**
 * The daemon's, unless the worker's user cannot enter it: a daemon of root may have been started in
 * a home directory.
 */
function defaultDirectory({ host, user, directory }: CommandContext): string {
  return user === undefined || host.isDirectory(`${host.cwd}/.`) ? host.cwd : directory;
}

/** What `metadata.preflight` asks for. */
export function checksOf(
  { preflight, worker }: RunPlan,
  { python }: WorkerCommand,
): PreflightChecks {
  const modules = preflight.modules.map((name) => ({ name, load: true }));
  // As in the original: packages of these workers are often not installed. They are only searched,
  // because importing takes seconds.
  const own = worker.module.split(".")[0]!;
  if (/^(cleanrl|xuance)_worker/.test(own)) modules.push({ name: own, load: false });
  return { ...preflight, modules, python };
}

/** Why a worker of this host sees no GPU; undefined if it sees one. */
export function noGpuOf(plan: RunPlan, gpuSlots: readonly number[]): string | undefined {
  if (gpuSlots.length > 0) return undefined;
  return plan.resources.gpus.requested === 0
    ? "a GPU is asked for by metadata.preflight.gpu, and the run requests none; set resources.gpus.requested"
    : "a GPU is asked for, and none is visible to the run; check nvidia-smi, or start the daemon with --gpus";
}

/**
 * A client without a server would retry for minutes, so a worker that cannot reach the daemon gets
 * no address.
 */
function trackingUriOf(
  { sandbox }: RunPlan,
  { trackingAddress, runId }: CommandContext,
): string | undefined {
  const reachable = trackingAddress !== "" && (sandbox.kind === "none" || sandbox.network);
  return reachable ? `http://${trackingAddress}/mlflow/${runId}` : undefined;
}

/** The directory with the Python helper; undefined if it could not be written (a full disk). */
function helperOf({ host, stateDir }: CommandContext): string | undefined {
  const directory = new Layout(stateDir).pythonHelper;
  return host.isFile(`${directory}/mosaic.py`) ? directory : undefined;
}

function argvOf(plan: RunPlan, context: CommandContext, python: string[]): string[] {
  const { worker } = plan;
  if (worker.module === "" && worker.script === "") {
    const program = BUILT_IN_WORKERS.some((name) => name === plan.entryPoint)
      ? [...context.host.self(), plan.entryPoint.slice("mosaic:".length)]
      : [plan.entryPoint];
    return [...program, ...plan.arguments, ...worker.arguments];
  }
  const argv = worker.module !== "" ? [...python, "-m", worker.module] : [worker.script];
  argv.push(...worker.arguments);
  const addFlag = (flag: string, ...value: string[]) => {
    if (!argv.some((argument) => argument === flag || argument.startsWith(`${flag}=`))) {
      argv.push(flag, ...value);
    }
  };
  if (context.workerConfigPath !== undefined) addFlag("--config", context.workerConfigPath);
  const target = USUAL_TARGETS.includes(worker.grpcTarget)
    ? context.listenTarget
    : worker.grpcTarget;
  // Without a gRPC listener there is nothing to call.
  if (worker.useGrpc && target !== "") {
    addFlag("--grpc");
    addFlag("--grpc-target", target);
  }
  if (worker.workerId !== "") addFlag("--worker-id", worker.workerId);
  return argv;
}

/**
 * A path to a Python, as the original's forms give; a bare name does not say which Python is meant.
 */
const PYTHON_PATH = /\/python[\d.]*$/;

/**
 * The Python of a run: `worker.python`; else `entry_point`, if it is a path; else `uv run`, if the
 * project has a uv lock file and uv is installed; else the active virtual environment's; else
 * `python3`.
 */
function pythonOf(
  plan: RunPlan,
  where: { env: Record<string, string>; cwd: string; host: CommandHost },
): string[] {
  const { env, cwd, host } = where;
  if (plan.worker.python !== "") return [plan.worker.python];
  if (PYTHON_PATH.test(plan.entryPoint)) return [plan.entryPoint];
  const uv = host.isFile(`${cwd}/uv.lock`) ? host.findProgram("uv", env.PATH ?? "") : undefined;
  if (uv !== undefined) return [uv, "run", "--project", cwd, "python"];
  const inEnvironment = env.VIRTUAL_ENV ? `${env.VIRTUAL_ENV}/bin/python` : "";
  if (inEnvironment !== "" && host.isFile(inEnvironment)) return [inEnvironment];
  return ["python3"];
}

const DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin";

/**
 * Words before a command. The run's directory, its logs and its control directory must exist when
 * the command is run.
 */
function sandboxOf(plan: RunPlan, context: CommandContext, cwd: string): string[] {
  const { host, stateDir, directory, workerConfigPath, tokenFile } = context;
  // Not by the config's PATH: another program would run outside of every sandbox.
  const program = host.findProgram("bwrap", host.env.PATH || DEFAULT_PATH);
  if (program === undefined) {
    const message = "metadata.sandbox asks for bubblewrap, and there is no bwrap on this host";
    throw new MosaicError("failed_precondition", message, {
      hint: "Install the package bubblewrap, or remove metadata.sandbox.",
    });
  }
  const files = new RunFiles(directory, plan.worker.workerId);
  const runtimeDir = host.env.XDG_RUNTIME_DIR;
  const [, ...rest] = sandboxed([], plan.sandbox, {
    stateDir,
    runDir: directory,
    readOnlyDirs: [files.logs, files.media],
    controlDir: files.control,
    readable: [workerConfigPath, tokenFile, helperOf(context)].filter((path) => path !== undefined),
    socketDir: socketPlace(new Layout(stateDir).trainer, (name) => host.env[name]).directory,
    runtimeDir: runtimeDir !== undefined && host.isDirectory(runtimeDir) ? runtimeDir : undefined,
    cwd,
    devices: context.gpuSlots.length === 0 ? [] : host.gpuDevices(),
  });
  return [program, ...rest];
}
