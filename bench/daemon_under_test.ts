/** A real daemon with real proxies and workers, and the calls that measure it. */
import { DatabaseSync } from "node:sqlite";
import { connect, type MosaicClient } from "../src/wire/client/client.ts";
import { Mosaic, type Run } from "../src/gen/mosaic/v1/mosaic_pb.ts";
import { TrainerService } from "../src/gen/gymgui/trainer_pb.ts";
import { configOf } from "../tests/harness/configs.ts";
import { TestDaemon } from "../tests/harness/daemon.ts";
import { pause, type ProcessFigures, processFigures } from "./measure.ts";

const WORKER = new URL("worker.awk", import.meta.url).pathname;
/** Longer than anything takes on a machine that is worth measuring. */
const DEADLINE_MS = 20 * 60_000;

export interface Load {
  steps: number;
  /** 0: four numbers. */
  observationBytes: number;
}

/** Workers that wait for `file`. */
export interface Gate {
  file: string;
}

/** The cost of a load. */
export interface Delivery {
  stepsPerSecond: number;
  seconds: number;
  daemonCpuPer100k: number;
  proxyCpuPer100k: number;
  daemonPeakBytes: number;
  proxyPeakBytes: number;
}

export class DaemonUnderTest implements AsyncDisposable {
  readonly daemon: TestDaemon;
  readonly client: MosaicClient;

  private constructor(daemon: TestDaemon) {
    this.daemon = daemon;
    this.client = connect({ target: daemon.target, deadlineMs: 60_000 });
  }

  /** @param options `stateDir`: instead of a fresh one */
  static async start(
    args: string[] = [],
    options: { stateDir?: string } = {},
  ): Promise<DaemonUnderTest> {
    return new DaemonUnderTest(
      await TestDaemon.start({ ...options, args: ["--log-level", "warn", ...args] }),
    );
  }

  async submit(load: Load, gate?: Gate): Promise<string> {
    const values = [`n=${load.steps}`, `pad=${load.observationBytes}`, `go=${gate?.file ?? ""}`];
    return await this.submitCommand([
      "/usr/bin/awk",
      ...values.flatMap((value) => ["-v", value]),
      "-f",
      WORKER,
    ]);
  }

  /**
   * Waits until all runs' workers wait at the gate, and opens it. @returns the seconds that took
   */
  async open(gate: Gate, runIds: readonly string[]): Promise<number> {
    const start = performance.now();
    await this.ready(runIds);
    Deno.writeTextFileSync(gate.file, "");
    return (performance.now() - start) / 1000;
  }

  /** Waits until all runs' proxies have registered and their workers run. */
  async ready(runIds: readonly string[]): Promise<void> {
    const start = performance.now();
    for (;;) {
      const runs = await this.#list(runIds);
      const failed = runs.find((run) => run.state === "FAULTED");
      if (failed !== undefined) throw new Error(`run ${failed.runId} is FAULTED: ${failed.reason}`);
      if (runs.every((run) => run.state === "READY" && run.workerPid > 0n)) return;
      if (performance.now() - start > DEADLINE_MS) throw new Error("not all runs have started");
      await pause(100);
    }
  }

  async proxiesConnected(): Promise<number> {
    const text = await (await fetch(`http://${this.daemon.http}/metrics`)).text();
    return Number(/^mosaic_proxies_connected (\d+)/m.exec(text)?.[1] ?? 0);
  }

