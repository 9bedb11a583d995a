/**
 * Finds the artifacts of runs and records each file: kind, path, size, checksum, step.
 *
 * A scan of a run's directories costs a few system calls and happens when the engine requests it;
 * requests for one run are coalesced. Checksums are computed one file at a time in small chunks,
 * and only of files that have not changed for a while: until then an artifact has none. Errors are
 * logged and retried by the next scan; nothing is thrown.
 */
import { parseKeepingNumbers } from "../../base/text/exact_numbers.ts";
import { messageOf } from "../../base/errors.ts";
import { isEnded } from "../lifecycle/lifecycle.ts";
import type { Logger } from "../../base/log.ts";
import { infoOf, readRecord } from "../../os/files/untrusted.ts";
import { removeRegular, writeRecord } from "../../os/files/untrusted_changes.ts";
import type { Registry } from "../registry.ts";
import type { ArtifactRow, NewArtifact, RunRow } from "../row_types.ts";
import type { WorkerEventRecord } from "../../gen/records/record_types.ts";
import type { TelemetryLog } from "../../telemetry/telemetry_log.ts";
import {
  type Announcement,
  announcementOf,
  placesOf,
  referenceOf,
  stepInName,
} from "./announced.ts";
import { filesAt, type FoundFile, hashFile, relativeWithin } from "./run_directory.ts";
import { isJson } from "../../base/text/json_text.ts";
import { analyticsOf, evalSummaryOf, isWrittenByMosaic, withoutRemoved } from "./manifest.ts";
import { yieldToOthers } from "../../base/time/sleep.ts";
import { EpisodeReturns, videosNotKept } from "./kept_videos.ts";

/** Directories of a run whose files are artifacts, and of which kind. */
const KIND_OF_DIRECTORY = {
  checkpoints: "checkpoint",
  videos: "video",
  tensorboard: "tensorboard",
} as const;

/** Bounds for one run; further artifacts are not recorded, and the log says so. */
const LIMITS = { maxFiles: 5000, maxDepth: 12 };
/** Rows written in one transaction: some milliseconds. */
const ROWS_AT_ONCE = 200;
/** An evaluation's summary covers at most this many episodes. */
const MAX_EPISODES = 1_000_000;
/** A larger summary cannot be mosaic's own, so it is not changed. */
const MAX_ANALYTICS_BYTES = 1 << 20;

export interface ArtifactsOptions {
  registry: Registry;
  telemetry: Pick<TelemetryLog, "read" | "summary">;
  /** Absolute path of a run's directory. */
  directoryOf: (run: RunRow) => string;
  log: Logger;
  /** The worker's working directory; "" if unknown. */
  cwdOf?: (run: RunRow) => string;
  /** `artifacts.keep_videos` of its config; null keeps all. */
  keepVideosOf?: (run: RunRow) => number | null;
  /** A file of a live run is hashed when it has not changed for this many milliseconds. */
  quietMs?: number;
  now?: () => number;
}

export class Artifacts {
  readonly #options: ArtifactsOptions;
  readonly #quietMs: number;
  readonly #now: () => number;
  readonly #closing = new AbortController();
  /** The current or queued scan, per run. */
  readonly #scans = new Map<string, Promise<void>>();
  readonly #scanWanted = new Set<string>();
  /** Files are hashed one after the other. */
  #hashing: Promise<void> = Promise.resolve();
  readonly #hashQueued = new Set<string>();
  /** For runs that do not keep all videos. */
  readonly #returns = new Map<string, EpisodeReturns>();

  constructor(options: ArtifactsOptions) {
    this.#options = options;
    this.#quietMs = options.quietMs ?? 3000;
    this.#now = options.now ?? Date.now;
  }

