/**
 * Attempts whose job an engine has placed. A connected proxy outranks the engine's word. Where none is connected, the attempt
 * ends only by proof: the engine vouches that no process of the job is left; then a proxy on the daemon's own host delivers
 * what the job's own could not, from the run's directory, and reports the exit that stands there.
 */
import type { RunPlan } from "../../../config/plan.ts";
import type { RunFiles } from "../../../base/layout.ts";
import { MosaicError } from "../../../base/errors.ts";
import type { ProcessRef } from "../../../os/identity.ts";
import type { Signal } from "../../../os/signals.ts";
import type { ExitReport } from "../../../registry/failure/explain.ts";
import type { RunRow } from "../../../registry/types.ts";
import type {
  Absence,
  AbsenceStep,
  AttemptHost,
  EngineEnd,
  Host,
  Launch,
  Rest,
  WorkerGroup,
} from "../../attempt/host.ts";
import type { JobEnd } from "../launcher.ts";
import { ProxyKeeper } from "../local/proxy_keeper.ts";
import type { Placer } from "./placer.ts";

/** The proxy's report comes about a second before the engine says why it has ended the job; after so long it will not. */
const ENGINE_WORD_MS = 15_000;

export interface PlacedHostOptions {
  handshakeTimeoutSeconds: number;
  placer: () => Placer;
  /** Starts a proxy on this host that attaches to what is in the run's directory. @throws when none could be started */
  attach: (row: RunRow, plan: RunPlan, files: RunFiles) => ProcessRef | undefined;
}

export class PlacedHost implements Host {
  readonly handshakeMs: number;
  readonly #options: PlacedHostOptions;

  constructor(options: PlacedHostOptions) {
    this.#options = options;
    this.handshakeMs = options.handshakeTimeoutSeconds * 1000;
  }

  launch(row: RunRow): Launch {
    throw new MosaicError("internal", `run ${row.runId} is placed by an engine and not started here`);
  }

  attempt(row: RunRow, { plan, files }: { plan: RunPlan; files: RunFiles }): AttemptHost {
    const { placer, attach } = this.#options;
    return new PlacedAttempt(row, files, placer(), (latest) => attach(latest, plan, files));
  }
}

class PlacedAttempt implements AttemptHost {
  readonly startsProxy = false;
  readonly elsewhere = true;
  readonly #of: { runId: string; attempt: number };
  readonly #files: RunFiles;
  readonly #placer: Placer;
  readonly #attach: (row: RunRow) => ProcessRef | undefined;
  /** Of the proxy on this host that delivers what is left; undefined while the job may have processes. */
  #keeper: ProxyKeeper | undefined;
  #exitedAt: number | undefined;

  constructor(row: RunRow, files: RunFiles, placer: Placer, attach: (row: RunRow) => ProcessRef | undefined) {
    this.#of = { runId: row.runId, attempt: row.attempt };
    this.#files = files;
    this.#placer = placer;
    this.#attach = attach;
  }

  get replacing(): boolean {
    return this.#keeper?.replacing ?? false;
  }

  /**
   * How the job has ended, once no process of it is left; "gone" where nothing is known of the job at all. Who cancels the run
   * takes the engine at its word: no attempt follows that an unreachable worker could disturb.
   */
  #end(): JobEnd | "gone" | undefined {
    const view = this.#placer.view(this.#of);
    if (view === undefined) return "gone";
    const { job } = view;
    if (job.t === "ended") return job.end.proven || view.cancelRequested ? job.end : undefined;
    return job.t === "forgotten" && view.cancelRequested ? "gone" : undefined;
  }

  // By the placer, which is asked first.
  admit(): void {}

  proxyStarted(): void {}
  proxySeen(process: ProcessRef, now: number): void {
    this.#keeper?.seen(process, now);
  }
  proxyConnected(process: ProcessRef): void {
    this.#keeper?.connected(process);
  }
  proxyAbsent(now: number): void {
    this.#keeper?.disconnected(now);
  }
  killProxy(): void {
    // The job's own goes with the job.
    if (this.#keeper !== undefined) this.#keeper.kill();
    else this.#placer.stop(this.#of, "now");
  }

  whileAbsent({ now, registered, mayReplace }: Absence): AbsenceStep {
    const end = this.#end();
    // No worker was started: a proxy that comes late starts none.
    if (!registered && this.#placer.view(this.#of)?.job.t === "forgotten") return { do: "not_started" };
    if (end === undefined) return { do: "wait" };
    const engine = engineEnd(end);
    if (!registered) return engine?.reason === "job_cancelled" ? { do: "over", engine } : { do: "not_started" };
    this.#keeper ??= new ProxyKeeper(this.#files, this.#of.attempt, undefined, now, 0);
    switch (this.#keeper.step(now, registered, mayReplace).do) {
      case "nothing":
        return { do: "wait" };
      case "attach":
        return { do: "attach" };
      case "start_again":
      case "give_up":
        return { do: "over", engine };
    }
  }

  attach(row: RunRow, now: number): ProcessRef | undefined {
    let process: ProcessRef | undefined;
    try {
      process = this.#attach(row);
    } catch (error) {
      this.#keeper?.couldNotStart(now);
      throw error;
    }
    this.#keeper?.started(process, now, true);
    return process;
  }

  // Pids of another host mean nothing here.
  worker(): undefined {}
  newWorker(): undefined {}

  group(stopping: boolean): WorkerGroup {
    if (!stopping) return "unknown";
    return this.#end() === undefined ? "alive" : "gone";
  }

  signal(signal: Signal): void {
    if (signal === "SIGTERM" || signal === "SIGKILL") {
      this.#placer.stop(this.#of, signal === "SIGTERM" ? "graceful" : "now");
    }
  }

  /** A failure waits for the engine's word: it ends jobs by signals that a worker cannot tell from others. */
  endRest(report: ExitReport | undefined, now: number): Rest {
    const end = this.#end();
    if (end !== undefined) return { ended: true, engine: engineEnd(end) };
    this.#exitedAt ??= now;
    const clean = report?.code === 0 && !report.lost;
    return { ended: clean || now - this.#exitedAt >= ENGINE_WORD_MS };
  }

  release(): void {
    this.#placer.release(this.#of);
  }
}

/** Why the job has ended, where that is the engine's doing. */
function engineEnd(end: JobEnd | "gone"): EngineEnd | undefined {
  return end === "gone" || end.kind === "finished" ? undefined : { reason: end.kind, said: end.said };
}
