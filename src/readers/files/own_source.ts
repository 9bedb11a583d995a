/** The source without a file: artifacts, each problem once, and the worker's processes. */
import type { Logger } from "../../base/log.ts";
import type { SourceCursor } from "../../records/ingest_batch.ts";
import type { WorkerEventRecord } from "../../gen/records/record_types.ts";
import { NOT_READ, type NotRead } from "../text/not_read.ts";
import { eventOf, type Records } from "./source_records.ts";

/** Its name; no file has it. */
export const OWN_SOURCE = ".";
const MAX_PROBLEMS = 256;
const MAX_ARTIFACTS = 1000;
/** Instead of size and time of change. */
const GONE = "gone";
/** Bound on remembered processes of the worker. */
const MAX_PIDS = 256;
/** Bound on remembered working directories of other runs. */
const MAX_BELOW = 256;

/** Which other runs there are. */
export interface Company {
  /** A run in the same working directory. */
  shared: boolean;
  /** Working directories of other runs below this one, relative to it. */
  below: readonly string[];
  /** A run on this host, which may write to shared places. */
  others: boolean;
}

/** The state of its cursor. */
export interface OwnState {
  shared: boolean;
  /** As in `Company`; absent if there were none, and in states stored by earlier versions. */
  below?: string[];
  /** Absent in states stored by earlier versions. */
  others?: boolean;
  /**
   * Processes of the worker, recorded while other runs use its directory; absent in states stored
   * by earlier versions.
   */
  pids?: number[];
  /** Their pids in the sandbox; the same number. */
  inner?: number[];
  /** The host of these pids. */
  host?: string;
  /** Reported artifacts: size and time of change by path. */
  artifacts: Record<string, string>;
  /** Reported problems. The name is part of the stored state. */
  said: string[];
}

export class OwnSource {
  readonly #state: OwnState;
  readonly #log: Logger;
  #serial: number;
  /** Sent with the next batch. */
  #events: WorkerEventRecord[] = [];
  /** The daemon has stored the current state. */
  #isStored = true;

  /** @param cursor as stored by the daemon */
  constructor(log: Logger, cursor: SourceCursor | undefined) {
    this.#log = log;
    // Serial 0: reported by an earlier attempt.
    const known = cursor !== undefined && cursor.serial > 0;
    this.#serial = known ? cursor.serial : 0;
    this.#state = known ? JSON.parse(cursor.state) : { shared: false, artifacts: {}, said: [] };
  }

  get state(): Readonly<OwnState> {
    return this.#state;
  }

  /** From now on, also after the other run has ended: its files are still there. */
  accompanied({ shared, others, below }: Company): void {
    const state = this.#state;
    const known = state.below ?? [];
    const more = outermost([...known, ...below]);
    const isNew = more.some((directory) => !known.includes(directory));
    if ((!shared || state.shared) && (!others || state.others) && !isNew) return;
    state.shared ||= shared;
    state.others ||= others;
    if (isNew && more.length <= MAX_BELOW) state.below = more;
    else if (isNew) {
      state.shared = true;
      this.reportOnce(
        "below",
        `more than ${MAX_BELOW} other runs have working directories below this run's: from now on only files that a process of ` +
          "this run has open, or whose names contain one, are read, and those named with --observe",
      );
    }
    this.#isStored = false;
  }

  /**
   * Whether a file is in the working directory of another run, which is deeper. @param path
   * relative to this run's
   */
  isBelow(path: string): boolean {
    return this.#state.below?.some((directory) => path.startsWith(`${directory}/`)) ?? false;
  }

  /**
   * Records processes of the worker: it may have ended when this proxy is restarted. @returns
   * whether some are new
   */
  addProcesses(pids: Iterable<number>, inner: Iterable<number>): boolean {
    const state = this.#state;
    const all = new Set([...state.pids ?? [], ...pids]);
    if (all.size <= (state.pids?.length ?? 0) || all.size > MAX_PIDS) return false;
    if (state.shared || state.others) {
      state.pids = [...all];
      state.inner = [...new Set([...state.inner ?? [], ...inner])].slice(0, MAX_PIDS);
      state.host = Deno.hostname();
      this.#isStored = false;
    }
    return true;
  }

  /** @param changedAt Unix milliseconds */
  reportArtifact({ path, kind, bytes, changedAt }: ArtifactFile): void {
    const { artifacts } = this.#state;
    const is = `${bytes} ${changedAt}`;
    if (artifacts[path] === is) return;
    if (artifacts[path] === undefined && Object.keys(artifacts).length >= MAX_ARTIFACTS) {
      return this.reportOnce(
        "artifacts",
        `more than ${MAX_ARTIFACTS} files: ${path} and others are no artifacts`,
      );
    }
    artifacts[path] = is;
    this.#events.push(
      eventOf("artifact", { path, kind, bytes, changed_at: changedAt }, changedAt / 1000),
    );
  }

  /** Artifacts that were reported and are not known to be gone. */
  artifacts(): string[] {
    return Object.entries(this.#state.artifacts).flatMap(([path, is]) => is === GONE ? [] : [path]);
  }

  /** Its file is not there any more. */
  reportDeleted(path: string, now: number): void {
    this.#state.artifacts[path] = GONE;
    this.#events.push(
      eventOf("artifact", { path, bytes: 0, changed_at: now, deleted: true }, now / 1000),
    );
  }

  /** @param what identifies the problem */
  reportOnce(what: string, detail: string): void {
    const { said: problems } = this.#state;
    if (problems.includes(what) || problems.length >= MAX_PROBLEMS) return;
    problems.push(what);
    this.#log.warn({ detail }, "not all files are observed");
    this.#events.push(eventOf("source_problem", { problem: "left_out", detail }, undefined));
  }

  /** A file of the worker that is not read, once. */
  reportNotRead(path: string, { what, remedy }: Pick<NotRead, "what" | "remedy">): void {
    const { said: problems } = this.#state;
    if (problems.includes(path) || problems.length >= MAX_PROBLEMS) return;
    problems.push(path);
    const event: NotRead = { source: path, what, remedy, count: 1 };
    this.#events.push(eventOf(NOT_READ, event, undefined));
  }

  /** What the daemon has not stored yet; undefined: nothing. */
  take(): { cursor: SourceCursor; records: Records } | undefined {
    if (this.#events.length === 0 && this.#isStored) return undefined;
    this.#isStored = true;
    const events = this.#events.splice(0);
    const state = JSON.stringify(this.#state);
    return {
      cursor: { name: OWN_SOURCE, label: "", serial: ++this.#serial, state },
      records: { episodes: [], events },
    };
  }
}

/** Without directories that are below another one. */
function outermost(directories: readonly string[]): string[] {
  const all = [...new Set(directories)];
  return all.filter((one) => !all.some((other) => one.startsWith(`${other}/`)));
}

interface ArtifactFile {
  path: string;
  kind: string;
  bytes: number;
  changedAt: number;
}
