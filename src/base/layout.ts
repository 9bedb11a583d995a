/** Paths of all files below a state directory (the seeds' layout). */
import { withoutTrailingSlashes } from "./text/trailing_slashes.ts";
import { MosaicError } from "./errors.ts";

/** Directories of runs below `trainer/`. */
export const BASE_DIRS = ["runs", "evals", "custom_scripts"] as const;
export type BaseDir = typeof BASE_DIRS[number];

/**
 * `--state-dir`, else `$MOSAIC_STATE_DIR`, else `$XDG_STATE_HOME/mosaic`, else
 * `~/.local/state/mosaic`.
 */
export function resolveStateDir(
  option: string | undefined,
  env: (name: string) => string | undefined,
): string {
  const home = env("HOME");
  const xdg = env("XDG_STATE_HOME");
  const chosen = option || env("MOSAIC_STATE_DIR") || (xdg && `${xdg}/mosaic`) ||
    (home && `${home}/.local/state/mosaic`);
  if (!chosen) {
    throw new MosaicError("invalid_argument", "no state directory: HOME is not set", {
      hint: "Give --state-dir DIR or set MOSAIC_STATE_DIR.",
    });
  }
  const absolute = chosen.startsWith("/") ? chosen : `${Deno.cwd()}/${chosen}`;
  return withoutTrailingSlashes(absolute) || "/";
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

export class Layout {
  readonly stateDir: string;

  constructor(stateDir: string) {
    this.stateDir = stateDir;
  }

  get trainer(): string {
    return `${this.stateDir}/trainer`;
  }
  get configs(): string {
    return `${this.trainer}/configs`;
  }
  get registryDb(): string {
    return `${this.trainer}/registry.db`;
  }
  get pidFile(): string {
    return `${this.trainer}/daemon.pid`;
  }
  get lockFile(): string {
    return `${this.trainer}/daemon.lock`;
  }
  /**
   * {pid, version, listen, http, socket, started_at}, written when the daemon is ready; clients
   * find the daemon by it.
   */
  get daemonJson(): string {
    return `${this.trainer}/daemon.json`;
  }
  /** Tokens (mode 0600) of a daemon with --auth token. */
  get tokensFile(): string {
    return `${this.trainer}/tokens.json`;
  }
  /** Who changed what (src/wire/audit.ts); full files are renamed to `.1` (the newest) to `.3`. */
  get auditFile(): string {
    return `${this.trainer}/audit.jsonl`;
  }
  /** Delivery cursor of each webhook. */
  get webhooksFile(): string {
    return `${this.trainer}/webhooks.json`;
  }
  /** Default key that signs webhook deliveries. */
  get webhookSecret(): string {
    return `${this.trainer}/webhook.secret`;
  }
  /** Reserved space for a full disk, beside each database (src/os/files/reserve.ts). */
  get registryReserve(): string {
    return `${this.trainer}/reserve`;
  }
  get telemetryReserve(): string {
    return `${this.stateDir}/telemetry/reserve`;
  }
  /**
   * The original's GUI, in the same directory, has a `telemetry.sqlite` with tables of its own, so
   * mosaic's has another name. Earlier versions used the original's: their file keeps it until a
   * daemon has renamed it (src/daemon/stores.ts).
   */
  get telemetryDb(): string {
    const { olderTelemetryDb, newerTelemetryDb } = this;
    return exists(newerTelemetryDb) || !exists(olderTelemetryDb)
      ? newerTelemetryDb
      : olderTelemetryDb;
  }
  get newerTelemetryDb(): string {
    return `${this.stateDir}/telemetry/mosaic.sqlite`;
  }
  get olderTelemetryDb(): string {
    return `${this.stateDir}/telemetry/telemetry.sqlite`;
  }
  /**
   * Contains `mosaic.py`, the module for workers in Python; the module recognizes itself by the
   * directory's name.
   */
  get pythonHelper(): string {
    return `${this.trainer}/python-helper`;
  }
  /** What `mosaic import` has unpacked for the daemon. */
  get imports(): string {
    return `${this.trainer}/imports`;
  }
  get logs(): string {
    return `${this.stateDir}/logs`;
  }
  get daemonLog(): string {
    return `${this.logs}/daemon.log`;
  }
  /** What a daemon in the background prints besides its log: why it did not start. */
  get daemonOutput(): string {
    return `${this.stateDir}/daemon-output.txt`;
  }
  baseDir(base: BaseDir): string {
    return `${this.trainer}/${base}`;
  }
  runDir(base: BaseDir, runId: string): string {
    return `${this.baseDir(base)}/${runId}`;
  }
  configFile(runId: string): string {
    return `${this.configs}/config-${runId}.json`;
  }
  workerConfigFile(runId: string, workerId: string): string {
    return `${this.configs}/worker-${runId}${workerId === "" ? "" : `-${workerId}`}.json`;
  }
  /** Every directory that a daemon needs. */
  directories(): string[] {
    return [
      this.stateDir,
      this.trainer,
      this.configs,
      this.baseDir("runs"),
      this.baseDir("evals"),
      this.baseDir("custom_scripts"),
      `${this.stateDir}/telemetry`,
      this.logs,
    ];
  }
}

/**
 * Directories of a run that mosaic writes to. They are made before the worker starts; a worker with
 * fewer rights than mosaic (a user of its own, a sandbox) cannot write to them.
 */
export const OWN_DIRECTORIES: readonly string[] = [".mosaic", "logs", "media"];

/** Files of one run, shared by the daemon, its proxies and the wrapper around the worker. */
export class RunFiles {
  readonly directory: string;
  readonly workerId: string;

  constructor(directory: string, workerId: string) {
    this.directory = directory;
    this.workerId = workerId === "" ? "worker" : workerId;
  }

  get logs(): string {
    return `${this.directory}/logs`;
  }
  /** Prefix of an attempt's logs. The first attempt uses the original's plain name. */
  logOf(attempt: number): string {
    return `${this.logs}/${this.workerId}${attempt === 1 ? "" : `.${attempt}`}`;
  }
  /** Journal of an attempt: the worker's standard output. */
  stdout(attempt: number): string {
    return `${this.logOf(attempt)}.stdout.log`;
  }
  /**
   * Difference between journal positions and file offsets, after the file was truncated or removed.
   */
  journalShift(attempt: number): string {
    return `${this.control}/journal-${attempt}.json`;
  }
  stderr(attempt: number): string {
    return `${this.logOf(attempt)}.stderr.log`;
  }
  /** When standard error grew, beside standard output. */
  logTimes(attempt: number): string {
    return `${this.logOf(attempt)}.times`;
  }
  /** Output of a rank of an attempt with several; rank 0's is the attempt's. */
  rankLog(attempt: number, rank: number, stream: "stdout" | "stderr"): string {
    return `${this.logOf(attempt)}${rank === 0 ? "" : `.rank-${rank}`}.${stream}.log`;
  }
  /**
   * Followed by `-RANK.json`: {rank, node, code}; and by `-first.json`: the same for the rank that
   * failed first.
   */
  rankRecord(attempt: number): string {
    return `${this.control}/rank-${attempt}`;
  }
  /** The run's OWN_DIRECTORIES. */
  get own(): string[] {
    return OWN_DIRECTORIES.map((name) => `${this.directory}/${name}`);
  }
  /** Pictures and sounds that were embedded in files of trackers. */
  get media(): string {
    return `${this.directory}/media`;
  }
  /** Directories that programs of the original expect to exist. */
  get outputs(): string[] {
    return ["checkpoints", "tensorboard", "videos"].map((name) => `${this.directory}/${name}`);
  }
  /**
   * Where an attempt saves checkpoints (`MOSAIC_CHECKPOINT_DIR`). @param apart on a host whose
   * processes this daemon cannot see: a worker of an earlier attempt may still write
   */
  checkpoints(attempt: number, apart: boolean): string {
    return `${this.directory}/checkpoints${apart && attempt > 1 ? `/attempt-${attempt}` : ""}`;
  }
  /** The proxy's own log. */
  get proxyLog(): string {
    return `${this.logs}/proxy.log`;
  }
  /** What an engine's job printed before its proxy had a log. */
  get jobLog(): string {
    return `${this.logs}/job.log`;
  }
  /** State of an attempt's processes. A sandboxed worker cannot access it. */
  get control(): string {
    return `${this.directory}/.mosaic`;
  }
  /** {pid, identity, started_at} of the wrapper shell that leads the worker's group. */
  workerFile(attempt: number): string {
    return `${this.control}/worker-${attempt}.json`;
  }
  /** {code, signal, ended_at}: written before the exit is reported. */
  exitFile(attempt: number): string {
    return `${this.control}/exit-${attempt}.json`;
  }
  /**
   * Exists if the attempt's proxy has stopped the worker because it got no message of the daemon
   * for `lease_seconds`.
   */
  leaseEnd(attempt: number): string {
    return `${this.control}/lease-${attempt}`;
  }
  /** Path used by wrappers of older versions; a sandboxed worker can write there. */
  olderExitFile(attempt: number): string {
    return attempt === 1 ? `${this.directory}/exit.json` : `${this.directory}/exit.${attempt}.json`;
  }
  /** Lock (flock) held by the attempt's proxy, so that there is only one. */
  proxyLock(attempt: number): string {
    return `${this.control}/proxy-${attempt}.lock`;
  }
  /** Everything the proxy needs besides its arguments (0600): session token, schema, limits. */
  proxyFile(attempt: number): string {
    return `${this.control}/proxy-${attempt}.json`;
  }
  /** Files that somebody has named since the run began, for `mosaic proxy --read-files`. */
  get namedFiles(): string {
    return `${this.control}/named.json`;
  }
  /**
   * A token (0600): for an external run, the session token of its proxy; else, with `--auth token`,
   * the worker's token.
   */
  get sessionTokenFile(): string {
    return `${this.control}/session-token`;
  }
  /** The worker's standard input, if it accepts control messages. */
  stdinFifo(attempt: number): string {
    return `${this.control}/stdin-${attempt}.fifo`;
  }
}
