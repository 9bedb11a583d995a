/**
 * Cleans up after ended runs: lists artifacts, removes files that are not to be kept, puts runs
 * into the trash and brings them back, and deletes whole runs for good.
 */
import { messageOf, MosaicError } from "../../base/errors.ts";
import { type Layout, RunFiles } from "../../base/layout.ts";
import type { Logger } from "../../base/log.ts";
import { planIfReadable, type RunPlan } from "../../config/plan.ts";
import type { Artifacts } from "../../registry/artifacts/artifacts.ts";
import { isEnded } from "../../registry/lifecycle/lifecycle.ts";
import type { Registry } from "../../registry/registry.ts";
import {
  droppedDirectories,
  removeDropped,
  removeRunFiles,
} from "../../registry/retention/removal.ts";
import { SharedScan } from "../../registry/retention/shared_scan.ts";
import { type DiskUsage, filesUsage } from "../../registry/retention/disk_usage.ts";
import type { RunRow } from "../../registry/row_types.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import { fillFromJournal } from "./fill_journal.ts";
import { proxyHasLeft, thinLog } from "./thin_log.ts";
import { removeUnfinished } from "../launch/local/attempt_files.ts";

/** At its start a daemon checks this many of the newest ended runs. */
const NEWEST_RUNS = 100;
const RECENTLY_MS = 24 * 3_600_000;

export interface CleanupOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  layout: Layout;
  artifacts: Artifacts;
  isSupervised: (runId: string) => boolean;
}

export class Cleanup {
  readonly #options: CleanupOptions;
  readonly #diskUsage: SharedScan<DiskUsage>;
  readonly #deleting = new Map<string, Promise<{ freedBytes: number }>>();
  /** Runs with an ended attempt whose files are still being worked on. */
  readonly #finishing = new Map<string, Promise<void>>();
  #closed = false;
  #beforeDelete: (row: RunRow) => void = () => {};

