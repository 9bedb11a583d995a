/**
 * Decides which of the found files belong to the worker. In places where several runs write, these
 * are files that the worker has open, or whose names contain its processes (owner.ts decides).
 * Finding that out starts a process, so it is done seldom.
 */
import type { RunFiles } from "../../base/layout.ts";
import { asEffectiveUser } from "../../os/rights/effective_user.ts";
import { infoIfThere } from "../../os/files/files.ts";
import { readRecordInProxy } from "../../os/files/untrusted.ts";
import { Discovery, type FoundFile } from "./discovery.ts";
import { headOf, isExportedFile } from "./file_source.ts";
import type { Observation } from "./observation.ts";
import { OwnDirectories } from "./own_directories.ts";
import { pidInContent, pidInName, processesOf, writtenByAnyone } from "./open_files.ts";
import { type FileFacts, ownerOf } from "./owner.ts";
import type { OwnSource } from "./own_source.ts";
import { formatOfName } from "../formats.ts";
import { Pace } from "./pace.ts";
import { changedAt, createdAt } from "./file_times.ts";

const PROCESSES_MS = { least: 2000, most: 30_000 };
/**
 * A file that nobody was seen to write for so long is reported; several files, by one event each.
 */
const UNCLAIMED_MS = 10_000;
const MAX_UNCLAIMED = 8;
/** A line of Ray has its configuration, too. */
const HEAD_BYTES = 64 << 10;

const WHY_LEFT_OUT = {
  depth: "too deep",
  directories: "too many directories",
  permission: "not among the permissions of this proxy",
};

export interface WorkerFilesPlan {
  files: RunFiles;
  attempt: number;
  observation: Observation;
  /** Directories that are not searched. */
  excluded: readonly string[];
  /**
   * Unix milliseconds: the attempt is long over, so later files do not belong to it, and its
   * processes cannot be inspected.
   */
  endedAt?: number;
  /** Files that have not changed since this attempt's start are older; default: `attempt`. */
  since?: number;
}

export interface WorkerFile {
  file: FoundFile;
  info: Deno.FileInfo;
}

export class WorkerFiles {
  readonly #plan: WorkerFilesPlan;
  readonly #discovery: Discovery;
  readonly #processPace = new Pace(PROCESSES_MS);
  /** Sizes of files that an earlier program had left, by path. */
  #before: Map<string, number> | undefined;
  /** Files that the worker was seen to write. */
  readonly #open = new Set<string>();
  /** Files that any process was seen to write. */
  readonly #written = new Set<string>();
  readonly #directories = new OwnDirectories();
  /** Processes of other runs that were seen. */
  readonly #ofOthers = new Set<number>();
  #start: { leader: number; since: number } | undefined;

  /** The worker's processes had ended, or cannot be read, when they were looked for. */
  #processesUnknown = false;

  constructor(plan: WorkerFilesPlan) {
    this.#plan = plan;
    this.#discovery = new Discovery(plan.files.directory, plan.observation, plan.excluded);
  }

