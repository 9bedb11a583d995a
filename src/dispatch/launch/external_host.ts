/**
 * Runs whose proxy somebody else starts, on another host or in a container (`worker.external`): the
 * daemon starts nothing, sees none of their processes, and only waits for the proxy to connect.
 */
import { MosaicError } from "../../base/errors.ts";
import type { RunPlan } from "../../config/plan.ts";
import type { RunFiles } from "../../base/layout.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { Absence, AbsenceStep, AttemptHost, Host, Launch } from "../attempt/state/host.ts";
import type { ProxyHello, WorkerSettings } from "../attempt/state/connected_proxy.ts";
import { writeSessionToken } from "./engine/session_token.ts";

/**
 * After the grace period, the proxy of a stopped attempt may stay disconnected this long; then the
 * attempt ends without it.
 */
const STOPPED_ABSENCE_MS = 15_000;

export class ExternalHost implements Host {
  /** The daemon does not know when the proxy will be started. */
  readonly handshakeMs = Infinity;
  readonly #graceMs: number;

  constructor({ graceSeconds }: { graceSeconds: number }) {
    this.#graceMs = graceSeconds * 1000;
  }

  launch(_row: RunRow, _plan: RunPlan, files: RunFiles): Launch {
    return {
      started: "run waits for its external proxy",
      check: () => Promise.resolve([]),
      // The container platform passes it to the proxy.
      prepare: (sessionToken) => writeSessionToken(files, sessionToken),
      start: () => undefined,
    };
  }

  attempt(_row: RunRow, { plan, files }: { plan: RunPlan; files: RunFiles }): AttemptHost {
    return new ExternalAttempt(this.#graceMs, plan, files);
  }
}

class ExternalAttempt implements AttemptHost {
  readonly startsProxy = false;
  readonly elsewhere = false;
  readonly apart = true;
  readonly replacing = false;
  readonly uploads: boolean;
  readonly #graceMs: number;
  readonly #plan: RunPlan;
  readonly #files: RunFiles;

  constructor(graceMs: number, plan: RunPlan, files: RunFiles) {
    this.#graceMs = graceMs;
    this.#plan = plan;
    this.#files = files;
    this.uploads = plan.worker.uploadFiles;
  }

  /**
   * A container that is started again has lost its journal: its records cannot continue the stored
   * ones.
   */
  admit(row: RunRow, hello: ProxyHello): void {
    // A proxy that was welcomed before may have started the worker.
    const isWelcomed = row.proxy !== null && row.proxy.identity !== hello.proxy.identity;
    const isAnother = hello.worker === null
      ? hello.startsWorker === true && (row.worker !== null || isWelcomed)
      : row.worker !== null && row.worker.identity !== hello.worker.identity;
    if (!isAnother) return;
    throw new MosaicError(
      "failed_precondition",
      `attempt ${row.attempt} of run ${row.runId} has a worker already, and this proxy comes with another`,
      { hint: "Start it as the run's next attempt (--attempt), or submit another run." },
    );
  }

  workerSettings({ resumeFrom }: RunRow): WorkerSettings {
    const { environment } = this.#plan;
    const own = `${this.#files.directory}/`;
    const fetch = this.uploads && resumeFrom !== null && resumeFrom.startsWith(own);
    return { environment, resumeFrom: fetch ? resumeFrom.slice(own.length) : resumeFrom, fetch };
  }

  /** A proxy that comes after the end learns that the attempt is over and ends its worker. */
  whileAbsent({ now, registered, stoppingSince }: Absence): AbsenceStep {
    if (stoppingSince === undefined) return { do: "wait" };
    const absenceMs = registered ? this.#graceMs + STOPPED_ABSENCE_MS : 0;
    return now - stoppingSince < absenceMs ? { do: "wait" } : { do: "over" };
  }

  attach(row: RunRow): never {
    throw new MosaicError(
      "failed_precondition",
      `this daemon does not start the proxy of run ${row.runId}`,
    );
  }

  worker(): undefined {}
  newWorker(): undefined {}
  group(): "unknown" {
    return "unknown";
  }
  endRest(): { ended: true } {
    return { ended: true };
  }
  // The daemon cannot reach its processes.
  proxyStarted(): void {}
  proxySeen(): void {}
  proxyConnected(): void {}
  proxyDelivered(): void {}
  proxyAbsent(): void {}
  killProxy(): void {}
  signal(): void {}
  release(): void {}
}