  constructor(options: CleanupOptions) {
    this.#options = options;
    this.#diskUsage = new SharedScan(async () => ({
      ...await filesUsage(options.layout),
      telemetryByRun: await options.telemetry.bytesOfRuns(),
    }));
  }

  diskUsage(): Promise<DiskUsage> {
    return this.#diskUsage.get();
  }

  /** Measures now, without the cache, for callers that delete by the result. */
  diskUsageNow(): Promise<DiskUsage> {
    this.#diskUsage.forget();
    return this.#diskUsage.get();
  }

  /**
   * `listener` is called before each deletion, while everything of the run still exists. There is
   * one listener.
   */
  beforeDelete(listener: (row: RunRow) => void): void {
    this.#beforeDelete = listener;
  }

  /** The daemon stops. */
  close(): void {
    this.#closed = true;
  }

  isDeleting(runId: string): boolean {
    return this.#deleting.has(runId);
  }

  /**
   * While a run is being deleted, it cannot start again. @throws MosaicError `failed_precondition`
   */
  refuseDeleted(runId: string): void {
    if (!this.#deleting.has(runId)) return;
    throw new MosaicError("failed_precondition", `run ${runId} is being deleted`);
  }

  /** An attempt has ended: its files are processed in the background. */
  attemptEnded(row: RunRow, plan: RunPlan): void {
    void this.#finish(row, async () => {
      // Before logs that the config does not keep are removed.
      await this.#fill(row, plan);
      await this.#afterEnd(row, plan);
      await this.#thinLog(row, plan);
    });
  }

  /** Works on an ended run's files. A deletion waits for the work, and ignores its failure. */
  #finish(row: RunRow, work: () => Promise<void>): Promise<void> {
    const before = this.#finishing.get(row.runId);
    const finishing = Promise.all([before, work()]).then(() => {}, (error) => {
      this.#options.log.error(
        { run_id: row.runId, error: messageOf(error) },
        "the files of an ended run could not be processed",
      );
    }).then(() => {
      if (this.#finishing.get(row.runId) === finishing) this.#finishing.delete(row.runId);
    });
    this.#finishing.set(row.runId, finishing);
    return finishing;
  }

  async #afterEnd(row: RunRow, plan: RunPlan): Promise<void> {
    const { registry, log, layout, artifacts } = this.#options;
    await artifacts.finish(row);
    const unkept = droppedDirectories(plan.artifacts);
    if (row.state === "FAULTED" || unkept.length === 0) return;
    // Meanwhile the run may have another attempt, which needs the files.
    const now = registry.get(row.runId);
    if (now?.attempt !== row.attempt || !isEnded(now.state)) return;
    try {
      try {
        await removeDropped(layout.runDir(row.baseDir, row.runId), unkept);
      } finally {
        this.#diskUsage.forget();
      }
      // Removed files are no artifacts any more, and no summary names them.
      await artifacts.finish(row, unkept);
    } catch (error) {
      log.warn(
        { run_id: row.runId, error: messageOf(error) },
        "files that the config does not keep could not be removed yet",
      );
    }
  }

  /** The files of an ended attempt; undefined if also processes of other hosts write them. */
  #ownFiles({ runId, baseDir, workerId }: RunRow, plan: RunPlan) {
    if (plan.launcher !== "local" || plan.worker.external) return undefined;
    const files = new RunFiles(this.#options.layout.runDir(baseDir, runId), workerId);
    return { files, isStopped: () => this.#deleting.has(runId) || this.#closed };
  }

  async #fill(row: RunRow, plan: RunPlan): Promise<void> {
    const own = this.#ownFiles(row, plan);
    if (own === undefined) return;
    try {
      await fillFromJournal({ ...this.#options, row, ...own });
    } catch (error) {
      if (own.isStopped()) return;
      const { log } = this.#options;
      const message =
        "the rest of the journal is not stored; the next start, or mosaic doctor --repair, tries again";
      log.warn({ run_id: row.runId, attempt: row.attempt, error: messageOf(error) }, message);
    }
  }

  async #thinLog(row: RunRow, plan: RunPlan): Promise<void> {
    const own = this.#ownFiles(row, plan);
    if (own === undefined || !await proxyHasLeft(own.files, row.attempt, own.isStopped)) return;
    removeUnfinished(own.files, row.attempt);
    if (plan.artifacts.keepJournal || !plan.artifacts.persistLogs) return;
    await thinLog({ ...this.#options, runId: row.runId, attempt: row.attempt, ...own });
  }

  /**
   * What an earlier daemon has not done for the newest runs: stores the rest of their journals, and
   * thins their logs.
   */
  async #finishOlder(): Promise<void> {
    const { registry } = this.#options;
    for (const row of registry.list({}, { limit: NEWEST_RUNS }).runs) {
      const plan = planIfReadable(row.configJson);
      const isRecent = isEnded(row.state) && Date.now() - (row.finishedAt ?? 0) < RECENTLY_MS;
      // A run that has ended since then is handled already; two packings at once would damage a
      // log.
      if (
        plan !== undefined && isRecent && !this.#deleting.has(row.runId) &&
        !this.#finishing.has(row.runId)
      ) {
        await this.#finish(row, async () => {
          await this.#fill(row, plan);
          await this.#thinLog(row, plan);
        });
      }
    }
  }

  /** One transaction: whenever the daemon dies, the run is either in the list or in the trash. */
  trash(runId: string): RunRow {
    const { registry, telemetry, log } = this.#options;
    this.refuseDeleted(runId);
    const row = registry.require(runId);
    this.#requireDeletable(row);
    const children = registry.childIds(runId);
    const trashed = registry.trash(runId);
    for (const id of [runId, ...children]) telemetry.leave(id);
    log.info({ run_id: runId, name: row.name }, "run put into the trash");
    return trashed;
  }

  restore(runId: string): RunRow {
    const { registry, log } = this.#options;
    const row = registry.restore(runId);
    log.info({ run_id: runId, name: row.name }, "run restored from the trash");
    return row;
  }

  /** For good. A second call during a deletion gets the same result. */
  async delete(runId: string): Promise<{ freedBytes: number }> {
    const { registry } = this.#options;
    const underWay = this.#deleting.get(runId);
    if (underWay !== undefined) return await underWay;
    const row = registry.known(runId) ?? registry.require(runId);
    this.#requireDeletable(row);
    registry.beginDelete(runId);
    const deletion = this.#delete(row);
    this.#deleting.set(runId, deletion);
    try {
      return await deletion;
    } finally {
      this.#deleting.delete(runId);
      // Some files may be deleted even if the rest could not be.
      this.#diskUsage.forget();
    }
  }

  /** Finishes, in the background, deletions that an earlier daemon has begun. */
  resume(): void {
    const { registry, log } = this.#options;
    this.#finishOlder().catch((error) =>
      log.error({ error: messageOf(error) }, "the files of earlier runs could not be processed")
    );
    for (const runId of registry.beingDeleted()) {
      log.info({ run_id: runId }, "finished an interrupted deletion");
      this.delete(runId).catch((error) =>
        log.error({ run_id: runId, error: messageOf(error) }, "run not deleted")
      );
    }
  }

  async #delete(row: RunRow): Promise<{ freedBytes: number }> {
    const { registry, telemetry, log, layout } = this.#options;
    const { runId } = row;
    // Wait until this deletion is in the map.
    await Promise.resolve();
    try {
      this.#beforeDelete(row);
      let freedBytes = 0;
      // A file that is still being written would keep the directory from being removed.
      await this.#finishing.get(runId);
      for (const child of registry.childIds(runId)) {
        freedBytes += (await this.delete(child)).freedBytes;
      }
      freedBytes += (await removeRunFiles(layout, runId)).freedBytes;
      freedBytes += await telemetry.delete(runId);
      // Last: while the row exists, an interrupted deletion can be repeated.
      registry.delete(runId);
      log.info({ run_id: runId, name: row.name }, "run deleted");
      return { freedBytes };
    } catch (error) {
      try {
        // The caller gets the error and decides.
        registry.keep(runId);
      } catch {
        // For example, the daemon is stopping: the next one finishes the deletion.
      }
      throw error;
    }
  }

  #requireDeletable({ runId, state, damaged }: RunRow): void {
    if (!isEnded(state)) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${state} and cannot be deleted`,
        {
          hint: `Cancel it first: mosaic cancel ${runId}`,
        },
      );
    }
    if (damaged.includes("state")) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} cannot be deleted: its state in the registry cannot be read, so that it may still be running`,
        {
          hint: "Stop the daemon, run mosaic doctor --repair, start it again, and delete the run.",
        },
      );
    }
    // Another program changed its row, or its next attempt could not be entered yet: its files are
    // still needed.
    if (this.#options.isSupervised(runId)) {
      throw new MosaicError(
        "failed_precondition",
        `run ${runId} is ${state} in the registry, but is still supervised, and cannot be deleted yet`,
        {
          hint:
            "Try again when it has settled; if it does not, restart the daemon, and delete the run then.",
        },
      );
    }
  }
}