  /** Scans the run's directories soon; further requests before that cost nothing. */
  observe(run: RunRow): void {
    if (this.#scanWanted.has(run.runId)) return;
    this.#scanWanted.add(run.runId);
    this.#after(run, async () => {
      this.#scanWanted.delete(run.runId);
      await this.#scan(run, false);
    });
  }

  /**
   * Records the file that an event of the run's worker announces. A file outside of the run's
   * directory, which the run's proxy has found, is recorded by reference: its absolute path, and
   * what the proxy knows. It is never opened.
   */
  announced(run: RunRow, event: Pick<WorkerEventRecord, "kind" | "dataJson">): void {
    const announcement = announcementOf(event);
    if (announcement === undefined) return;
    const path = relativeWithin(this.#options.directoryOf(run), announcement.path);
    const found = referenceOf(event);
    if (found !== undefined && path === undefined) return this.#refer(run, announcement, found);
    const { kind, step, windowId } = announcement;
    const known = placesOf(announcement.path, [this.#options.cwdOf?.(run) ?? ""])
      .map((place) => this.#options.registry.artifact(run.runId, place)).find((row) =>
        row !== undefined
      );
    // Its proxy has found it before. The worker's kind and step take precedence over those guessed
    // from path and name.
    if (known !== undefined) {
      this.#after(run, () => {
        this.#options.registry.putArtifact({
          ...known,
          kind,
          step: step ?? known.step,
          windowId: windowId || known.windowId,
        });
        return Promise.resolve();
      });
      return;
    }
    if (path === undefined) {
      this.#options.log.info(
        { run_id: run.runId, path: announcement.path.slice(0, 200) },
        "artifact outside the run's directory",
      );
      return;
    }
    this.#after(run, async () => {
      const files = await filesAt(this.#options.directoryOf(run), path, LIMITS);
      const said = (_: string, before: ArtifactRow | undefined) => ({
        kind,
        step: step ?? before?.step ?? null,
        windowId: windowId || (before?.windowId ?? ""),
      });
      await this.#record(run, files, said, false);
    });
  }

  #refer(
    run: RunRow,
    { path, kind, step, windowId }: Announcement,
    { bytes, at, isDeleted }: { bytes: number; at: number; isDeleted: boolean },
  ): void {
    this.#after(run, () => {
      const { registry, telemetry } = this.#options;
      const known = isDeleted ? registry.artifact(run.runId, path) : undefined;
      if (known !== undefined) registry.putArtifact({ ...known, deletedAt: at });
      if (isDeleted) return Promise.resolve();
      const highestStep = telemetry.summary(run.runId).toldStep || null;
      registry.putArtifact({
        runId: run.runId,
        path,
        kind,
        step: step ?? highestStep,
        windowId,
        bytes,
        sha256: "",
        at,
      });
      return Promise.resolve();
    });
  }

  /**
   * The run has ended: a last scan, and the summaries that its worker did not write. Resolves when
   * the summaries are written; checksums follow.
   * @param removed names of directories that were removed at its end: no summary must name files in
   * them
   */
  async finish(run: RunRow, removed: readonly string[] = []): Promise<void> {
    await this.#after(run, async () => {
      await this.#scan(run, true);
      this.#returns.delete(run.runId);
      this.#writeSummaries(run, removed);
    });
  }

  /** Computes the checksums that an earlier daemon had not computed. */
  recover(): void {
    for (const runId of this.#options.registry.runsWithUnhashedArtifacts()) {
      const run = this.#options.registry.get(runId);
      if (run !== undefined && isEnded(run.state)) this.#after(run, () => this.#scan(run, true));
    }
  }

  /** Resolves when all work is done. */
  async settled(): Promise<void> {
    for (;;) {
      const hashing = this.#hashing;
      await Promise.all([...this.#scans.values(), hashing]);
      if (this.#scans.size === 0 && hashing === this.#hashing) return;
    }
  }

  /** Stops after the current chunk. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.settled();
  }

  /** Work on one run happens in order. */
  #after(run: RunRow, work: () => Promise<void>): Promise<void> {
    const next = (this.#scans.get(run.runId) ?? Promise.resolve()).then(async () => {
      if (this.#closing.signal.aborted) return;
      try {
        await work();
      } catch (error) {
        this.#options.log.warn(
          { run_id: run.runId, error: messageOf(error) },
          "cannot record artifacts",
        );
      }
    }).finally(() => {
      if (this.#scans.get(run.runId) === next) this.#scans.delete(run.runId);
    });
    this.#scans.set(run.runId, next);
    return next;
  }

  async #scan(run: RunRow, final: boolean): Promise<void> {
    const directory = this.#options.directoryOf(run);
    const seen = new Set<string>();
    for (const [name, kind] of Object.entries(KIND_OF_DIRECTORY)) {
      const found = await filesAt(directory, name, LIMITS);
      const files = kind === "video" ? await this.#keptVideos(run, found, final) : found;
      if (files.length >= LIMITS.maxFiles) {
        this.#options.log.warn(
          { run_id: run.runId, directory: name, files: LIMITS.maxFiles },
          "further files are not recorded",
        );
      }
      for (const file of files) seen.add(file.path);
      // The worker's kind and step take precedence over those guessed from path and name.
      await this.#record(
        run,
        files,
        (path, before) => ({
          kind: before?.kind ?? kind,
          step: before?.step ?? stepInName(path),
          windowId: before?.windowId ?? "",
        }),
        final,
      );
    }
    // The others were announced by the worker, or are removed.
    for (const known of this.#options.registry.artifacts(run.runId)) {
      if (seen.has(known.path) || known.path.startsWith("/")) continue;
      const [file] = await filesAt(directory, known.path, { maxFiles: 1, maxDepth: 1 });
      if (file?.path === known.path) await this.#record(run, [file], () => known, final);
      else this.#options.registry.removeArtifact(run.runId, known.path);
    }
  }

  /** Removes the videos that the config does not keep. @returns the others */
  async #keptVideos(run: RunRow, found: FoundFile[], final: boolean): Promise<FoundFile[]> {
    const { keepVideosOf = () => null, directoryOf, log, telemetry } = this.#options;
    const keep = keepVideosOf(run);
    if (keep === null || found.length <= keep) return found;
    const returns = this.#returns.get(run.runId) ?? new EpisodeReturns();
    this.#returns.set(run.runId, returns);
    try {
      await returns.read((since) => telemetry.read(run.runId, "episodes", since, 1000));
      const removed = new Set<FoundFile>();
      for (const file of videosNotKept(found, keep, (episode) => returns.of(episode))) {
        // It may still be written to.
        if (!final && this.#now() - file.changedAt < this.#quietMs) continue;
        removeRegular(`${directoryOf(run)}/${file.path}`, directoryOf(run));
        removed.add(file);
      }
      return found.filter((file) => !removed.has(file));
    } catch (error) {
      log.warn(
        { run_id: run.runId, error: messageOf(error) },
        "videos beyond keep_videos could not be removed yet",
      );
      return found;
    }
  }

  async #record(
    run: RunRow,
    files: readonly FoundFile[],
    describe: (
      path: string,
      before: ArtifactRow | undefined,
    ) => Pick<ArtifactRow, "kind" | "step" | "windowId">,
    final: boolean,
  ): Promise<void> {
    const { registry } = this.#options;
    const changed: NewArtifact[] = [];
    const unhashed: FoundFile[] = [];
    for (const file of files) {
      const before = registry.artifact(run.runId, file.path);
      const { kind, step, windowId } = describe(file.path, before);
      const sameFile = before !== undefined && before.bytes === file.bytes &&
        before.at === file.changedAt;
      const sha256 = sameFile ? before.sha256 : "";
      if (
        !sameFile || before.kind !== kind || before.step !== step || before.windowId !== windowId
      ) {
        const { path, bytes, changedAt: at } = file;
        changed.push({ runId: run.runId, path, kind, step, windowId, bytes, sha256, at });
      }
      if (sha256 === "" && (final || this.#now() - file.changedAt >= this.#quietMs)) {
        unhashed.push(file);
      }
    }
    for (let i = 0; i < changed.length; i += ROWS_AT_ONCE) {
      registry.putArtifacts(changed.slice(i, i + ROWS_AT_ONCE));
      await yieldToOthers();
    }
    for (const file of unhashed) this.#hashLater(run, file);
  }

  #hashLater(run: RunRow, file: FoundFile): void {
    const key = `${run.runId}/${file.path}`;
    if (this.#hashQueued.has(key)) return;
    this.#hashQueued.add(key);
    this.#hashing = this.#hashing.then(async () => {
      try {
        if (this.#closing.signal.aborted) return;
        const sha256 = await hashFile(this.#options.directoryOf(run), file, this.#closing.signal);
        const row = this.#options.registry.artifact(run.runId, file.path);
        if (sha256 !== undefined && row?.bytes === file.bytes && row.at === file.changedAt) {
          this.#options.registry.putArtifact({ ...row, sha256 });
        }
      } catch (error) {
        this.#options.log.warn(
          { run_id: run.runId, path: file.path, error: messageOf(error) },
          "cannot compute a checksum",
        );
      } finally {
        this.#hashQueued.delete(key);
      }
    });
  }

  #writeSummaries(run: RunRow, removed: readonly string[]): void {
    const directory = this.#options.directoryOf(run);
    if (infoOf(directory)?.isDirectory !== true) return;
    const writeIfMissing = (name: string, content: () => Record<string, unknown>) => {
      // Anything that the worker left under this name stays, even a dangling link.
      if (infoOf(`${directory}/${name}`)) return;
      writeRecord(`${directory}/${name}`, `${JSON.stringify(content(), null, 2)}\n`);
    };
    this.#writeAnalytics(run, directory, removed);
    if (run.baseDir !== "evals") return;
    writeIfMissing("eval_summary.json", () => {
      const seconds =
        Math.max(0, (run.finishedAt ?? this.#now()) - (run.startedAt ?? run.createdAt)) / 1000;
      return evalSummaryOf(this.#returnsOf(run), seconds, new Date(this.#now()));
    });
  }

  /**
   * mosaic's own summary is rewritten at each end; from a worker's, only the paths of removed files
   * are removed.
   */
  #writeAnalytics(run: RunRow, directory: string, removed: readonly string[]): void {
    const path = `${directory}/analytics.json`;
    const info = infoOf(path);
    const text = info !== undefined && info.size <= MAX_ANALYTICS_BYTES
      ? readRecord(path, directory)
      : undefined;
    const analytics = text !== undefined && isJson(text) ? parseKeepingNumbers(text) : undefined;
    const ours = info === undefined || isWrittenByMosaic(analytics);
    const wanted = ours
      ? analyticsOf(run, directory, this.#options.registry.artifacts(run.runId))
      : analytics;
    // If it is not JSON, it belongs to the worker and stays.
    if (wanted === undefined) return;
    const written = JSON.stringify(withoutRemoved(wanted, directory, removed), null, 2);
    const before = ours ? text?.trimEnd() : JSON.stringify(analytics, null, 2);
    if (written !== before) writeRecord(path, `${written}\n`);
  }

  #returnsOf(run: RunRow): number[] {
    const returns: number[] = [];
    for (let since = 0; returns.length < MAX_EPISODES;) {
      const episodes = this.#options.telemetry.read(run.runId, "episodes", since, 1000);
      if (episodes.length === 0) break;
      for (const episode of episodes) {
        if (episode.attempt === run.attempt) returns.push(episode.totalReward);
      }
      since = episodes.at(-1)!.seq;
    }
    return returns;
  }
}
