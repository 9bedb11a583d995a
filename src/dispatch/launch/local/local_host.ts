/**
 * The daemon's own host: checks before a start, proxies as processes, cgroups, GPUs, and orphans.
 */
import { HEARTBEAT_S } from "../../../base/agreed.ts";
import { MosaicError } from "../../../base/errors.ts";
import { copyCheckpoint, inheritedPath } from "./inherited_checkpoint.ts";
import { workerToken } from "../../../base/session_tokens.ts";
import type { RunPlan } from "../../../config/plan.ts";
import { type Layout, RunFiles } from "../../../base/layout.ts";
import { nodeRunName } from "../../../uploads/uploaded.ts";
import { readTextIfThere } from "../../../os/files/files.ts";
import type { Order } from "../engine/launcher.ts";
import type { Logger } from "../../../base/log.ts";
import type { RunCgroup, RunCgroups } from "../../../os/processes/cgroups.ts";
import type { GpuPool } from "../../gpus/gpu_pool.ts";
import type { ProcessRef } from "../../../os/processes/identity.ts";
import { isShortage } from "../../../os/processes/shortage.ts";
import { readRecord } from "../../../os/files/untrusted.ts";
import { makeDirectory, offerDirectory } from "../../../os/files/untrusted_changes.ts";
import { withoutLinks } from "./linked_places.ts";
import { type Observation, observationOf } from "../../../readers/files/observation.ts";
import {
  placeOfWorker,
  type ProxyStartFile,
  type StartTls,
  writeStartFile,
} from "../../../proxy/start/start_file.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type { AttemptHost, Host, Launch } from "../../attempt/state/host.ts";
import { rankedCommand } from "../slurm/ranks.ts";
import { writeSessionToken } from "../engine/session_token.ts";
import { checksOf, noGpuOf, type WorkerCommand, workerCommand } from "./command.ts";
import { localHost } from "./command_host.ts";
import { LocalAttempt } from "./local_attempt.ts";
import { reapOrphans } from "./orphans.ts";
import {
  giveRunTo,
  type WorkerUser,
  type WorkerUserOption,
} from "../../../os/rights/worker_user.ts";
import { WorkerUsers } from "./worker_users.ts";
import { preflight } from "../../../proxy/start/preflight.ts";
import { type ProxyArguments, proxyCommand, type ProxyLauncher } from "./proxy_process.ts";
import type { Auth } from "../../../wire/address/tls.ts";

/** A link between hosts can break without notice. */
const PLACED_HEARTBEAT_INTERVAL_S = 5;

export interface LocalHostOptions {
  log: Logger;
  layout: Layout;
  launcher: ProxyLauncher;
  gpus: Pick<GpuPool, "variablesOf">;
  /** Where proxies reach the daemon. */
  proxyTarget: () => string;
  /** Where workers that speak the original's gRPC reach the daemon. */
  workerTarget: () => string;
  /** Where workers reach the API over HTTP without TLS; "" for nowhere. */
  trackingAddress: () => string;
  /** See ProxyStartFile. */
  maxBacklogBytes: number;
  /** Enforces the limits of configs; undefined: the limits are advice. */
  cgroups?: RunCgroups | undefined;
  /** For runs whose config sets none. */
  handshakeTimeoutSeconds: number;
  heartbeatTimeoutSeconds: number;
  /** Between SIGTERM and SIGKILL. */
  graceSeconds: number;
  /** A TCP listener requires no token from processes of the daemon's user. */
  openToOwnUser?: boolean;
  /** If calls may need a token, workers that call the daemon get one. */
  auth?: Auth;
  /** This process may start others as any user. */
  isRoot?: boolean;
  /** The user of all workers; undefined: each config's own. */
  workerUser?: WorkerUserOption | undefined;
  /** Whether the state directory at its path is still this daemon's. Default: it is. */
  holdsPlace?: () => boolean;
}

/** The registry's knowledge of a run's attempts, to judge processes that are found. */
export interface KnownAttempts {
  /** The attempt that may have processes; undefined if the run has none. */
  supervised(runId: string): number | undefined;
  isKnown(runId: string): boolean;
}

