/**
 * Files of one attempt that the proxy uploads from a host that does not share the daemon's disk,
 * and the records that name them.
 */
import type { RunFiles } from "../../../base/layout.ts";
import type { Logger } from "../../../base/log.ts";
import { yieldToOthers } from "../../../base/time/sleep.ts";
import { logFiles, storedPath, withinRun } from "../../../uploads/uploaded.ts";
import { announcementOf } from "../../../registry/artifacts/announced.ts";
import {
  Allowance,
  type Chunk,
  type ChunkAnswer,
  unfinishedUploads,
  Uploads,
} from "../../../uploads/take_uploads.ts";
import type { Registry } from "../../../registry/registry.ts";
import type { RunRow } from "../../../registry/row_types.ts";
import type { TelemetryLog } from "../../../telemetry/telemetry_log.ts";
import { eventsAfter, FILE_KINDS } from "./worker_events.ts";

type NamedFile = { kind: string; dataJson: string };

/**
 * Records that name files which have not arrived; the oldest is dropped, and its file is then found
 * by its path.
 */
const MAX_ANNOUNCED = 5000;
/** `file_left` events of one attempt. */
const MAX_LEFT_EVENTS = 20;

export interface ArrivalsOptions {
  registry: Registry;
  telemetry: TelemetryLog;
  log: Logger;
  files: RunFiles;
  maxUploadBytes: number;
  onFileNamed: (row: RunRow, event: NamedFile) => void;
  onFilesDue: (row: RunRow) => void;
}

export class Arrivals {
  readonly #of: { runId: string; attempt: number };
  readonly #options: ArrivalsOptions;
  readonly #allowance: Allowance;
  readonly #logs: readonly string[];
  /** By the file's path on this host. */
  readonly #announced = new Map<string, NamedFile>();
  #recalled: Promise<void> | undefined;
  #leftEvents = 0;

  constructor({ runId, attempt }: RunRow, options: ArrivalsOptions) {
    this.#of = { runId, attempt };
    this.#options = options;
    this.#allowance = new Allowance(options.maxUploadBytes);
    this.#logs = logFiles(options.files, attempt);
  }

  /** For one connection. */
  receiver(): Uploads {
    const { files } = this.#options;
    return new Uploads({ files, attempt: this.#of.attempt, allowance: this.#allowance });
  }

  async take(uploads: Uploads, chunk: Chunk): Promise<ChunkAnswer> {
    const answer = await uploads.take(chunk);
    if (answer.refused !== undefined) this.#left(chunk.path, chunk.size, answer.refused);
    if (answer.done && !this.#logs.includes(chunk.path)) await this.#arrived(chunk.path);
    return answer;
  }

  async #arrived(path: string): Promise<void> {
    const { registry, files, onFileNamed, onFilesDue } = this.#options;
    const stored = storedPath(files.workerId, this.#of.attempt, path)!;
    await (this.#recalled ??= this.#recall().catch((error) => {
      this.#recalled = undefined;
      throw error;
    }));
    const row = registry.require(this.#of.runId);
    const event = this.#announced.get(stored);
    if (event === undefined) return onFilesDue(row);
    this.#announced.delete(stored);
    onFileNamed(row, event);
  }

  /** Reads the named files that an earlier daemon has stored. */
  async #recall(): Promise<void> {
    const { telemetry } = this.#options;
    const { runId, attempt } = this.#of;
    for (const event of eventsAfter(telemetry, runId, FILE_KINDS, 0)) {
      if (event === undefined) await yieldToOthers();
      else if (event.attempt === attempt) this.#hereOf(event);
    }
  }

  /**
   * A record names a file by its path on the other host. The event is entered when the file has
   * arrived.
   */
  named(event: NamedFile): void {
    const { registry, onFileNamed } = this.#options;
    onFileNamed(registry.require(this.#of.runId), this.#hereOf(event) ?? event);
  }

  /**
   * The same event with the file's path on this host; it waits for the file. undefined: the path is
   * not in the run's directory.
   */
  #hereOf(event: NamedFile): NamedFile | undefined {
    const { files } = this.#options;
    const announcement = announcementOf(event);
    const { runId, attempt } = this.#of;
    const inner = announcement && withinRun(runId, attempt, announcement.path);
    const stored = inner === undefined ? undefined : storedPath(files.workerId, attempt, inner);
    if (announcement === undefined || stored === undefined) return undefined;
    const { kind, step } = announcement;
    const here = {
      kind: event.kind,
      dataJson: JSON.stringify({ path: stored, checkpoint_path: stored, kind, step }),
    };
    this.#announced.set(stored, here);
    if (this.#announced.size > MAX_ANNOUNCED) {
      this.#announced.delete(this.#announced.keys().next().value!);
    }
    return here;
  }

  #left(path: string, bytes: number, why: string): void {
    const { registry, log } = this.#options;
    const { runId, attempt } = this.#of;
    log.warn(
      { run_id: runId, attempt, path: path.slice(0, 200), bytes, why },
      "a file is not uploaded and stays on the run's host",
    );
    if (this.#leftEvents++ < MAX_LEFT_EVENTS) {
      registry.appendEvent(runId, "file_left", { path: path.slice(0, 500), bytes, why });
    }
  }

  /** The attempt is over: files that are not complete will not be completed. */
  ended(): void {
    for (const { path, bytes } of unfinishedUploads(this.#options.files, this.#of.attempt)) {
      this.#left(path, bytes, "the attempt ended before it was uploaded");
    }
  }
}