  /** Call it before the worker has begun to write, or soon after. */
  rememberBefore(): void {
    if (this.#before !== undefined) return;
    this.#before = new Map();
    const { since } = this.#started();
    for (const { path } of this.list()) {
      const info = infoIfThere(path);
      if (info !== undefined && changedAt(info) < since) this.#before.set(path, info.size);
    }
  }

  /** Bytes that an earlier program had left in a file. */
  sizeBefore(path: string): number {
    return this.#before?.get(path) ?? 0;
  }

  /** All files of interest, whoever owns them. @throws errors of the file system */
  list(): FoundFile[] {
    return asEffectiveUser(this.#plan.observation.user, () => this.#discovery.scan());
  }

  /** The requested patterns that none of the files fits. */
  unmatched(found: readonly FoundFile[]): string[] {
    return this.#discovery.unmatched(found);
  }

  /** Whether somebody has named the file. */
  isRequested(path: string): boolean {
    return this.#discovery.isRequested(path);
  }

  /** Whether it is away from a working directory that is there. */
  isGone(path: string): boolean {
    const { roots, user } = this.#plan.observation;
    const root = roots.find((one) => path.startsWith(`${one}/`));
    if (root === undefined) return false;
    try {
      return asEffectiveUser(
        user,
        () => infoIfThere(root) !== undefined && infoIfThere(path) === undefined,
      );
    } catch {
      // It cannot be seen.
      return false;
    }
  }

  /** Whether nobody has written to it since the run began. */
  isOlder(info: Deno.FileInfo): boolean {
    return changedAt(info) < this.#started().since;
  }

  /**
   * The found files that belong to the worker, as each is decided. Undecided ones are reported to
   * `own`.
   */
  *claim(found: readonly FoundFile[], own: OwnSource, final: boolean): Generator<WorkerFile> {
    const { since } = this.#started();
    const { endedAt } = this.#plan;
    // The main process exists from the beginning, and may have ended when its last file is read.
    const { shared, pids = [] } = own.state;
    if (shared && pids.length === 0 && endedAt === undefined) this.#findProcesses(own, final);
    const undecided: FoundFile[] = [];
    for (const file of found) {
      const info = infoIfThere(file.path);
      if (info === undefined || !info.isFile || changedAt(info) < since) continue;
      if ((info.birthtime?.getTime() ?? 0) > (endedAt ?? Infinity)) continue;
      if (this.#ownerOf(file, info, own) === "worker") yield { file, info };
      // Nobody misses what would only be offered.
      else if (file.isOffered !== true) undecided.push(file);
    }
    if (undecided.length > 0 && endedAt === undefined) {
      yield* this.#claimUndecided(undecided, own, final);
    }
    for (const [what, directory] of this.#discovery.leftOut) {
      own.reportOnce(
        what,
        `${
          WHY_LEFT_OUT[what]
        }: ${directory} is not searched, and maybe others; name the files there ` +
          "with --observe",
      );
    }
  }

  *#claimUndecided(
    undecided: readonly FoundFile[],
    own: OwnSource,
    final: boolean,
  ): Generator<WorkerFile> {
    if (this.#findProcesses(own, final)) {
      const written = writtenByAnyone();
      for (const { path } of undecided) if (written.has(path)) this.#written.add(path);
    }
    if (this.#processesUnknown && own.state.shared) {
      own.reportOnce(
        "shared",
        "files in the working directory cannot be told from those of other runs in it: only the run's directory and " +
          "files named with --observe are observed",
      );
    }
    const unclaimed: FoundFile[] = [];
    const undecidedArtifacts: FoundFile[] = [];
    for (const file of undecided) {
      const info = infoIfThere(file.path);
      if (info === undefined) continue;
      const owner = this.#ownerOf(file, info, own);
      const isOld = final || Date.now() - createdAt(info) > UNCLAIMED_MS;
      if (owner === "worker") yield { file, info };
      else if (owner === "unknown" && isOld) {
        (file.artifact === undefined ? unclaimed : undecidedArtifacts).push(file);
      }
    }
    this.#reportUnclaimed(unclaimed, own);
    const [first] = final ? undecidedArtifacts : [];
    if (first !== undefined) {
      own.reportOnce(
        "unclaimed artifacts",
        `${first.path} is no artifact of this run, and maybe others: another run has the same working directory, and nothing ` +
          "shows which run has written it. Give each run its own --cwd, or save below $MOSAIC_RUN_DIR",
      );
    }
  }

  #ownerOf(
    { path, place, root }: FoundFile,
    info: Deno.FileInfo,
    own: OwnSource,
  ): ReturnType<typeof ownerOf> {
    const { host, pids } = own.state;
    const { since } = this.#started();
    const isOpen = this.#open.has(path);
    const named = host === undefined ? undefined : pidInName(path, host);
    const isMarked = isOpen || (named !== undefined && pids?.includes(named) === true);
    if (isMarked) this.#directories.add(path, root, place);
    else if (named !== undefined) this.#directories.addMixed(path);
    const facts: FileFacts = {
      place,
      isBelow: place === "cwd" && own.isBelow(path.slice(root.length).replace(/^\/+/, "")),
      isOpen,
      isNew: createdAt(info) >= since && !this.#before?.has(path),
      pid: named,
      isBeside: this.#directories.has(
        path,
        (directory) => createdAt(infoIfThere(directory) ?? info) >= since,
      ),
    };
    const owner = ownerOf(facts, own.state);
    if (owner !== "unknown" || host === undefined) return owner;
    if (this.#directories.isOthers(path)) return "other";
    if (formatOfName(path) !== "jsonl") return owner;
    const { user } = this.#plan.observation;
    const pid = pidInContent(
      new TextDecoder().decode(headOf(path, root, user, HEAD_BYTES) ?? new Uint8Array()),
      host,
    );
    if (pid === undefined) return owner;
    if (!pids?.includes(pid)) {
      if (!this.#ofOthers.has(pid)) return owner;
      this.#directories.addOthers(path, root, place);
      return "other";
    }
    this.#directories.add(path, root, place);
    return "worker";
  }

  #reportUnclaimed(files: readonly FoundFile[], own: OwnSource): void {
    const { said: problems } = own.state;
    const reported = problems.filter((what) => what.startsWith("/")).length;
    const unreported = files.filter(({ path, root }) =>
      !problems.includes(path) && !this.#written.has(path) &&
      !isExportedFile(path, root, this.#plan.observation.user)
    );
    for (const { path, place } of unreported.slice(0, Math.max(0, MAX_UNCLAIMED - reported))) {
      const [company, advice] = place === "cwd"
        ? ["has the same working directory", "Give each run its own --cwd, or name"]
        : ["was live, too", "Name"];
      own.reportOnce(
        path,
        `${path} is not read: another run ${company}, and neither an open descriptor nor the name shows which run has written it. ` +
          `${advice} the file with --observe`,
      );
    }
  }

  /**
   * Finds the worker's processes and the files that they write. @returns false if that was done
   * recently
   */
  #findProcesses(own: OwnSource, final: boolean): boolean {
    const now = performance.now();
    if (now < this.#processPace.due && !final) return false;
    const found = processesOf(this.#started().leader, this.#plan.files.directory);
    const known = this.#open.size;
    for (const path of found?.writes ?? []) this.#open.add(path);
    for (const pid of found?.others ?? []) this.#ofOthers.add(pid);
    const isNew = own.addProcesses(found?.pids ?? [], found?.inner ?? []);
    this.#processPace.done(now, isNew || this.#open.size > known);
    this.#processesUnknown = found === undefined && own.state.pids === undefined;
    return true;
  }

  /** The worker's group, and when it was started, by the clock of the run's file system. */
  #started(): { leader: number; since: number } {
    if (this.#start !== undefined) return this.#start;
    const path = this.#plan.files.workerFile(this.#plan.since ?? this.#plan.attempt);
    const info = infoIfThere(path);
    let leader = 0;
    try {
      leader = Number(JSON.parse(readRecordInProxy(path) ?? "{}").pid) || 0;
    } catch {
      // Torn by a crash: then open files cannot be attributed to the worker.
    }
    return this.#start = { leader, since: info === undefined ? Date.now() : changedAt(info) };
  }
}