type StartParts = [
  command: WorkerCommand,
  cgroup: RunCgroup | undefined,
  more?: Pick<ProxyStartFile, "placed" | "tls" | "observe">,
];

export class LocalHost implements Host {
  readonly handshakeMs: number;
  readonly #options: LocalHostOptions;
  readonly #users: WorkerUsers;

  constructor(options: LocalHostOptions) {
    this.#options = options;
    this.#users = new WorkerUsers(options.layout, options.isRoot === true, options.workerUser);
    this.handshakeMs = options.handshakeTimeoutSeconds * 1000;
  }

  launch(row: RunRow, plan: RunPlan, files: RunFiles): Launch {
    const { cgroups, auth = "none" } = this.#options;
    const user = this.#users.of(plan.worker.user, row.owner, files.directory);
    if (user === undefined) this.#refuseReachable(plan);
    const command = this.#command(row, plan, files, user);
    if (user !== undefined) this.#give(user, row, plan, files);
    let observe: Observation | null = null;
    return {
      started: "run started",
      check: async () => {
        const chosen = observedOf(command, plan.telemetry.observe, row.observed);
        const [failures, resolved] = await Promise.all([
          preflight(checksOf(plan, command), {
            interpreter: command,
            directory: files.directory,
            noGpu: noGpuOf(plan, row.gpuSlots),
          }),
          chosen && withoutLinks(chosen, command.cwd),
        ]);
        observe = resolved;
        if (failures.length > 0 || plan.resumeFrom === null || row.resumeFrom !== null) {
          return failures;
        }
        const failure = await copyCheckpoint(plan.resumeFrom, files.directory, user);
        return failure === undefined ? [] : [failure];
      },
      prepare: (sessionToken) => {
        const cgroup = cgroups?.create(row.runId, row.attempt, plan.resources);
        this.#writeStartFile({ ...row, sessionToken }, plan, files, command, cgroup, { observe });
        if (auth !== "none") writeSessionToken(files, workerToken(sessionToken), user?.gid);
      },
      start: (spawned) => this.#start(spawned, files, command.argv, false),
    };
  }

  attempt(
    row: RunRow,
    { plan, files, now, absenceMs }: {
      plan: RunPlan;
      files: RunFiles;
      now: number;
      absenceMs: number;
    },
  ): AttemptHost {
    return new LocalAttempt(row, {
      files,
      now,
      absenceMs,
      attach: (latest) => this.#attach(latest, plan, files),
    });
  }

