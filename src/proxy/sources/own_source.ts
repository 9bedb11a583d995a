/** The source that is no file: artifacts, each problem once, and which processes are the worker's. */
import type { Logger } from "../../base/log.ts";
import type { SourceCursor, WorkerEventRecord } from "../../telemetry/ingest_batch.ts";
import { eventOf, type Records } from "./source_records.ts";

/** Its name, which no file has. */
export const OWN_SOURCE = ".";
const MAX_PROBLEMS = 256;
const MAX_ARTIFACTS = 1000;
/** Processes of the worker, remembered. */
const MAX_PIDS = 256;

/** Who else there is. */
export interface Company {
  /** In the same working directory. */
  shared: boolean;
  /** On this host, so perhaps in places that all have in common. */
  others: boolean;
}

/** Its cursor's state. */
export interface OwnState {
  shared: boolean;
  /** Absent in what earlier versions stored. */
  others?: boolean;
  /** Processes of the worker, while others use its directory, too; absent in what earlier versions stored. */
  pids?: number[];
  /** What they are in their sandbox; as many. */
  inner?: number[];
  /** Where they are. */
  host?: string;
  /** Told artifacts: size and time of change by path. */
  artifacts: Record<string, string>;
  /** Problems that were told. */
  said: string[];
}

export class OwnSource {
  readonly #state: OwnState;
  readonly #log: Logger;
  #serial: number;
  /** To be told with the next batch. */
  #events: WorkerEventRecord[] = [];
  /** The daemon has the state as it is. */
  #isStored = true;

  /** @param cursor what the daemon has stored of it */
  constructor(log: Logger, cursor: SourceCursor | undefined) {
    this.#log = log;
    // Serial 0: told by an earlier attempt.
    const known = cursor !== undefined && cursor.serial > 0;
    this.#serial = known ? cursor.serial : 0;
    this.#state = known ? JSON.parse(cursor.state) : { shared: false, artifacts: {}, said: [] };
  }

  get state(): Readonly<OwnState> {
    return this.#state;
  }

  /** From now on, also when the other has ended: its files are still there. */
  accompanied({ shared, others }: Company): void {
    const state = this.#state;
    if ((!shared || state.shared) && (!others || state.others)) return;
    state.shared ||= shared;
    state.others ||= others;
    this.#isStored = false;
  }

  /** Keeps processes of the worker: after a restart of this proxy it may be gone. @returns whether some are new */
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
  tellArtifact({ path, kind, bytes, changedAt }: ArtifactFile): void {
    const { artifacts } = this.#state;
    const is = `${bytes} ${changedAt}`;
    if (artifacts[path] === is) return;
    if (artifacts[path] === undefined && Object.keys(artifacts).length >= MAX_ARTIFACTS) {
      return this.sayOnce("artifacts", `more than ${MAX_ARTIFACTS} files: ${path} and others are no artifacts`);
    }
    artifacts[path] = is;
    this.#events.push(eventOf("artifact", { path, kind, bytes, changed_at: changedAt }, changedAt / 1000));
  }

  /** @param what names the problem */
  sayOnce(what: string, detail: string): void {
    const { said } = this.#state;
    if (said.includes(what) || said.length >= MAX_PROBLEMS) return;
    said.push(what);
    this.#log.warn({ detail }, "not all files are observed");
    this.#events.push(eventOf("source_problem", { problem: "left_out", detail }, undefined));
  }

  /** What the daemon does not have yet; undefined for nothing. */
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

interface ArtifactFile {
  path: string;
  kind: string;
  bytes: number;
  changedAt: number;
}
