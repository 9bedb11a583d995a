/**
 * Checks before anything expensive starts (`metadata.preflight`), on the worker's host: by the daemon on its own, by the
 * proxy on a node. Each failed check gives a sentence that says what is wrong and what to do; the run is faulted with
 * `preflight: ` and these sentences.
 */
import { sha256 } from "../base/node_modules.ts";
import { messageOf } from "../base/errors.ts";
import { isShortage } from "../os/shortage.ts";
import { kindOf } from "../os/file_kinds.ts";
import { shellOutput } from "../os/shell.ts";
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
}

/** Prefix of the failure reason, and of the error of a worker that a proxy therefore does not start. */
export const PREFLIGHT = "preflight: ";

const MODULE_TIMEOUT_MS = 120_000;
const MIB = 1024 * 1024;

/** The failures, in the order files, modules, disk, GPU; empty if the run may start. @throws temporary trouble */
export async function preflight(checks: PreflightChecks, context: PreflightContext): Promise<string[]> {
  const { interpreter, directory, noGpu, moduleTimeoutMs = MODULE_TIMEOUT_MS } = context;
  const noDirectory = checkDirectory(interpreter.cwd);
  if (noDirectory.length > 0) return noDirectory;
  return [
    ...await checkFiles(checks.files, interpreter.cwd),
    ...await checkModules(checks.modules, interpreter, moduleTimeoutMs),
    ...await checkDisk(checks.minFreeDiskMb, directory),
    ...(checks.gpu && noGpu !== undefined ? [noGpu] : []),
  ];
}

function checkDirectory(cwd: string): string[] {
  const kind = kindOf(cwd);
  if (kind === "directory") return [];
  return [
    `the working directory ${cwd} is ${kind === undefined ? "not there" : "a file"}; correct metadata.worker.cwd`,
  ];
}

async function checkFiles(files: PreflightChecks["files"], cwd: string): Promise<string[]> {
  const failures: string[] = [];
  for (const { path, sha256 } of files) {
    const full = path.startsWith("/") ? path : `${cwd}/${path}`;
    try {
      const kind = kindOf(full);
      if (kind === undefined) {
        failures.push(`the file ${full} is not there; put it there or correct metadata.preflight.files`);
        continue;
      }
      if (sha256 === null) continue;
      if (kind === "directory" || kind === "other") {
        failures.push(`${full} is no file; its checksum cannot be taken: remove sha256 or name a file`);
        continue;
      }
      const found = await sha256Of(full);
      if (found !== sha256) {
        failures.push(`${full} has the SHA-256 ${found}, not ${sha256}; fetch the file again or correct the config`);
      }
    } catch (error) {
      if (isShortage(error)) throw error;
      failures.push(`the file ${full} cannot be read (${messageOf(error)}); correct its permissions`);
    }
  }
  return failures;
}

async function sha256Of(path: string): Promise<string> {
  const hash = sha256();
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path);
  } catch (error) {
    // The process's permissions do not include files that a config names; a shell may read them.
    if (error instanceof Deno.errors.NotCapable) return sha256ByShell(path);
    throw error;
  }
  for await (const chunk of file.readable) hash.update(chunk);
  return hash.digest("hex");
}

function sha256ByShell(path: string): string {
  const line = shellOutput('sha256sum <"$0"', path);
  if (line === undefined) throw new Error("sha256sum failed");
  return line.slice(0, 64);
}

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
