/**
 * Checks before anything expensive starts (`metadata.preflight`), on the worker's host: by the
 * daemon on its own, by the proxy on a node. Each failed check gives a sentence that says what is
 * wrong and what to do; the run is faulted with `preflight: ` and these sentences.
 */
import { messageOf } from "../../base/errors.ts";
import { isShortage } from "../../os/processes/shortage.ts";
import { type Kind, kindsLater } from "../../os/files/file_kinds.ts";
import { outputOfUser } from "../../os/rights/user_shell.ts";
import type { WorkerUser } from "../../os/rights/worker_user.ts";
import { checkModules, type Interpreter, type ModuleCheck } from "./python_modules.ts";

/** The checks of a config. Sent to a node as JSON. */
export interface PreflightChecks {
  files: { path: string; sha256: string | null }[];
  modules: ModuleCheck[];
  /** The interpreter that searches the modules. */
  python: string[];
  minFreeDiskMb: number;
  /** A GPU must be visible to the worker. */
  gpu: boolean;
}

export interface PreflightContext {
  interpreter: Interpreter;
  /** The run's directory; it need not exist yet. */
  directory: string;
  /** Why no GPU is visible to the worker, and what to do; undefined if one is visible. */
  noGpu: string | undefined;
  /** How long the interpreter may take to import the modules. */
  moduleTimeoutMs?: number;
  /** How long the checksum of one file may take. */
  fileTimeoutMs?: number;
}

/**
 * Prefix of the failure reason, and of the error of a worker that a proxy therefore does not start.
 */
export const PREFLIGHT = "preflight: ";

const MODULE_TIMEOUT_MS = 120_000;
/** A file system that a user has mounted may never answer. */
const LOOK_TIMEOUT_MS = 10_000;
const FILE_TIMEOUT_MS = 600_000;
const MIB = 1024 * 1024;

/**
 * The failures, in the order files, modules, disk, GPU; empty if the run may start. @throws
 * temporary trouble
 */
export async function preflight(
  checks: PreflightChecks,
  context: PreflightContext,
): Promise<string[]> {
  const { interpreter, directory, noGpu } = context;
  const { moduleTimeoutMs = MODULE_TIMEOUT_MS, fileTimeoutMs = FILE_TIMEOUT_MS } = context;
  const noDirectory = await checkDirectory(interpreter);
  if (noDirectory.length > 0) return noDirectory;
  return [
    ...await checkFiles(checks.files, interpreter, fileTimeoutMs),
    ...await checkModules(checks.modules, interpreter, moduleTimeoutMs),
    ...await checkDisk(checks.minFreeDiskMb, directory),
    ...(checks.gpu && noGpu !== undefined ? [noGpu] : []),
  ];
}

async function checkDirectory({ cwd, user }: Interpreter): Promise<string[]> {
  const correct = "correct metadata.worker.cwd";
  try {
    const [kind, entered] = await kindsLater([cwd, `${cwd}/.`], user, LOOK_TIMEOUT_MS);
    if (entered === "directory") return [];
    // Without saying which: the user may not be allowed to see that.
    if (user !== undefined) {
      return [
        `the working directory ${cwd} is not there${
          seenBy(user)
        }, or it cannot be entered; ${correct}`,
      ];
    }
    const what = kind === undefined
      ? "not there"
      : kind === "directory"
      ? "not to be entered"
      : "a file";
    return [`the working directory ${cwd} is ${what}; ${correct}`];
  } catch (error) {
    if (isShortage(error)) throw error;
    return [`the working directory ${cwd} cannot be looked at (${messageOf(error)}); ${correct}`];
  }
}

/** The worker's user may see less than the daemon. */
function seenBy(user: WorkerUser | undefined): string {
  return user === undefined ? "" : ` for user ${user.name || user.uid}`;
}

async function checkFiles(
  files: PreflightChecks["files"],
  { cwd, user }: Interpreter,
  timeoutMs: number,
) {
  const failures: string[] = [];
  const paths = files.map(({ path }) => path.startsWith("/") ? path : `${cwd}/${path}`);
  let kinds: (Kind | undefined)[];
  try {
    kinds = await kindsLater(paths, user, LOOK_TIMEOUT_MS);
  } catch (error) {
    if (isShortage(error)) throw error;
    return [
      `the files of metadata.preflight.files cannot be looked at (${
        messageOf(error)
      }); correct their paths`,
    ];
  }
  for (const [at, { sha256 }] of files.entries()) {
    const [full, kind] = [paths[at]!, kinds[at]];
    if (kind === undefined) {
      failures.push(
        `the file ${full} is not there${
          seenBy(user)
        }; put it there or correct metadata.preflight.files`,
      );
      continue;
    }
    if (sha256 === null) continue;
    if (kind === "directory" || kind === "other") {
      failures.push(
        `${full} is no file; its checksum cannot be taken: remove sha256 or name a file`,
      );
      continue;
    }
    let found: string | undefined;
    try {
      found = (await outputOfUser(user, timeoutMs, CHECKSUM, full))?.slice(0, 64);
    } catch (error) {
      if (isShortage(error)) throw error;
      failures.push(
        `${full}: no checksum (${
          messageOf(error)
        }); remove sha256, or name a file that is read sooner`,
      );
      continue;
    }
    if (found === undefined) {
      failures.push(`the file ${full} cannot be read${seenBy(user)}; correct its permissions`);
    } else if (found !== sha256) {
      failures.push(
        `${full} has the SHA-256 ${found}, not ${sha256}; fetch the file again or correct the config`,
      );
    }
  }
  return failures;
}

/** A FIFO that has taken the file's place meanwhile is given up like a file that takes too long. */
const CHECKSUM = '[ -f "$0" ] && exec sha256sum <"$0"';

async function checkDisk(minFreeMb: number, directory: string): Promise<string[]> {
  if (minFreeMb === 0) return [];
  const free = await freeMiB(directory);
  if (free >= minFreeMb) return [];
  return [
    `${free} MiB are free below ${directory}, and ${minFreeMb} are asked for; delete old runs or lower metadata.preflight.min_free_disk_mb`,
  ];
}

/** MiB free for this user on the file system of `path`, or of its nearest existing parent. */
async function freeMiB(path: string): Promise<number> {
  for (let at = path;; at = at.slice(0, at.lastIndexOf("/")) || "/") {
    try {
      const { bavail, bsize } = await process.getBuiltinModule("node:fs").promises.statfs(at);
      return Math.floor(bavail * bsize / MIB);
    } catch (error) {
      if (at === "/" || (error as { code?: string }).code !== "ENOENT") throw error;
    }
  }
}
