/**
 * Attempts whose job an engine has placed. A connected proxy is believed before the engine. Without
 * one, the attempt ends only when the engine knows that no process of the job is left. Then a proxy
 * on the daemon's own host delivers the rest from the run's directory, and reports the recorded
 * exit.
 */
import type { RunPlan } from "../../../config/plan.ts";
import type { RunFiles } from "../../../base/layout.ts";
import { KILL_WAIT_MS } from "../../../proxy/state/grace.ts";
import { GRACE_S } from "../../../base/agreed.ts";
import { kindOf } from "../../../os/files/file_kinds.ts";
import { MosaicError } from "../../../base/errors.ts";
import type { ProcessRef } from "../../../os/processes/identity.ts";
import type { Signal } from "../../../os/processes/signals.ts";
import type { ExitReport } from "../../../registry/failure/explain.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type {
  Absence,
  AbsenceStep,
  AttemptHost,
  EngineEnd,
  Host,
  Launch,
  Rest,
  WorkerGroup,
} from "../../attempt/state/host.ts";
import type { JobEnd } from "../engine/launcher.ts";
import { firstFailure } from "./ranks.ts";
import { proxyLockHeld } from "../local/attempt_files.ts";
import { ProxyKeeper } from "../local/proxy_keeper.ts";
import type { Placer } from "./placer.ts";

/** Time after the lease that a proxy may need to end its worker. */
const LEASE_MARGIN_MS = GRACE_S * 1000 + KILL_WAIT_MS;
/**
 * The engine says why it has ended the job about a second after the proxy's report; after this time
 * it will not say it any more.
 */
const ENGINE_WORD_MS = 15_000;

export interface PlacedHostOptions {
  handshakeTimeoutSeconds: number;
  placer: () => Placer;
  /**
   * Starts a proxy on this host that attaches to the run's directory. @throws when none could be
   * started
   */
  attach: (row: RunRow, plan: RunPlan, files: RunFiles) => ProcessRef | undefined;
  /** The node shares no disk with this host. */
  uploads: (plan: RunPlan) => boolean;
}

export class PlacedHost implements Host {
  readonly handshakeMs: number;
  readonly #options: PlacedHostOptions;

  constructor(options: PlacedHostOptions) {
    this.#options = options;
    this.handshakeMs = options.handshakeTimeoutSeconds * 1000;
  }

  launch(row: RunRow): Launch {
    throw new MosaicError(
      "internal",
      `run ${row.runId} is placed by an engine and not started here`,
    );
  }

  attempt(
    row: RunRow,
    { plan, files, now }: { plan: RunPlan; files: RunFiles; now: number },
  ): AttemptHost {
    const { placer, attach, uploads } = this.#options;
    const { leaseSeconds } = plan.slurm;
    return new PlacedAttempt(row, {
      files,
      uploads: uploads(plan),
      placer: placer(),
      attach: (latest) => attach(latest, plan, files),
      leaseMs: leaseSeconds === null ? Infinity : leaseSeconds * 1000 + LEASE_MARGIN_MS,
      now,
    });
  }
}

interface PlacedParts {
  files: RunFiles;
  uploads: boolean;
  placer: Placer;
  attach: (row: RunRow) => ProcessRef | undefined;
  /**
   * After so long without a connection, the proxy has stopped the worker; Infinity: it never does.
   */
  leaseMs: number;
  now: number;
}

class PlacedAttempt implements AttemptHost {
  readonly startsProxy = false;
  readonly elsewhere = true;
  // Working directories are at the same paths on all nodes, and may be shared.
  readonly apart = false;
  readonly uploads: boolean;
  readonly #of: { runId: string; attempt: number };
  readonly #files: RunFiles;
  readonly #placer: Placer;
  readonly #attach: (row: RunRow) => ProcessRef | undefined;
  /**
   * Keeps the proxy on this host that delivers the rest; undefined while the job may have
   * processes.
   */
  #keeper: ProxyKeeper | undefined;
  #exitedAt: number | undefined;
  readonly #leaseMs: number;
  /** Since when no proxy is connected, as far as this daemon knows. */
  #absentSince: number;
  #leaseOver = false;
  /** The engine's answers when the silence was noticed. */
  #ranAtSilence: number | undefined;

