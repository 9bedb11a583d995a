/**
 * `metadata.sandbox`: the worker sees the host read-only, has a /tmp and process table of its own, may write to its run
 * directory and what the config names, sees nothing else of mosaic's state, and has no network unless it asks.
 */
import { MosaicError } from "../base/errors.ts";

export interface SandboxOptions {
  /** Keep the host's network. */
  network: boolean;
  /** Further directories the worker may write to; absolute paths that exist. */
  writable: readonly string[];
}

export interface SandboxPaths {
  /** Hidden, but for what follows. */
  stateDir: string;
  /** The worker's own, writable. */
  runDir: string;
  /** Below the run directory: the journal and the error log, which the worker writes by descriptor only. */
  logsDir: string;
  /** Below the run directory: mosaic's own notes, hidden. */
  controlDir: string;
  /** Files below the state directory that the worker reads, such as its config. */
  readable: readonly string[];
  /** Where the daemon's socket is, if not in the state directory: who opens it may do everything. Hidden. */
  socketDir?: string | undefined;
  cwd: string;
  /** Device files of its GPUs, those that exist. */
  devices: readonly string[];
}

function contains(directory: string, path: string): boolean {
  return directory === "/" || path === directory || path.startsWith(`${directory.replace(/\/+$/, "")}/`);
}

/**
 * The command that runs `argv` inside the sandbox.
 *
 * Mounts are made in the order given, later ones on top: the state directory is hidden after everything that may hold
 * it, and the run's own part of it is shown again last.
 *
 * @throws MosaicError `invalid_argument` for a writable path that is not absolute.
 */
export function sandboxed(argv: readonly string[], options: SandboxOptions, paths: SandboxPaths): string[] {
  for (const path of options.writable) {
    if (!path.startsWith("/")) {
      throw new MosaicError("invalid_argument", `metadata.sandbox.writable: "${path}" is not an absolute path`);
    }
  }
  const mounts: string[] = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"];
  for (const device of paths.devices) mounts.push("--dev-bind", device, device);
  // A state directory or working directory below /tmp has just been hidden.
  if (contains("/tmp", paths.cwd) && !contains(paths.stateDir, paths.cwd)) {
    mounts.push("--ro-bind", paths.cwd, paths.cwd);
  }
  for (const path of options.writable) mounts.push("--bind", path, path);
  if (paths.socketDir !== undefined) mounts.push("--tmpfs", paths.socketDir, "--remount-ro", paths.socketDir);
  mounts.push("--tmpfs", paths.stateDir);
  mounts.push("--bind", paths.runDir, paths.runDir);
  mounts.push("--ro-bind", paths.logsDir, paths.logsDir, "--tmpfs", paths.controlDir);
  for (const path of paths.readable) mounts.push("--ro-bind", path, path);
  // The shell around the masks: nothing may be mounted or created in the emptied state directory itself.
  mounts.push("--remount-ro", paths.stateDir);
  return [
    "bwrap",
    "--unshare-user-try",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    ...(options.network ? [] : ["--unshare-net"]),
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    ...mounts,
    "--chdir",
    paths.cwd,
    "--",
    ...argv,
  ];
}
