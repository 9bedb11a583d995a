/** What the building of a worker's command asks of the host; tests give it a host of their own. */
import { selfCommand } from "../process/self.ts";

export interface CommandHost {
  /** The daemon's environment. */
  env: Record<string, string>;
  /** The daemon's working directory. */
  cwd: string;
  isFile(path: string): boolean;
  /** Full path of a program, looked for in `path` (as in PATH). */
  findProgram(name: string, path: string): string | undefined;
  /** Device files of its GPUs. */
  gpuDevices(): string[];
  /** argv prefix that runs this mosaic. */
  self(): string[];
}

export function localHost(): CommandHost {
  return {
    env: Deno.env.toObject(),
    cwd: Deno.cwd(),
    isFile: (path) => modeOf(path) !== undefined,
    findProgram: (name, path) =>
      path.split(":").filter((directory) => directory.startsWith("/")).map((directory) => `${directory}/${name}`)
        .find((file) => ((modeOf(file) ?? 0) & 0o111) !== 0),
    gpuDevices,
    self: selfCommand,
  };
}

/** NVIDIA's, AMD's and the shared rendering nodes. */
function gpuDevices(): string[] {
  try {
    return [...Deno.readDirSync("/dev")].map((entry) => entry.name)
      .filter((name) => /^(nvidia.*|dri|kfd)$/.test(name)).sort().map((name) => `/dev/${name}`);
  } catch {
    return [];
  }
}

/** Permission bits of a file; undefined when there is none, or none that may be looked at. */
function modeOf(path: string): number | undefined {
  try {
    const info = Deno.statSync(path);
    return info.isFile ? info.mode ?? 0 : undefined;
  } catch {
    return undefined;
  }
}
