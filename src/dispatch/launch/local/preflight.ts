/**
 * Checks before anything expensive starts (`metadata.preflight`): every failing one is a sentence that says what is
 * wrong and what to do. The engine faults the run with `preflight: ` and these.
 */
import { sha256 } from "../../../base/node_modules.ts";
import { messageOf } from "../../../base/errors.ts";
import { isShortage } from "../../../os/shortage.ts";
import type { RunPlan } from "../../../config/plan.ts";
import { kindOf } from "../../../os/file_kinds.ts";
import { askShell } from "../../../os/shell.ts";
import type { WorkerCommand } from "./command.ts";
import { checkModules, type ModuleCheck } from "./python_modules.ts";

export interface PreflightContext {
  command: WorkerCommand;
  /** The run's directory; it need not exist yet. */
  directory: string;
  gpuSlots: readonly number[];
  /** How long the interpreter may take to import the modules. */
  moduleTimeoutMs?: number;
}

const MODULE_TIMEOUT_MS = 120_000;
const MIB = 1024 * 1024;

/** The failures, in the order files, modules, disk, GPU; empty when the run may start. @throws trouble that passes */
export async function preflight(plan: RunPlan, context: PreflightContext): Promise<string[]> {
  const noDirectory = checkDirectory(context.command.cwd);
  if (noDirectory.length > 0) return noDirectory;
  return [
    ...await checkFiles(plan, context.command.cwd),
    ...await checkModules(modulesOf(plan), context.command, context.moduleTimeoutMs ?? MODULE_TIMEOUT_MS),
    ...await checkDisk(plan.preflight.minFreeDiskMb, context.directory),
    ...checkGpu(plan, context.gpuSlots),
  ];
}

function modulesOf(plan: RunPlan): ModuleCheck[] {
  const named = plan.preflight.modules.map((name) => ({ name, load: true }));
  // As in the original: these workers' packages are often not installed. They are looked up only, for loading takes seconds.
  const worker = plan.worker.module.split(".")[0]!;
  return /^(cleanrl|xuance)_worker/.test(worker) ? [...named, { name: worker, load: false }] : named;
}

function checkDirectory(cwd: string): string[] {
  const kind = kindOf(cwd);
  if (kind === "directory") return [];
  return [
    `the working directory ${cwd} is ${kind === undefined ? "not there" : "a file"}; correct metadata.worker.cwd`,
  ];
}

async function checkFiles(plan: RunPlan, cwd: string): Promise<string[]> {
  const failures: string[] = [];
  for (const { path, sha256 } of plan.preflight.files) {
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
    // The daemon's permissions name no file of a config's; a shell may read it.
    if (error instanceof Deno.errors.NotCapable) return sha256ByShell(path);
    throw error;
  }
  for await (const chunk of file.readable) hash.update(chunk);
  return hash.digest("hex");
}

function sha256ByShell(path: string): string {
  const line = askShell('sha256sum <"$0"', path);
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

/** MiB free to this user on the file system that holds `path`, or its nearest parent that exists. */
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

function checkGpu(plan: RunPlan, gpuSlots: readonly number[]): string[] {
  if (!plan.preflight.gpu || gpuSlots.length > 0) return [];
  return plan.resources.gpus.requested === 0
    ? ["a GPU is asked for by metadata.preflight.gpu, and the run requests none; set resources.gpus.requested"]
    : ["a GPU is asked for, and none is visible to the run; check nvidia-smi, or start the daemon with --gpus"];
}
