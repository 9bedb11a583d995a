/** Views of runs and of the host, computed on demand. */
import { JOURNAL_HEADER } from "../../journal/journal_header.ts";
import { expectedStepsOf, planIfReadable } from "../../config/plan.ts";
import { type Layout, RunFiles } from "../../base/layout.ts";
import { enforcedLimits } from "../../os/processes/cgroups.ts";
import { GpuStates } from "../gpus/gpu_state.ts";
import type { GpuPool } from "../gpus/gpu_pool.ts";
import { cpuCount, disk, loadAverage, memory } from "../../os/host/host_resources.ts";
import { placeOfWorker } from "../../proxy/start/start_file.ts";
import { RUNNING_STATES } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import type { RunFilter, RunRow } from "../../registry/row_types.ts";
import {
  objectiveIn,
  objectiveOf,
  type Objectives,
  type ObjectiveValue,
  oneNumber,
} from "../../records/objective.ts";
import { EPISODE_REWARD } from "../../records/progress_series.ts";
import { MISSING } from "../../telemetry/blocks/failures.ts";
import type { Progress } from "../attempt/state/progress.ts";
import { effective, lengthIn, partInEpochs } from "../../records/parameters.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import type { Supervisor } from "../attempt/supervisor.ts";
import type { Dispatcher } from "../queue/dispatcher.ts";
import type { Placer } from "../launch/placed/placer.ts";
import { type Rank, readRanks } from "../launch/placed/ranks.ts";
import { MosaicError } from "../../base/errors.ts";
import type { HostInfo, LogOf, RunDetail, WholeRun } from "./core.ts";
import { infoOf } from "../../os/files/untrusted.ts";

export interface ViewsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  layout: Layout;
  gpus: GpuPool;
  supervisor: Supervisor;
  dispatcher: Dispatcher;
  placer: Placer;
  /** Of runs that choose none; undefined: none. */
  objectives: Objectives;
  /** What is known of the daemon itself. */
  daemon: () => { version: string; startedAt: number; listen: string; http: string; tls: boolean };
}

const storeWait = (missing: Progress["heldByStore"]) =>
  missing === undefined ? "" : `${MISSING[missing]}: the worker is held, and continues by itself`;

export class Views {
  readonly #options: ViewsOptions;
  readonly #gpus: GpuStates;

  constructor(options: ViewsOptions) {
    this.#options = options;
    this.#gpus = new GpuStates(options.gpus);
  }

  detail(row: RunRow): RunDetail {
    const { supervisor, dispatcher, placer, telemetry } = this.#options;
    const progress = supervisor.get(row.runId)?.progress;
    const place = row.state === "INIT" ? dispatcher.placeOf(row.runId) : undefined;
    const stored = telemetry.summary(row.runId);
    const length = progress === undefined ? { steps: 0, part: null } : this.#lengthOf(row);
    return {
      row,
      queuePosition: place?.position ?? 0,
      waitingFor: place?.waitingFor ??
        (row.state === "INIT" ? placer.waitingFor(row) : storeWait(progress?.heldByStore)),
      directory: this.#directory(row),
      children: row.parent === null ? this.#options.registry.childrenOf(row.runId) : 0,
      maxSteps: expectedStepsOf(row.configJson) || length.steps,
      progress: progress?.part ?? length.part,
      telemetry: {
        ...stored,
        journalSize: Math.max(progress?.journalSize ?? 0, stored.journalPosition),
        lastOutputAt: this.#lastOutputAt(row),
        ...this.#overwritten(row),
        objective: this.#objective(row),
        stepsPerSecond: row.state === "EXECUTING"
          ? progress?.rate.perSecond(performance.now()) ?? 0
          : 0,
      },
    };
  }

