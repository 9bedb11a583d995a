/**
 * Starts an attempt: preflight, files, transition, proxy, in that order.
 *
 * Where it may be cut off, and what the next daemon does: before the transition the run is INIT (holding its GPUs) and is
 * simply started again; after it, nothing tells of a proxy or worker, so the attempt begins anew; once the proxy runs, its
 * lock and files tell (src/dispatch/attempt/recovery_decision.ts). So there are never two workers of one attempt.
 */
import { workerToken } from "../../../wire/tokens.ts";
import type { RunPlan } from "../../../config/plan.ts";
import { planOf } from "../../../config/plan.ts";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { explain } from "../../../registry/failure/explain.ts";
import { roomOf, roomText } from "../../../os/free_space.ts";
import { type Layout, RunFiles } from "../../../base/layout.ts";
import type { Logger } from "../../../base/log.ts";
import { makeDirectory, readRecord, writeRecord } from "../../../os/untrusted.ts";
import { type FileDescriptors, requireDescriptors } from "../../../os/descriptors.ts";
import { isShortage } from "../../../os/shortage.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { RunRow } from "../../../registry/types.ts";
import type { ProcessRef } from "../../../os/identity.ts";
import type { RunCgroup, RunCgroups } from "../../../os/cgroups.ts";
import { cgroupOf, writeStartFile } from "../../../proxy/start_file.ts";
import type { TelemetryLog } from "../../../telemetry/types.ts";
import { type WorkerCommand, workerCommand } from "./command.ts";
import { localHost } from "../../host.ts";
import { preflight } from "./preflight.ts";
import type { ProxyLauncher } from "./proxy_process.ts";
import type { Supervisor } from "../../attempt/supervisor.ts";

/** After a shortage (descriptors, processes, memory) the attempt waits this long. */
const SHORTAGE_WAIT_MS = 5000;
const HEARTBEAT_INTERVAL_S = 60;

export interface StarterOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  launcher: ProxyLauncher;
  /** Where proxies reach the daemon's API. */
  proxyTarget: () => string;
  /** Where workers that speak the original's gRPC reach the daemon. */
  workerTarget: () => string;
  /** See ProxyStartFile. */
  maxBacklogBytes: number;
  /** Where workers are held to their configs' limits; undefined: nowhere, they are advice. */
  cgroups?: RunCgroups | undefined;
  heartbeatTimeoutSeconds: number;
  /** Calls need a token: workers that make some get one. */
  auth?: "none" | "token";
  /** What is left of them is for the runs there are. */
  descriptors: FileDescriptors;
}

export class Starter {
  readonly #options: StarterOptions;

  constructor(options: StarterOptions) {
    this.#options = options;
  }