  /**
   * Writes the start file for a proxy on another host, and returns the command that starts it
   * there. The worker's command is built from this host's files: both hosts have the same.
   */
  placed(
    row: RunRow,
    plan: RunPlan,
    files: RunFiles,
    { target, tls, nodeDirectory }: {
      target: string;
      tls: StartTls | null;
      nodeDirectory?: string | undefined;
    },
  ): Pick<Order, "argv" | "env" | "node"> {
    if (nodeDirectory !== undefined) {
      return this.#onNode(row, plan, files, { target, tls, nodeDirectory });
    }
    for (const directory of [files.directory, ...files.own]) makeDirectory(directory);
    for (const directory of files.outputs) offerDirectory(directory);
    offerDirectory(files.checkpoints(row.attempt, true), files.directory);
    const command = this.#command(row, plan, files);
    const { nodes, tasksPerNode } = plan.slurm;
    if (nodes * tasksPerNode > 1) {
      // The shells that start ranks have the config's environment, and bubblewrap must not
      // (os/rights/crossing.ts).
      if (command.sandbox.length > 0) {
        throw new MosaicError(
          "failed_precondition",
          "metadata.sandbox and several ranks cannot be combined",
        );
      }
      const ranks = { files, attempt: row.attempt, controlled: plan.worker.supportsPause };
      command.argv = rankedCommand(command.argv, plan.slurm, ranks);
    }
    // The node sets it, unless the config does.
    if (plan.environment.CUDA_VISIBLE_DEVICES === undefined) {
      delete command.env.CUDA_VISIBLE_DEVICES;
    }
    const { lingerSeconds, leaseSeconds } = plan.slurm;
    const placed = { lingerSeconds, leaseSeconds, preflight: checksOf(plan, command) };
    this.#writeStartFile(row, plan, files, command, undefined, { placed, tls });
    if ((this.#options.auth ?? "none") !== "none") {
      writeSessionToken(files, workerToken(row.sessionToken ?? ""));
    }
    return proxyCommand({ ...this.#proxy(row, files, command.argv, false), target });
  }

  /**
   * For a node that has no files of this host except mosaic and those named by the worker's
   * command.
   */
  #onNode(
    row: RunRow,
    plan: RunPlan,
    here: RunFiles,
    { target, tls, nodeDirectory }: { target: string; tls: StartTls | null; nodeDirectory: string },
  ): Pick<Order, "argv" | "env" | "node"> {
    const { layout, auth = "none" } = this.#options;
    for (const directory of [here.directory, ...here.own]) makeDirectory(directory);
    const nodeFiles = new RunFiles(
      `${nodeDirectory}/${nodeRunName(row.runId, row.attempt)}`,
      row.workerId,
    );
    const made: Record<string, string> = {};
    const bring = (path: string | undefined, name: string) => {
      const text = path === undefined ? undefined : readTextIfThere(path);
      if (text === undefined) return undefined;
      made[`${nodeFiles.control}/${name}`] = text;
      return `${nodeFiles.control}/${name}`;
    };
    const { resumeFrom } = row;
    const inRun = resumeFrom?.startsWith(`${here.directory}/`)
      ? resumeFrom.slice(here.directory.length + 1)
      : undefined;
    const resume = inRun === undefined ? undefined : `${nodeFiles.control}/resume`;
    const command = this.#command(
      { ...row, resumeFrom: resume ? `${resume}/${inRun}` : resumeFrom },
      plan,
      nodeFiles,
    );
    const { env } = command;
    if (plan.environment.CUDA_VISIBLE_DEVICES === undefined) delete env.CUDA_VISIBLE_DEVICES;
    // Paths in this host's state directory.
    const moved: [string, string | undefined][] = [
      [
        layout.workerConfigFile(row.runId, row.workerId),
        bring(env.TRAINER_WORKER_CONFIG_PATH, "worker-config.json"),
      ],
      [
        layout.pythonHelper,
        bring(`${layout.pythonHelper}/mosaic.py`, "python-helper/mosaic.py") &&
        `${nodeFiles.control}/python-helper`,
      ],
    ];
    const onNode = (text: string) =>
      moved.reduce((now, [from, to]) => to === undefined ? now : now.replaceAll(from, to), text);
    for (const name of Object.keys(env)) env[name] = onNode(env[name]!);
    command.sandbox = command.sandbox.map(onNode);
    if (auth !== "none") {
      made[nodeFiles.sessionTokenFile] = `${workerToken(row.sessionToken ?? "")}\n`;
    }
    const ca = tls?.ca == null ? null : bring(tls.ca, "ca.pem") ?? tls.ca;
    const { lingerSeconds, leaseSeconds } = plan.slurm;
    const start = JSON.stringify({
      ...this.#startFile(row, plan, command, undefined, {
        placed: {
          ...{ lingerSeconds, leaseSeconds, preflight: checksOf(plan, command) },
          ownDisk: { resume: resume ?? null },
        },
        tls: tls && { ca },
      }),
      daemonJson: "",
      stateDir: "",
    });
    made[nodeFiles.proxyFile(row.attempt)] = start;
    const directories = [
      ...[...nodeFiles.own, `${nodeFiles.control}/python-helper`, ...nodeFiles.outputs],
      nodeFiles.checkpoints(row.attempt, true),
    ];
    const proxy = { ...this.#proxy(row, nodeFiles, command.argv.map(onNode), false), target };
    const readText = (path: string) =>
      path === nodeFiles.proxyFile(row.attempt) ? start : undefined;
    return {
      ...proxyCommand(proxy, readText),
      node: { directory: nodeFiles.directory, directories, files: made },
    };
  }