  async #list(runIds: readonly string[]): Promise<Run[]> {
    const { runs } = await this.client.unary(Mosaic.method.listRuns, { limit: 1000 });
    return runs.filter((run) => runIds.includes(run.runId));
  }

  /** Waits until so many subscribers follow the steps of some run. */
  async following(subscribers: number): Promise<void> {
    const start = performance.now();
    for (;;) {
      const metrics = await (await fetch(`http://${this.daemon.http}/metrics`)).text();
      const following =
        /^mosaic_subscribers\{[^}]*stream="steps"[^}]*\} (\d+)/m.exec(metrics)?.[1] ?? "0";
      if (Number(following) >= subscribers) return;
      if (performance.now() - start > DEADLINE_MS) {
        throw new Error(`${following} of ${subscribers} subscribers follow`);
      }
      await pause(50);
    }
  }

  async submitCommand(command: string[]): Promise<string> {
    const { runId } = await this.client.unary(TrainerService.method.submitRun, {
      configJson: configOf({ command }),
    });
    return runId;
  }

  async run(runId: string): Promise<Run> {
    return await this.client.unary(Mosaic.method.getRun, { run: runId });
  }

  figures(): ProcessFigures {
    const found = processFigures(this.daemon.pid);
    if (found === undefined) {
      throw new Error(`the daemon is gone:\n${this.daemon.output().slice(-2000)}`);
    }
    return found;
  }

  /**
   * Waits until the runs' steps are stored and the runs have succeeded; checks that none is
   * missing.
   */
  async delivered(runIds: readonly string[], load: Load): Promise<Delivery> {
    const total = load.steps * runIds.length;
    const before = this.figures();
    const proxies = new Map<number, ProcessFigures>();
    const deadline = performance.now() + DEADLINE_MS;
    let start = 0;
    let atStart = 0;
    let end = 0;
    for (;;) {
      const ours = await this.#list(runIds);
      const stored = ours.reduce((sum, run) => sum + Number(run.telemetry?.steps ?? 0), 0);
      if (start === 0 && stored > 0) [start, atStart] = [performance.now(), stored];
      if (end === 0 && stored === total) end = performance.now();
      for (const run of ours) {
        const pid = Number(run.proxyPid);
        const found = pid > 0 ? processFigures(pid) : undefined;
        // A process that is ending has no memory figures.
        if (found !== undefined && found.rssBytes > 0) proxies.set(pid, found);
      }
      const failed = ours.find((run) => run.state === "FAULTED" || run.state === "CANCELLED");
      if (failed !== undefined) {
        throw new Error(`run ${failed.runId} is ${failed.state}: ${failed.reason}`);
      }
      if (ours.length === runIds.length && ours.every((run) => run.state === "TERMINATED")) break;
      if (performance.now() > deadline) {
        throw new Error(`${stored} of ${total} steps after ${DEADLINE_MS / 1000} s`);
      }
      await pause(runIds.length > 20 ? 200 : 40);
    }
    this.#checkRows(runIds, load.steps);
    const after = this.figures();
    const seconds = (end - start) / 1000;
    const proxyFigures = [...proxies.values()];
    return {
      stepsPerSecond: (total - atStart) / seconds,
      seconds,
      daemonCpuPer100k: (after.cpuSeconds - before.cpuSeconds) / total * 1e5,
      proxyCpuPer100k: proxyFigures.reduce((sum, figures) => sum + figures.cpuSeconds, 0) / total *
        1e5,
      daemonPeakBytes: after.peakBytes,
      proxyPeakBytes: Math.max(0, ...proxyFigures.map((figures) => figures.peakBytes)),
    };
  }

  /** Checks that every step of every run is stored once, in order. */
  #checkRows(runIds: readonly string[], steps: number): void {
    const db = new DatabaseSync(this.daemon.layout.telemetryDb, { readOnly: true });
    try {
      const look = db.prepare(
        `SELECT count(*) AS rows, count(CASE WHEN episode_index * 200 + step_index <> seq - 1 THEN 1 END) AS displaced
          FROM run_steps WHERE run_id = ?`,
      );
      for (const runId of runIds) {
        const { rows, displaced } = look.get(runId) as { rows: number; displaced: number };
        if (rows !== steps || displaced > 0) {
          throw new Error(
            `run ${runId}: ${rows} of ${steps} steps stored, ${displaced} out of place`,
          );
        }
      }
    } finally {
      db.close();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.client.close();
    await this.daemon[Symbol.asyncDispose]();
  }
}

export const MIB = 1024 * 1024;

export function deliveryDetail(delivery: Delivery): Record<string, number> {
  return {
    seconds: delivery.seconds,
    "daemon CPU s per 100 k steps": delivery.daemonCpuPer100k,
    "proxy CPU s per 100 k steps": delivery.proxyCpuPer100k,
    "daemon peak MiB": delivery.daemonPeakBytes / MIB,
    "largest proxy peak MiB": delivery.proxyPeakBytes / MIB,
  };
}