  /**
   * Of a live run, by a parameter such as `total_timesteps` (0: unknown, or it is no count of the
   * steps that are recorded), or by the epochs that it logs.
   */
  #lengthOf(row: RunRow): { steps: number; part: number | null } {
    const { registry, telemetry } = this.#options;
    const { runId } = row;
    const all = [
      ...registry.parameters(runId).map((one) => ({ ...one, seq: 0 })),
      ...telemetry.parameters(runId),
    ];
    const { steps, toldStep } = telemetry.summary(runId);
    const parameters = [...effective(all).values()];
    const epoch = telemetry.seriesOf(runId, "epoch")?.last;
    return {
      steps: lengthIn(parameters, Math.max(steps, toldStep)),
      part: partInEpochs(parameters, epoch ?? undefined),
    };
  }

  rewardOf(row: RunRow): number | null {
    const { meanReward100, reportedReward } = this.#options.telemetry.summary(row.runId);
    return oneNumber(this.#objective(row), meanReward100, reportedReward);
  }

  #objective({ runId, configJson, tags }: RunRow): ObjectiveValue | null {
    const chosen = this.#options.objectives.of(objectiveIn(configJson), tags);
    const objective = chosen === undefined ? undefined : objectiveOf(chosen);
    if (chosen === undefined || objective === undefined) return null;
    const series = this.#options.telemetry.seriesOf(runId, objective.name);
    return { name: chosen, value: series?.[objective.value] ?? null };
  }

  #overwritten(
    { runId, attempt }: RunRow,
  ): { overwrittenSteps: number; overwrittenEpisodes: number } {
    const { telemetry } = this.#options;
    const count = (series: string) =>
      attempt === 1 ? 0 : telemetry.overwritten(runId, series).reduce(
        (n, { first, last }) => n + last - first + 1,
        0,
      );
    return { overwrittenSteps: count("reward"), overwrittenEpisodes: count(EPISODE_REWARD) };
  }

  #lastOutputAt(row: RunRow): number | null {
    if (!RUNNING_STATES.includes(row.state)) return null;
    const files = this.#files(row);
    const times = [files.stdout(row.attempt), files.stderr(row.attempt)].map((path) => {
      try {
        const { isFile = false, size = 0, mtime } = infoOf(path) ?? {};
        // Before the worker writes, the file has at most mosaic's own blank line.
        return isFile && size > 0 && size !== JOURNAL_HEADER.length ? mtime?.getTime() ?? 0 : 0;
      } catch {
        return 0;
      }
    });
    return Math.max(...times) || null;
  }

  /** All but its parameters. */
  whole(row: RunRow): Omit<WholeRun, "parameters"> {
    return {
      ...this.detail(row),
      transitions: this.#options.registry.transitions(row.runId),
      enforcedLimits: enforcedLimits(placeOfWorker(this.#files(row).proxyFile(row.attempt)).cgroup),
      ranks: this.ranks(row),
      hostGpus: this.#options.gpus.size,
    };
  }

  list(
    filter: RunFilter,
    page: { limit: number; token?: string },
  ): { runs: RunDetail[]; nextToken: string | undefined; total: number } {
    const { registry } = this.#options;
    const { runs, nextToken } = registry.list(filter, page);
    return { runs: runs.map((row) => this.detail(row)), nextToken, total: registry.count(filter) };
  }

  /** @throws {MosaicError} `invalid_argument` for an attempt that the run did not have */
  logFile(row: RunRow, stream: "stdout" | "stderr", { rank = 0, attempt }: LogOf = {}): string {
    if (attempt !== undefined && (attempt < 1 || attempt > row.attempt)) {
      const had = row.attempt === 1 ? "one attempt, 1" : `attempts 1 to ${row.attempt}`;
      throw new MosaicError(
        "invalid_argument",
        `attempt is ${attempt}: run ${row.runId} has ${had}`,
      );
    }
    // A waiting attempt has written nothing yet.
    const newest = row.state === "INIT" && row.attempt > 1 ? row.attempt - 1 : row.attempt;
    return this.#files(row).rankLog(attempt ?? newest, rank, stream);
  }

  /** Empty for a run with one rank. */
  ranks(row: RunRow): Rank[] {
    const plan = planIfReadable(row.configJson);
    const count = plan === undefined ? 1 : plan.slurm.nodes * plan.slurm.tasksPerNode;
    return plan?.launcher === "local" || count === 1
      ? []
      : readRanks(this.#files(row), row.attempt, count);
  }

  lookAtGpus(): Promise<void> {
    const { registry } = this.#options;
    return this.#gpus.look(registry.gpus.slots(), (runId) => registry.get(runId)?.worker?.pid);
  }

  host(): HostInfo {
    const { registry, telemetry, layout, daemon } = this.#options;
    const { total, available } = memory();
    const space = disk(layout.stateDir);
    return {
      ...daemon(),
      pid: Deno.pid,
      stateDir: layout.stateDir,
      gpus: this.#gpus.of(registry.gpus.slots()),
      gpuProblem: this.#options.gpus.problem,
      cpus: cpuCount(),
      loadAverage: loadAverage(),
      memoryBytes: total,
      memoryAvailableBytes: available,
      diskBytes: space.total,
      diskAvailableBytes: space.available,
      telemetryBytes: telemetry.fileBytes(),
      rssBytes: Deno.memoryUsage().rss,
      runsByState: registry.countByState(),
    };
  }

  #directory(row: RunRow): string {
    return this.#options.layout.runDir(row.baseDir, row.runId);
  }

  #files(row: RunRow): RunFiles {
    return new RunFiles(this.#directory(row), row.workerId);
  }
}
