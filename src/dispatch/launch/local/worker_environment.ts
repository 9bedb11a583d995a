/**
 * The environment of a worker: variables of the host that a program needs, the config's own, and
 * mosaic's. The daemon's whole environment is never passed on: it may hold secrets, and it differs
 * between hosts.
 */
import { RunFiles } from "../../../base/layout.ts";
import type { RunPlan } from "../../../config/plan.ts";
import { isSecretName } from "../../../base/text/secrets.ts";
import { exportWanted } from "../../../observability/otlp/otlp.ts";
import { traceparent } from "../../../observability/otlp/trace_context.ts";
import { kindOf } from "../../../os/files/file_kinds.ts";
import { OWN_VARIABLES, type WorkerUser } from "../../../os/rights/worker_user.ts";
import {
  matchesName,
  PASS_VARIABLE,
  PASSED_ON,
} from "../../../os/processes/inherited_environment.ts";

export interface EnvironmentContext {
  runId: string;
  attempt: number;
  /** The run's directory. */
  directory: string;
  gpuSlots: readonly number[];
  /** By which the worker sees these slots and no others. */
  gpuVariables: Record<string, string>;
  workerConfigPath: string | undefined;
  /** A file with the worker's token, if the daemon requires tokens. */
  tokenFile: string | undefined;
  /** A directory with the module `mosaic` for programs in Python. */
  pythonHelper: string | undefined;
  /** Address for MLflow's clients; undefined if a worker cannot reach it. */
  trackingUri: string | undefined;
  /** Checkpoint that the attempt resumes from. */
  resumeFrom: string | null;
  hostEnv: Record<string, string>;
  /** undefined: the daemon's. */
  user?: WorkerUser | undefined;
}

export function workerEnvironment(
  plan: RunPlan,
  context: EnvironmentContext,
): Record<string, string> {
  const env = passedOn(context.hostEnv);
  if (context.user !== undefined) {
    Object.assign(withoutOwn(env), homeOf(context.user, context.directory));
  }
  // Python writes to a file in whole blocks: without this, output would appear minutes later, or
  // never if the program is killed.
  env.PYTHONUNBUFFERED ??= context.hostEnv.PYTHONUNBUFFERED ?? "1";
  Object.assign(env, context.gpuVariables);
  env.MOSAIC_GPU_SLOTS = context.gpuSlots.join(",");
  if (context.workerConfigPath !== undefined) {
    env.TRAINER_WORKER_CONFIG_PATH = context.workerConfigPath;
  }
  if (plan.fastlane !== null) {
    env.GYM_GUI_FASTLANE_ONLY = plan.fastlane.only ? "1" : "0";
    env.GYM_GUI_FASTLANE_SLOT = String(plan.fastlane.slot);
  }
  // The daemon exports traces: the worker's own traces then join the run's.
  if (exportWanted((name) => context.hostEnv[name], "TRACES")) {
    env.TRACEPARENT = traceparent(context.runId);
  }
  const files = new RunFiles(context.directory, plan.worker.workerId);
  env.MOSAIC_CHECKPOINT_DIR = files.checkpoints(context.attempt, plan.launcher !== "local");
  // The config's variables may override everything above, including the GPU list, as in the
  // original.
  for (const [name, value] of Object.entries(plan.environment)) env[name] = value;
  // Last in the path, and the module gives way to another of its name: it hides nothing of the
  // program's.
  if (context.pythonHelper !== undefined) {
    env.PYTHONPATH = env.PYTHONPATH
      ? `${env.PYTHONPATH}:${context.pythonHelper}`
      : context.pythonHelper;
  }
  if (env.RAY_FASTLANE_ENABLED === "1") env.RAY_FASTLANE_RUN_ID = context.runId;
  if (env.MOSAIC_FASTLANE_ENABLED === "1" || env.GYM_GUI_FASTLANE_ONLY === "1") {
    env.XUANCE_RUN_ID = context.runId;
  }
  if (context.trackingUri !== undefined) env.MLFLOW_TRACKING_URI ??= context.trackingUri;
  env.WORKER_ID ??= plan.worker.workerId || "worker";
  env.RUN_ID = context.runId;
  env.MOSAIC_RUN_ID = context.runId;
  env.MOSAIC_RUN_DIR = context.directory;
  env.MOSAIC_ATTEMPT = String(context.attempt);
  env.MOSAIC_RESUME_FROM = context.resumeFrom ?? "";
  const uses = plan.uses.map(({ artifact, file }) => ({ artifact, file }));
  if (uses.length > 0) env.MOSAIC_USES = JSON.stringify(uses);
  // For a worker that speaks gRPC itself. In a file, because debuggers and crash reports show an
  // environment.
  if (context.tokenFile !== undefined) env.MOSAIC_TOKEN_FILE = context.tokenFile;
  return env;
}

/** A user of the host keeps its home; a user without a name or home gets its run's directory. */
function homeOf({ name, home, uid }: WorkerUser, directory: string): Record<string, string> {
  const user = name || String(uid);
  return { HOME: kindOf(home) === "directory" ? home : directory, USER: user, LOGNAME: user };
}

function withoutOwn(env: Record<string, string>): Record<string, string> {
  for (const name of OWN_VARIABLES) delete env[name];
  return env;
}

function passedOn(host: Record<string, string>): Record<string, string> {
  const further = (host[PASS_VARIABLE] ?? "").split(",").map((name) => name.trim()).filter((name) =>
    name !== ""
  );
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(host)) {
    if (name === "CUDA_VISIBLE_DEVICES") continue;
    const is = (pattern: string) => matchesName(pattern, name);
    // A pattern of many names is no decision about a secret; a person who names it has decided.
    if (further.some(is) || (PASSED_ON.some(is) && !isSecretName(name))) env[name] = value;
  }
  env.PATH ??= "/usr/local/bin:/usr/bin:/bin";
  return env;
}
