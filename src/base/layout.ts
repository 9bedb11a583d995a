/** Where everything lies below a state directory (the seeds' layout). */
import { MosaicError } from "./errors.ts";

/** Where runs may lie below `trainer/`. */
export const BASE_DIRS = ["runs", "evals", "custom_scripts"] as const;
export type BaseDir = typeof BASE_DIRS[number];

/** `--state-dir`, else `$MOSAIC_STATE_DIR`, else `$XDG_STATE_HOME/mosaic`, else `~/.local/state/mosaic`. */
export function resolveStateDir(option: string | undefined, env: (name: string) => string | undefined): string {
  const home = env("HOME");
  const xdg = env("XDG_STATE_HOME");
  const chosen = option || env("MOSAIC_STATE_DIR") || (xdg && `${xdg}/mosaic`) ||
    (home && `${home}/.local/state/mosaic`);
  if (!chosen) {
    throw new MosaicError("invalid_argument", "there is no state directory: HOME is not set", {
      hint: "Give --state-dir DIR or set MOSAIC_STATE_DIR.",
    });
  }
  const absolute = chosen.startsWith("/") ? chosen : `${Deno.cwd()}/${chosen}`;
  return absolute.replace(/\/+$/, "") || "/";
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
  /** {pid, version, listen, http, socket, started_at}, written when the daemon is ready; how clients find it. */
  get daemonJson(): string {
    return `${this.trainer}/daemon.json`;
  }
  /** The daemon's tokens (mode 0600), where it runs with --auth token. */
  get tokensFile(): string {
    return `${this.trainer}/tokens.json`;
  }
  /** How far each webhook has been told. */
  get webhooksFile(): string {
    return `${this.trainer}/webhooks.json`;
  }
  /** What deliveries to webhooks are signed with, where no other secret is given. */
  get webhookSecret(): string {
    return `${this.trainer}/webhook.secret`;
  }
  /** Space that is kept for a full disk, beside each database (src/os/reserve.ts). */
  get registryReserve(): string {
    return `${this.trainer}/reserve`;
  }
  get telemetryReserve(): string {
    return `${this.stateDir}/telemetry/reserve`;
  }
  get telemetryDb(): string {
    return `${this.stateDir}/telemetry/telemetry.sqlite`;
  }
  get logs(): string {
    return `${this.stateDir}/logs`;
  }
  get daemonLog(): string {
    return `${this.logs}/daemon.log`;
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
  /** Journal of an attempt: the worker's standard output. The first attempt has the seeds' plain name. */
  stdout(attempt: number): string {
    return `${this.logs}/${this.workerId}${attempt === 1 ? "" : `.${attempt}`}.stdout.log`;
  }
  /** Where the journal's positions and the file's differ, because somebody has shortened or removed the file. */
  journalShift(attempt: number): string {
    return `${this.control}/journal-${attempt}.json`;
  }
  stderr(attempt: number): string {
    return `${this.logs}/${this.workerId}${attempt === 1 ? "" : `.${attempt}`}.stderr.log`;
  }
  /** What the proxy itself has to say. */
  get proxyLog(): string {
    return `${this.logs}/proxy.log`;
  }
  /** Small state of an attempt's processes. A sandboxed worker neither sees nor reaches it. */
  get control(): string {
    return `${this.directory}/.mosaic`;
  }
  /** {pid, identity, started_at} of the wrapper shell that leads the worker's group. */
  workerFile(attempt: number): string {
    return `${this.control}/worker-${attempt}.json`;
  }
  /** {code, signal, ended_at}: the exit is a fact on disk before anybody is told. */
  exitFile(attempt: number): string {
    return `${this.control}/exit-${attempt}.json`;
  }
  /** Where the wrappers of older versions write it: in reach of a sandboxed worker. */
  olderExitFile(attempt: number): string {
    return attempt === 1 ? `${this.directory}/exit.json` : `${this.directory}/exit.${attempt}.json`;
  }
  /** Held (flock) by the attempt's proxy, so that there is never a second one. */
  proxyLock(attempt: number): string {
    return `${this.control}/proxy-${attempt}.lock`;
  }
  /** Everything the proxy needs besides its arguments (0600): session token, schema, limits. */
  proxyFile(attempt: number): string {
    return `${this.control}/proxy-${attempt}.json`;
  }
  /** A token (0600): an external run's session token for whoever starts its proxy; else, under `--auth token`, its worker's. */
  get sessionTokenFile(): string {
    return `${this.control}/session-token`;
  }
  /** The worker's standard input where it wants control messages. */
  stdinFifo(attempt: number): string {
    return `${this.control}/stdin-${attempt}.fifo`;
  }
}
