/** Admits proxies that connect; session.ts handles what they send then. */
import type { ProxyHello, ProxyLink, ProxySession } from "./state/connected_proxy.ts";
import { MosaicError } from "../../base/errors.ts";
import { isEnded, RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Attempt } from "./attempt.ts";
import { companyOf } from "./state/neighbours.ts";
import { Session, type SessionOptions } from "./session.ts";

const CURSOR_DAMAGED =
  "how far the files of this attempt are stored is damaged: only its output is read. When the " +
  "attempt has ended, stop the daemon and run mosaic doctor --repair, which reads the files";

export class ProxySessions {
  readonly #options: SessionOptions;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  open(hello: ProxyHello, link: ProxyLink): ProxySession {
    const { registry, telemetry, log, performer, clock } = this.#options;
    const { supervised, row } = this.#called(hello);
    const { attempt } = supervised;
    const { host, progress } = attempt;
    host.admit(row, hello);
    const position = this.#positionOf(attempt);
    // The proxy is alive, even if a full disk keeps its session from being entered.
    const now = clock();
    progress.clock.signOfLife(now);
    host.proxySeen(hello.proxy, now);
    const worker = hello.worker ?? host.worker() ?? null;
    registry.update(row.runId, { proxy: hello.proxy, worker });
    performer.apply(attempt, { type: "registered" });
    const others = this.#others(attempt);
    const cwdOf = ({ plan }: Attempt) => plan.worker.cwd;
    const cursors = telemetry.sourceCursors(row.runId, row.attempt);
    if (cursors === undefined) {
      log.error({ run_id: row.runId, attempt: row.attempt }, CURSOR_DAMAGED);
    }
    const session = new Session(this.#options, row.runId, {
      position,
      control: performer.desired(attempt),
      observed: cursors && { cursors, ...companyOf(cwdOf(attempt), others.map(cwdOf)) },
      uploads: attempt.arrivals?.receiver(),
      workerSettings: hello.startsWorker === true ? host.workerSettings?.(row) : undefined,
    });
    host.proxyConnected(hello.proxy, worker ?? undefined);
    performer.perform(supervised, attempt.connected(session, link));
    // They now share the host with another run.
    for (const other of others) other.link?.accompanied(companyOf(cwdOf(other), [cwdOf(attempt)]));
    log.info(
      { run_id: row.runId, attempt: row.attempt, proxy: hello.proxy.pid, worker: worker?.pid },
      "proxy connected",
    );
    return session;
  }

  /**
   * The attempt of a hello. @throws MosaicError `unavailable`, `failed_precondition` when it needs
   * no proxy
   */
  #called(hello: ProxyHello) {
    const supervised = this.#options.runs.get(hello.runId);
    const row = this.#options.registry.require(hello.runId);
    if (supervised === undefined) {
      // The attempt's recovery still waits for free space.
      if (RUNNING_STATES.includes(row.state)) {
        throw new MosaicError(
          "unavailable",
          `run ${row.runId} is not recovered yet by this daemon`,
        );
      }
      throw new MosaicError(
        "failed_precondition",
        `run ${row.runId} is ${row.state}: no proxy can serve it`,
      );
    }
    const { phase } = supervised.attempt.state;
    if (
      isEnded(row.state) || row.attempt !== hello.attempt || phase.t === "exited" ||
      phase.t === "ended"
    ) {
      throw new MosaicError(
        "failed_precondition",
        `attempt ${hello.attempt} of run ${row.runId} has ended`,
      );
    }
    return { supervised, row };
  }

  /** Position up to which the attempt's journal is stored. */
  #positionOf({ runId, attempt }: Attempt): number {
    // Batches of an earlier connection may wait for their commit.
    this.#options.telemetry.commitWaiting();
    return this.#options.telemetry.journalPosition(runId, attempt);
  }

  /** Live runs whose workers may write to the same files. */
  #others({ runId, host }: Attempt): Attempt[] {
    if (host.apart) return [];
    return [...this.#options.runs.values()].map(({ attempt }) => attempt)
      .filter((other) => other.runId !== runId && !other.host.apart);
  }
}
