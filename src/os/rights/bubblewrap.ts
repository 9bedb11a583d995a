/**
 * `metadata.sandbox`: the worker sees the host read-only, has its own /tmp, /run and process table,
 * can write only to its run directory and the paths named in the config, sees nothing else of
 * mosaic's state, and has no network unless configured.
 */
import { withoutTrailingSlashes } from "../../base/text/trailing_slashes.ts";
import { MosaicError } from "../../base/errors.ts";

export interface SandboxOptions {
  /** Keep the host's network. */
  network: boolean;
  /** Further directories the worker can write to; existing absolute paths. */
  writable: readonly string[];
}

export interface SandboxPaths {
  /** Hidden, except for the paths below. */
  stateDir: string;
  /** Writable. */
  runDir: string;
  /**
   * Below the run directory, read-only: mosaic writes there (the worker writes its logs through
   * inherited descriptors), so the worker must not put a link in their place.
   */
  readOnlyDirs: readonly string[];
  /** Below the run directory, hidden: mosaic's state. */
  controlDir: string;
  /**
   * Files below the state directory that the worker can read, such as its config; those that exist.
   */
  readable: readonly string[];
  /**
   * Directory of the daemon's socket, if not in the state directory: opening the socket allows
   * everything. Hidden.
   */
  socketDir?: string | undefined;
  /** `$XDG_RUNTIME_DIR`: sockets of the user's other programs. Hidden. */
  runtimeDir?: string | undefined;
  cwd: string;
  /** Existing device files of its GPUs. */
  devices: readonly string[];
}

/**
 * What programs need of /run, which is otherwise hidden: access to a socket there (Docker's, D-Bus)
 * would allow whatever its server may do.
 */
const KEPT_OF_RUN = ["/run/current-system", "/run/opengl-driver"];
/** Targets of /etc/resolv.conf. */
const RESOLVERS = [
  "systemd/resolve/stub-resolv.conf",
  "systemd/resolve/resolv.conf",
  "NetworkManager/resolv.conf",
];

function contains(directory: string, path: string): boolean {
  return directory === "/" || path === directory ||
    path.startsWith(`${withoutTrailingSlashes(directory)}/`);
}

/**
 * Directories above `below` that the worker could rename, to put its own in the place of `below`:
 * those in a writable one. Nobody can rename a directory on which something is mounted.
 */
function movable(writable: readonly string[], below: string): string[] {
  const parts = below.split("/");
  return parts.slice(2).map((_, i) => parts.slice(0, i + 2).join("/"))
    .filter((path) =>
      writable.some((one) => contains(one, path) && one.replace(/\/+$/, "") !== path)
    );
}

/**
 * The command that runs `argv` inside the sandbox.
 *
 * Later mounts cover earlier ones: the state directory is hidden after every directory that may
 * contain it, and the run's part of it is mounted last.
 *
 * @throws MosaicError `invalid_argument` for a writable path that is not absolute
 */
export function sandboxed(
  argv: readonly string[],
  options: SandboxOptions,
  paths: SandboxPaths,
): string[] {
  for (const path of options.writable) {
    if (!path.startsWith("/")) {
      throw new MosaicError(
        "invalid_argument",
        `metadata.sandbox.writable: "${path}" is not an absolute path`,
      );
    }
  }
  const mounts: string[] = [
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
    "--tmpfs",
    "/tmp",
  ];
  for (const device of paths.devices) mounts.push("--dev-bind", device, device);
  mounts.push("--tmpfs", "/run");
  const resolvers = options.network ? RESOLVERS.map((name) => `/run/${name}`) : [];
  for (const path of [...KEPT_OF_RUN, ...resolvers]) mounts.push("--ro-bind-try", path, path);
  const { runtimeDir } = paths;
  if (runtimeDir !== undefined) mounts.push("--tmpfs", runtimeDir);
  // The new directory has hidden a working directory below it.
  const hidden = ["/tmp", "/run", ...(runtimeDir === undefined ? [] : [runtimeDir])];
  if (hidden.some((path) => contains(path, paths.cwd)) && !contains(paths.stateDir, paths.cwd)) {
    mounts.push("--ro-bind", paths.cwd, paths.cwd);
  }
  for (const path of options.writable) mounts.push("--bind", path, path);
  const withheld = [paths.stateDir, ...(paths.socketDir === undefined ? [] : [paths.socketDir])];
  for (const path of withheld.flatMap((below) => movable(options.writable, below))) {
    mounts.push("--bind", path, path);
  }
  if (runtimeDir !== undefined && options.writable.some((path) => contains(path, runtimeDir))) {
    mounts.push("--tmpfs", runtimeDir);
  }
  if (paths.socketDir !== undefined) {
    mounts.push("--tmpfs", paths.socketDir, "--remount-ro", paths.socketDir);
  }
  mounts.push("--tmpfs", paths.stateDir);
  mounts.push("--bind", paths.runDir, paths.runDir);
  for (const path of paths.readOnlyDirs) mounts.push("--ro-bind", path, path);
  mounts.push("--tmpfs", paths.controlDir);
  for (const path of paths.readable) mounts.push("--ro-bind-try", path, path);
  // Make the emptied state directory read-only: nothing can be created in it.
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
