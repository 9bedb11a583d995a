/**
 * The daemon's instructions to a proxy besides its arguments: a file of mode 0600
 * (`RunFiles.proxyFile(attempt)`), because an environment and a token do not belong on a command
 * line that everybody can read with `ps`.
 */
import type { RunCgroup } from "../../os/processes/cgroups.ts";
import type { WorkerUser } from "../../os/rights/worker_user.ts";
import { readRecord, readRecordInProxy } from "../../os/files/untrusted.ts";
import { writeRecord } from "../../os/files/untrusted_changes.ts";
import { messageOf, MosaicError } from "../../base/errors.ts";
import type { PreflightChecks } from "./preflight.ts";
import type { Observation } from "../../readers/files/observation.ts";
import type { TextDialect } from "../../readers/text/text_dialects.ts";

export interface ProxyStartFile {
  /** The worker's whole environment; nothing else is added to it. */
  env: Record<string, string>;
  /** The worker's working directory, absolute. */
  cwd: string;
  /** The worker's user; null: the proxy's. Absent in earlier versions. */
  user?: WorkerUser | null;
  /**
   * Words before the worker's command that run it in its sandbox; absent in earlier versions, whose
   * command has them.
   */
  sandbox?: readonly string[];
  /** Sent as `authorization: Bearer …`; "" if the daemon requires no token. */
  sessionToken: string;
  /** Path of the daemon's `daemon.json`, read again when the target does not answer; "": none. */
  daemonJson: string;
  stateDir: string;
  /** The run's telemetry schema, checked in the proxy; null checks nothing. */
  schema: TelemetrySchemaChoice | null;
  /** Dialects of printed text that are not read; absent in earlier versions. */
  textOff?: readonly TextDialect[];
  /** Files that are read besides the journal; null: none. Absent in earlier versions. */
  observe?: Observation | null;
  /**
   * What happens to the journal's stored part: "packed" (also if absent, from an earlier version);
   * "dropped": packed only while the worker lives, because the logs are removed then; "kept":
   * unchanged.
   */
  journal?: "packed" | "dropped" | "kept";
  /** The original's GUI shows its frames, from shared memory. Absent in earlier versions. */
  fastlane?: boolean;
  /** Whether the run's code and packages are recorded at the start. Absent in earlier versions. */
  code?: boolean;
  /**
   * Whether the worker reads control messages on its standard input; others are paused by signal.
   */
  supportsPause: boolean;
  /**
   * Undelivered journal bytes at which the worker is held; 0: the default (10 GiB or 5 % of the
   * free disk).
   */
  maxBacklogBytes: number;
  /** The worker's cgroup; null: none. */
  cgroup: RunCgroup | null;
  /** The worker's umask, octal; "": the proxy's. */
  umask: string;
  /** Seconds between heartbeats. */
  heartbeatIntervalS: number;
  /**
   * Seconds between SIGTERM and SIGKILL for what the worker leaves running. Absent in earlier
   * versions.
   */
  graceS?: number;
  /** An engine has placed the proxy on this host: it says hello before it starts the worker. */
  placed?: {
    /** Without a daemon it exits this long after the worker's end, or after its own start. */
    lingerSeconds: number;
    /**
     * After so long without a message of the daemon it stops the worker; null: never. Absent in
     * earlier versions.
     */
    leaseSeconds?: number | null;
    /** Checked on this host before the worker starts. Absent in earlier versions. */
    preflight?: PreflightChecks;
    /**
     * The host shares no disk with the daemon: the run's directory is removed when everything is
     * uploaded. `resume` is the path for the checkpoint that the attempt resumes from; null: none.
     */
    ownDisk?: { resume: string | null };
  } | undefined;
  tls?: StartTls | null | undefined;
}

/** How to verify a daemon on another host. */
export interface StartTls {
  /**
   * The authority of its certificate, a file that exists on this host, too; null: the system's
   * authorities.
   */
  ca: string | null;
}

/**
 * `worker.config.schema_id` (a built-in schema) and `worker.config.schema_definition` (an inline
 * one, which wins).
 */
export interface TelemetrySchemaChoice {
  id: string;
  definition: unknown;
}

export function writeStartFile(path: string, start: ProxyStartFile): void {
  writeRecord(path, JSON.stringify(start));
}

/** @throws MosaicError `failed_precondition` when the file is missing or unreadable. */
export function readStartFile(path: string): ProxyStartFile {
  try {
    const text = readRecordInProxy(path);
    if (text === undefined) throw new Error("there is no such file, or it is no regular one");
    return JSON.parse(text) as ProxyStartFile;
  } catch (error) {
    throw new MosaicError(
      "failed_precondition",
      `the proxy's start file ${path} cannot be read: ${messageOf(error)}`,
      {
        hint:
          "The daemon writes it before it starts a proxy; without --run-dir the proxy needs none.",
        cause: error,
      },
    );
  }
}

/**
 * The cgroup and the user of an attempt's worker, and what its proxies observe; none if it was
 * never started.
 */
export function placeOfWorker(
  path: string,
): {
  cgroup?: RunCgroup | undefined;
  user?: WorkerUser | undefined;
  observe?: Observation | null | undefined;
} {
  try {
    const { cgroup, user, observe } = JSON.parse(readRecord(path) ?? "") as Partial<ProxyStartFile>;
    return { cgroup: cgroup ?? undefined, user: user ?? undefined, observe };
  } catch {
    return {};
  }
}