  /**
   * Brings an INIT run to HANDSHAKE, or to FAULTED with the reason. A run that is no longer INIT is left alone.
   *
   * @throws what passes (no room, no descriptors, …): the run waits.
   */
  async start(row: RunRow, supervisor: Supervisor): Promise<void> {
    const { registry, log } = this.#options;
    let reason: string;
    try {
      const plan = planOf(row.configJson);
      const files = this.#files(row);
      requireDescriptors(this.#options.descriptors, "start a run");
      requireRoom(this.#options.layout.baseDir(row.baseDir));
      for (const directory of [files.directory, files.logs, files.control]) makeDirectory(directory);
      if (plan.worker.external) return this.#expect(row, plan, files, supervisor);
      const command = this.#command(row, plan, files);
      const failures = await preflight(plan, { command, directory: files.directory, gpuSlots: row.gpuSlots });
      if (!this.#stillWaits(row)) return;
      if (failures.length === 0) return this.#spawn(row, plan, files, command, supervisor);
      reason = `preflight: ${failures.join("; ")}`;
    } catch (error) {
      if (!this.#stillWaits(row)) return;
      if (isShortage(error)) throw error;
      reason = `dispatch_error: ${messageOf(error)}`;
    }
    const hint = explain({ exit: undefined, faultRequested: reason, runFailed: undefined })?.hint ?? null;
    log.warn({ run_id: row.runId, attempt: row.attempt, reason }, "run could not be started");
    registry.apply(row.runId, { type: "failed", reason }, { hint }, () => ({
      kind: "failed",
      data: { reason, hint },
    }));
  }

  /** Starts a proxy that takes over where the one before stopped. */
  attach(row: RunRow, plan: RunPlan, files: RunFiles): ProcessRef | undefined {
    try {
      // Rewritten, because a token or a limit may be the new daemon's.
      const cgroup = cgroupOf(files.proxyFile(row.attempt));
      this.#writeStartFile(row, plan, files, this.#command(row, plan, files), cgroup);
    } catch (error) {
      // On a full disk the one from before serves as well.
      if (!isShortage(error) || readRecord(files.proxyFile(row.attempt)) === undefined) throw error;
    }
    return this.#launch(row, files, [], true);
  }

  #files(row: RunRow): RunFiles {
    return new RunFiles(this.#options.layout.runDir(row.baseDir, row.runId), row.workerId);
  }

  #command(row: RunRow, plan: RunPlan, files: RunFiles): WorkerCommand {
    const { layout, workerTarget, auth } = this.#options;
    return workerCommand(plan, {
      runId: row.runId,
      attempt: row.attempt,
      stateDir: layout.stateDir,
      directory: files.directory,
      listenTarget: workerTarget(),
      workerConfigPath: plan.worker.hasConfig ? layout.workerConfigFile(row.runId, row.workerId) : undefined,
      tokenFile: auth === "token" ? files.sessionTokenFile : undefined,
      gpuSlots: row.gpuSlots,
      resumeFrom: row.resumeFrom,
      host: localHost(),
    });
  }

  #stillWaits(row: RunRow): boolean {
    const now = this.#options.registry.get(row.runId);
    const same = now?.attempt === row.attempt && now.resumeFrom === row.resumeFrom;
    return same && now.state === "INIT" && now.cancelRequestedAt === null;
  }

  /** Somebody else starts the proxy; what it needs of this daemon lies in the run's directory. */
  #expect(row: RunRow, plan: RunPlan, files: RunFiles, supervisor: Supervisor): void {
    const { log } = this.#options;
    const sessionToken = row.sessionToken ?? newSessionToken();
    writeToken(files, sessionToken);
    const { spawned, stepsBefore } = this.#enterSpawned(row, sessionToken);
    supervisor.started(spawned, plan, undefined, stepsBefore);
    log.info({ run_id: row.runId, attempt: row.attempt, gpus: row.gpuSlots }, "run waits for its external proxy");
  }

  /** From here on without a pause: nobody can cancel the run in between. */
  #spawn(row: RunRow, plan: RunPlan, files: RunFiles, command: WorkerCommand, supervisor: Supervisor): void {
    const { registry, log, cgroups } = this.#options;
    const sessionToken = row.sessionToken ?? newSessionToken();
    const cgroup = cgroups?.create(row.runId, row.attempt, plan.resources);
    this.#writeStartFile({ ...row, sessionToken }, plan, files, command, cgroup);
    if (this.#options.auth === "token") writeToken(files, workerToken(sessionToken));
    const { spawned, stepsBefore } = this.#enterSpawned(row, sessionToken);
    let process: ProcessRef | undefined;
    try {
      process = this.#launch(spawned, files, command.argv, false);
    } catch (error) {
      log.error({ run_id: row.runId, error: messageOf(error) }, "no process could be created; the run waits");
      const notBefore = Date.now() + SHORTAGE_WAIT_MS;
      try {
        registry.apply(row.runId, { type: "requeued", reason: messageOf(error) }, { notBefore });
      } catch (again) {
        // Not even that: the supervisor finds nothing started and begins the attempt anew.
        log.error({ run_id: row.runId, error: messageOf(again) }, "nor can that be entered for now");
        supervisor.started(spawned, plan, undefined, stepsBefore);
      }
      return;
    }
    supervisor.started(spawned, plan, process, stepsBefore);
    try {
      registry.update(row.runId, { proxy: process ?? null });
    } catch (error) {
      // Only for a daemon that starts before the proxy has connected; the attempt's lock tells that one as well.
      log.warn({ run_id: row.runId, error: messageOf(error) }, "the proxy is not entered");
    }
    log.info({ run_id: row.runId, attempt: row.attempt, proxy: process?.pid, gpus: row.gpuSlots }, "run started");
  }

  #enterSpawned(row: RunRow, sessionToken: string): { spawned: RunRow; stepsBefore: number } {
    const { registry, telemetry } = this.#options;
    const stepsBefore = telemetry.summary(row.runId).steps;
    const spawned = registry.apply(row.runId, { type: "spawned" }, { sessionToken, proxy: null, worker: null }, () => ({
      kind: "started",
      data: {
        digest: row.digest,
        gpus: row.gpuSlots,
        attempt: row.attempt,
        resume_from: row.resumeFrom,
        steps_before: stepsBefore,
      },
    }));
    return { spawned, stepsBefore };
  }

  #launch(row: RunRow, files: RunFiles, command: string[], attach: boolean): ProcessRef | undefined {
    const { launcher, log, proxyTarget } = this.#options;
    const started = launcher.start({
      target: proxyTarget(),
      runId: row.runId,
      agentId: row.agentId,
      workerId: row.workerId,
      attempt: row.attempt,
      runDir: files.directory,
      attach,
      command,
    }, files.proxyLog);
    started.exited.then(({ code }) => log.debug({ run_id: row.runId, attempt: row.attempt, code }, "proxy has left"));
    return started.process;
  }

  #writeStartFile(
    row: RunRow,
    plan: RunPlan,
    files: RunFiles,
    command: WorkerCommand,
    cgroup: RunCgroup | undefined,
  ): void {
    const { layout, maxBacklogBytes, heartbeatTimeoutSeconds } = this.#options;
    const { schemaId, schema } = plan.telemetry;
    const timeout = plan.heartbeatTimeoutSeconds ?? heartbeatTimeoutSeconds;
    writeStartFile(files.proxyFile(row.attempt), {
      env: command.env,
      cwd: command.cwd,
      sessionToken: row.sessionToken ?? "",
      daemonJson: layout.daemonJson,
      stateDir: layout.stateDir,
      schema: schemaId === null && schema === null ? null : { id: schemaId ?? "", definition: schema },
      supportsPause: plan.worker.supportsPause,
      maxBacklogBytes,
      cgroup: cgroup ?? null,
      umask: plan.umask,
      heartbeatIntervalS: Math.min(HEARTBEAT_INTERVAL_S, timeout / 3),
    });
  }
}

function writeToken(files: RunFiles, token: string): void {
  writeRecord(files.sessionTokenFile, `${token}\n`);
}

function newSessionToken(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** A worker that is started on a full disk fails for no fault of its own. @throws MosaicError `unavailable` */
function requireRoom(directory: string): void {
  const room = roomOf(directory);
  if (!room.enough) throw new MosaicError("unavailable", roomText(directory, room));
}
