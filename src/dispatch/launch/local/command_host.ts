/** What building a worker's command needs from the host; tests pass their own. */
import { hostEnvironment } from "../../../os/processes/environment.ts";
import { firstExecutable, kindOf } from "../../../os/files/file_kinds.ts";
import { selfCommand } from "../../../os/processes/self.ts";
import type { WorkerUser } from "../../../os/rights/worker_user.ts";
import { shellOutput } from "../../../os/processes/shell.ts";

export interface CommandHost {
  /** The daemon's environment. */
  env: Record<string, string>;
  /** The daemon's working directory. */
  cwd: string;
  isFile(path: string): boolean;
  isDirectory(path: string): boolean;
  /** Full path of a program, searched in `path` (as in PATH). */
  findProgram(name: string, path: string): string | undefined;
  /** Device files of its GPUs. */
  gpuDevices(): string[];
  /** argv prefix that runs this version of mosaic. */
  self(): string[];
}

/** @param user who is to see its files; undefined: the daemon's */
export function localHost(user?: WorkerUser): CommandHost {
  return {
    env: hostEnvironment(),
    cwd: Deno.cwd(),
    isFile: (path) => ["file", "executable"].includes(kindOf(path, user) ?? ""),
    isDirectory: (path) => kindOf(path, user) === "directory",
    findProgram: (name, path) =>
      firstExecutable(
        path.split(":").filter((directory) => directory.startsWith("/")).map((directory) =>
          `${directory}/${name}`
        ),
        user,
      ),
    gpuDevices,
    self: () => selfCommand().argv,
  };
}

/**
 * NVIDIA's, AMD's and the shared rendering nodes. The runtime lists /dev only with all permissions.
 */
function gpuDevices(): string[] {
  const names = (shellOutput("ls /dev") ?? "").split("\n");
  return names.filter((name) => /^(nvidia.*|dri|kfd)$/.test(name)).sort().map((name) =>
    `/dev/${name}`
  );
}
