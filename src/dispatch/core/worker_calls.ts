/** Calls of workers and proxies by the original's contract: RegisterWorker, Heartbeat, Publish. */
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type {
  EpisodeRecord,
  StepRecord,
  WorkerEventRecord,
} from "../../gen/records/record_types.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import { workerToken } from "../../base/session_tokens.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import { newSessionToken } from "../launch/engine/session_token.ts";
import type { Control } from "./control.ts";
import type { RegisterRequest } from "./core.ts";

export interface WorkerCallsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  supervisor: Supervisor;
  control: Control;
  log: Logger;
}

export class WorkerCalls {
  readonly #options: WorkerCallsOptions;

  constructor(options: WorkerCallsOptions) {
    this.#options = options;
  }

  register(request: RegisterRequest): { acceptedVersion: string; sessionToken: string } {
    const { registry, control } = this.#options;
    if (request.runId === "") throw new MosaicError("invalid_argument", "run_id is empty");
    const row = registry.require(request.runId);
    if (isEnded(row.state)) {
      throw new MosaicError("failed_precondition", `run ${row.runId} is already terminated`);
    }
    const acceptedVersion = acceptedProtocol(request.protoVersion);
    const supervisor = control.supervised(control.requireRunning(request.runId, "registered"));
    // The proxy registers, and so does a worker with --grpc: neither may undo the other's
    // registration.
    const sessionToken = row.sessionToken ?? newSessionToken();
    const byProxy = request.workerKind === "telemetry_proxy" && row.workerKind !== null;
    registry.update(row.runId, {
      sessionToken,
      ...(byProxy ? {} : {
        workerKind: request.workerKind,
        protoVersion: acceptedVersion,
        schemaId: request.schemaId,
        schemaVersion: request.schemaVersion,
      }),
      supportsPause: row.supportsPause || request.supportsPause,
      supportsCheckpoint: row.supportsCheckpoint || request.supportsCheckpoint,
    });
    supervisor.registered(row.runId);
    // A registering worker does not get its proxy's token.
    return { acceptedVersion, sessionToken: workerToken(sessionToken) };
  }

  heartbeat(runId: string): void {
    this.#options.registry.require(runId);
    this.#options.supervisor.heartbeat(runId);
  }

  publish(
    runId: string,
    steps: StepRecord[],
    episodes: EpisodeRecord[],
    events: WorkerEventRecord[] = [],
    label = "",
    within?: string,
  ): void {
    const { registry, telemetry, supervisor, log } = this.#options;
    const row = registry.require(runId);
    if (supervisor.get(runId) === undefined || row.state === "HANDSHAKE") {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${row.state}: RegisterWorker comes first`,
      );
    }
    telemetry.append(within ?? runId, within ? 1 : row.attempt, steps, episodes, events, label);
    try {
      const columns = {
        n: steps.length,
        reward: steps.map(({ reward }) => reward),
        infoJson: steps.map(({ infoJson }) => infoJson),
      };
      supervisor.published(runId, { steps: columns, episodes, events });
    } catch (error) {
      // The records are stored: a failure here must not make the caller publish them again. The
      // next record tries this again.
      log.warn(
        { run_id: runId, error: messageOf(error) },
        "published records are stored, but the run's state is not updated yet",
      );
    }
  }
}

/** The version of the original contract that workers and proxies register with. */
const OURS = "MOSAIC/1.0";

/**
 * The version used for a worker that asked for `wanted`: any minor version of our major; ours if it
 * names none.
 * @throws MosaicError `failed_precondition` naming both sides
 */
function acceptedProtocol(wanted: string): string {
  if (wanted === "") return OURS;
  if (/^MOSAIC\/1(\.\d+)*$/.test(wanted)) return wanted;
  throw new MosaicError(
    "failed_precondition",
    `the worker speaks ${JSON.stringify(wanted)}, this daemon ${OURS}`,
    {
      hint: "Use a worker and a daemon with the same major version.",
    },
  );
}