  constructor(row: RunRow, { files, uploads, placer, attach, leaseMs, now }: PlacedParts) {
    this.#of = { runId: row.runId, attempt: row.attempt };
    this.#files = files;
    this.uploads = uploads;
    this.#placer = placer;
    this.#attach = attach;
    this.#leaseMs = leaseMs;
    this.#absentSince = now;
  }

  get replacing(): boolean {
    return this.#keeper?.replacing ?? false;
  }

  /**
   * How the job has ended, once no process of it is left; "gone" if nothing is known of the job.
   * For a cancelled run the engine's answer suffices without proof: no later attempt could be
   * disturbed by an unreachable worker. After the lease the proxy has ended the worker, whatever
   * the engine says.
   */
  #end({ registered = true } = {}): JobEnd | "gone" | undefined {
    const view = this.#placer.view(this.#of);
    if (view === undefined) return "gone";
    const { job, cancelRequested } = view;
    if (job.t === "ended") {
      const { end } = job;
      // No worker was started.
      if (cancelRequested || this.#leaseOver || (end.recent && !registered)) return end;
      const proven = end.proven || (end.recent && this.#exitRecorded());
      return proven && !this.#proxyLives(end) ? end : undefined;
    }
    if (job.t !== "forgotten") return undefined;
    if (cancelRequested) return "gone";
    return this.#leaseOver ? { kind: "job_forgotten", proven: false, text: "" } : undefined;
  }

  /** The worker's wrapper has recorded its end, on a disk that this host sees. */
  #exitRecorded(): boolean {
    return !this.uploads && kindOf(this.#files.exitFile(this.#of.attempt)) === "file";
  }

  /**
   * Whatever the engine says: its proxy, on a disk that this host sees, is alive, and so may its
   * worker be.
   */
  #proxyLives({ kind }: JobEnd): boolean {
    return kind !== "finished" && !this.uploads && this.#keeper === undefined &&
      proxyLockHeld(this.#files, this.#of.attempt);
  }

  withoutLog(): string {
    const { name = "NAME", on = "the node" } = this.#placer.view(this.#of) ?? {};
    return this.uploads
      ? `What the job printed is in ${name}.log in metadata.slurm.node_dir on ${on}.`
      : `The job has written neither ${this.#files.jobLog} nor a proxy's log: ${on} must see the state directory at the same path (or set metadata.slurm.node_dir).`;
  }

  /** The engine has stopped the job's processes for a while. */
  get held(): boolean {
    const job = this.#placer.view(this.#of)?.job;
    return job?.t === "running" && job.held !== undefined;
  }

  /**
   * Whether a silence is the worker's own. While the engine says nothing new, it may have stopped
   * the job; and to end a silent worker needs the engine in any case.
   */
  confirmsSilence(): boolean {
    const view = this.#placer.view(this.#of);
    if (view === undefined || (view.job.t !== "running" && view.job.t !== "unknown")) return true;
    this.#ranAtSilence ??= view.ran;
    this.#placer.ask();
    // The answer to a question that was under way may be older than the silence.
    return view.ran >= this.#ranAtSilence + 2;
  }

  heard(): void {
    this.#ranAtSilence = undefined;
  }

  // The placer has checked it before.
  admit(): void {}

  proxyStarted(): void {}
  proxySeen(process: ProcessRef, now: number): void {
    this.#keeper?.seen(process, now);
  }
  proxyConnected(process: ProcessRef): void {
    this.#absentSince = Infinity;
    if (this.#keeper === undefined) this.#leaseOver = false;
    this.#keeper?.connected(process);
  }
  proxyDelivered(): void {
    this.#keeper?.delivered();
  }
  proxyAbsent(now: number): void {
    this.#absentSince = now;
    this.#keeper?.disconnected(now);
  }
  killProxy(): void {
    // The job's own proxy ends with the job.
    if (this.#keeper !== undefined) this.#keeper.kill();
    else this.#placer.stop(this.#of, "now");
  }

  whileAbsent({ now, registered, mayReplace }: Absence): AbsenceStep {
    this.#leaseOver ||= now - this.#absentSince >= this.#leaseMs;
    const end = this.#end({ registered });
    // No worker was started, and a late proxy will start none.
    if (!registered && this.#placer.view(this.#of)?.job.t === "forgotten") {
      return { do: "not_started" };
    }
    if (end === undefined) return { do: "wait" };
    const engine = this.#why(end);
    if (!registered) {
      return engine?.reason === "job_cancelled" ? { do: "over", engine } : { do: "not_started" };
    }
    // What the job's proxy has not delivered is on the node's disk, or lost.
    if (this.uploads || this.#keepsTheRest(end)) return { do: "over", engine };
    const step = this.#keeperFrom(now).step(now, registered, mayReplace);
    switch (step.do) {
      case "wait":
      case "attach":
        return step;
      case "start_again":
      case "give_up":
        return { do: "over", engine };
    }
  }

  #keeperFrom(now: number): ProxyKeeper {
    return this.#keeper ??= new ProxyKeeper(this.#files, this.#of.attempt, undefined, now, 0);
  }

  /**
   * The job's own proxy lives where the engine does not reach it, and holds the attempt: no other
   * could deliver anything.
   */
  #keepsTheRest(end: JobEnd | "gone"): boolean {
    const proven = end !== "gone" && end.proven;
    if (proven || this.#keeper !== undefined || !this.#placer.view(this.#of)?.cancelRequested) {
      return false;
    }
    return proxyLockHeld(this.#files, this.#of.attempt);
  }

  attach(row: RunRow, now: number): ProcessRef | undefined {
    return this.#keeperFrom(now).attach(() => this.#attach(row), now);
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

  /**
   * A failed exit waits for the engine's answer: the worker cannot tell the engine's signals from
   * others.
   */
  endRest(report: ExitReport | undefined, now: number): Rest {
    const job = this.#placer.view(this.#of)?.job;
    // The proxy has reported that no process is left: only the engine's reason is awaited.
    const end = this.#end() ??
      (job?.t === "ended" && (job.end.proven || job.end.recent) ? job.end : undefined);
    if (end !== undefined) return { ended: true, engine: this.#why(end) };
    this.#exitedAt ??= now;
    const clean = report?.code === 0 && !report.lost;
    const waited = clean || now - this.#exitedAt >= ENGINE_WORD_MS;
    return { ended: waited, engine: waited ? this.#why("gone") : undefined };
  }

  /**
   * The engine's reason; else that the proxy has stopped the worker by itself; else the rank that
   * failed first.
   */
  #why(end: JobEnd | "gone"): EngineEnd | undefined {
    const leaseEnd = kindOf(this.#files.leaseEnd(this.#of.attempt)) === "file";
    if (leaseEnd) return engineEnd(end) ?? { reason: "lease_expired", text: "" };
    const first = firstFailure(this.#files, this.#of.attempt);
    const rank = first &&
      { reason: `exit_code_${first.code}: rank ${first.rank} on ${first.node}`, text: "" };
    return engineEnd(end) ?? rank;
  }

  release(): void {
    this.#placer.release(this.#of);
  }
}

/** Why the engine has ended the job; undefined if it has not. */
function engineEnd(end: JobEnd | "gone"): EngineEnd | undefined {
  return end === "gone" || end.kind === "finished"
    ? undefined
    : { reason: end.kind, text: end.text };
}