  /** Starts a proxy on this host that delivers the rest of a run's directory. */
  attachHere(row: RunRow, files: RunFiles): ProcessRef | undefined {
    return this.#start(row, files, [], true);
  }

  /** Ends worker groups and cgroups of attempts that are over. */
  endOrphans(known: KnownAttempts): void {
    const { layout, log, cgroups, holdsPlace = () => true } = this.#options;
    // Otherwise the processes that name the directory are the runs of its next daemon.
    if (!holdsPlace()) {
      return log.error(
        { state_dir: layout.stateDir },
        "the state directory was removed or replaced",
      );
    }
    reapOrphans(layout, (runId) => known.supervised(runId), log);
    // Other daemons may have cgroups below the same parent.
    cgroups?.sweep((runId, attempt) => known.isKnown(runId) && known.supervised(runId) !== attempt);
  }

  /** Starts a proxy that continues with the worker of an earlier proxy. */
  #attach(row: RunRow, plan: RunPlan, files: RunFiles): ProcessRef | undefined {
    try {
      // Rewritten, because the new daemon may have another token or limit.
      const { cgroup, user, observe } = placeOfWorker(files.proxyFile(row.attempt));
      const command = this.#command(row, plan, files, user);
      // Links are resolved before the worker starts; what people have named since is resolved
      // already.
      const named = observedOf(command, null, row.observed);
      const globs = [...observe?.globs ?? [], ...named?.globs ?? []];
      const known = observe ?? named;
      this.#writeStartFile(row, plan, files, command, cgroup, {
        observe: known &&
          {
            ...known,
            globs: globs.filter(({ glob }, i) => globs.findIndex((g) => g.glob === glob) === i),
          },
      });
    } catch (error) {
      // On a full disk the existing file serves as well.
      if (!isShortage(error) || readRecord(files.proxyFile(row.attempt)) === undefined) throw error;
    }
    return this.#start(row, files, [], true);
  }

  /**
   * @throws MosaicError `failed_precondition` if this daemon cannot start the worker as the user
   * that the plan names
   */
  admit({ worker }: RunPlan, owner: string): void {
    this.#users.check(worker.user, owner);
  }

  #give(user: WorkerUser, row: RunRow, plan: RunPlan, files: RunFiles): void {
    const { layout } = this.#options;
    const way = [layout.stateDir, layout.trainer, layout.configs, layout.baseDir(row.baseDir)];
    const config = plan.worker.hasConfig ? [layout.workerConfigFile(row.runId, row.workerId)] : [];
    giveRunTo(user, files.directory, way, config);
  }

  /**
   * @throws MosaicError `failed_precondition`: over loopback a sandboxed worker would be recognized
   * as the daemon's own user
   */
  #refuseReachable({ sandbox }: RunPlan): void {
    if (sandbox.kind === "none" || !sandbox.network || !this.#options.openToOwnUser) return;
    throw new MosaicError(
      "failed_precondition",
      "metadata.sandbox has network: true, and this daemon takes calls of its own user on loopback without a token: " +
        'start it with "--auth token" or with "--http none --listen none", or leave out sandbox.network',
    );
  }

  #command(row: RunRow, plan: RunPlan, files: RunFiles, user?: WorkerUser): WorkerCommand {
    const { layout, workerTarget, trackingAddress, auth = "none" } = this.#options;
    return workerCommand(plan, {
      runId: row.runId,
      attempt: row.attempt,
      stateDir: layout.stateDir,
      directory: files.directory,
      listenTarget: workerTarget(),
      trackingAddress: trackingAddress(),
      workerConfigPath: plan.worker.hasConfig
        ? layout.workerConfigFile(row.runId, row.workerId)
        : undefined,
      tokenFile: auth !== "none" ? files.sessionTokenFile : undefined,
      gpuSlots: row.gpuSlots,
      gpuVariables: this.#options.gpus.variablesOf(row),
      resumeFrom: row.resumeFrom ??
        (plan.resumeFrom && inheritedPath(files.directory, plan.resumeFrom)),
      user,
      host: localHost(user),
    });
  }

  #start(row: RunRow, files: RunFiles, command: string[], attach: boolean): ProcessRef | undefined {
    const { launcher, log } = this.#options;
    const { user } = placeOfWorker(files.proxyFile(row.attempt));
    const started = launcher.start(
      { ...this.#proxy(row, files, command, attach), user },
      files.proxyLog,
    );
    started.exited.then(({ code }) =>
      log.debug({ run_id: row.runId, attempt: row.attempt, code }, "proxy has left")
    );
    return started.process;
  }

  #proxy(row: RunRow, files: RunFiles, command: string[], attach: boolean): ProxyArguments {
    return {
      target: this.#options.proxyTarget(),
      runId: row.runId,
      agentId: row.agentId,
      workerId: row.workerId,
      attempt: row.attempt,
      runDir: files.directory,
      attach,
      command,
    };
  }

  #writeStartFile(row: RunRow, plan: RunPlan, files: RunFiles, ...more: StartParts): void {
    writeStartFile(files.proxyFile(row.attempt), this.#startFile(row, plan, ...more));
  }

  #startFile(
    row: RunRow,
    plan: RunPlan,
    ...[command, cgroup, more = {}]: StartParts
  ): ProxyStartFile {
    const { layout, auth = "none", maxBacklogBytes, heartbeatTimeoutSeconds, graceSeconds } =
      this.#options;
    const { schemaId, schema, textOff, observe } = plan.telemetry;
    const timeout = plan.heartbeatTimeoutSeconds ?? heartbeatTimeoutSeconds;
    const longest = more.placed === undefined
      ? HEARTBEAT_S
      : Math.min(PLACED_HEARTBEAT_INTERVAL_S, (plan.slurm.leaseSeconds ?? Infinity) / 4);
    return {
      env: auth !== "none" ? withTrackingToken(command.env, row) : command.env,
      cwd: command.cwd,
      user: command.user ?? null,
      sandbox: command.sandbox,
      sessionToken: row.sessionToken ?? "",
      daemonJson: layout.daemonJson,
      stateDir: layout.stateDir,
      schema: schemaId === null && schema === null
        ? null
        : { id: schemaId ?? "", definition: schema },
      textOff,
      observe: observedOf(command, observe, row.observed),
      journal: plan.artifacts.keepJournal
        ? "kept"
        : plan.artifacts.persistLogs
        ? "packed"
        : "dropped",
      fastlane: plan.fastlane !== null || FASTLANE.some((name) => command.env[name] === "1"),
      // Otherwise the directory is the daemon's own.
      code: plan.recordsCode && plan.worker.cwd !== "",
      supportsPause: plan.worker.supportsPause,
      maxBacklogBytes,
      cgroup: cgroup ?? null,
      umask: plan.umask,
      heartbeatIntervalS: Math.min(longest, timeout / 3),
      graceS: graceSeconds,
      ...more,
    };
  }
}

/** Of a run that observes nothing, only the files that somebody has named since; null: none. */
function observedOf(
  command: WorkerCommand,
  observe: readonly string[] | null,
  named: readonly string[],
): Observation | null {
  if (observe === null && named.length === 0) return null;
  const observation = observationOf(command, [...new Set([...observe ?? [], ...named])]);
  return observe === null ? { ...observation, roots: [], places: [] } : observation;
}

/** Variables by which the original's forms ask for frames in shared memory. */
const FASTLANE = ["MOSAIC_FASTLANE_ENABLED", "GYM_GUI_FASTLANE_ONLY"];

/**
 * MLflow's clients read a token only from their environment. A token for another server is not
 * replaced.
 */
function withTrackingToken(
  env: Record<string, string>,
  { runId, sessionToken }: RunRow,
): Record<string, string> {
  const ours = env.MLFLOW_TRACKING_URI?.endsWith(`/mlflow/${runId}`);
  return ours && sessionToken ? { MLFLOW_TRACKING_TOKEN: workerToken(sessionToken), ...env } : env;
}
