/**
 * A worker's command wrapped in bubblewrap: everything readable is read-only, the state directory of mosaic (databases,
 * tokens, other runs) is not there at all, /tmp is its own, only the run's directory can be written, and there is no
 * network unless the config asks for it.
 */
import type { RunPlan } from "../config/plan.ts";

export interface SandboxContext {
  plan: RunPlan["sandbox"];
  /** Path of bwrap. */
  bubblewrap: string;
  stateDir: string;
  /** The run's directory. */
  directory: string;
  /** Paths that must stay readable although they may lie in what is hidden. */
  readable: string[];
  cwd: string;
}

/** Devices that computations need; those that the host lacks are left out. */
const DEVICES = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/dri", "/dev/kfd"];
const NVIDIA_GPUS = 8;

export function sandboxed(argv: string[], context: SandboxContext): string[] {
  const { plan, stateDir, directory } = context;
  const gpus = Array.from({ length: NVIDIA_GPUS }, (_, i) => `/dev/nvidia${i}`);
  return [
    context.bubblewrap,
    ...["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"],
    ...[...DEVICES, ...gpus].flatMap((device) => ["--dev-bind-try", device, device]),
    // A later mount covers an earlier one: what must be readable below /tmp comes before the state directory is hidden.
    ...["--tmpfs", "/tmp"],
    ...readOnly(context.readable.filter((path) => isBelow(path, "/tmp") && !isBelow(path, stateDir))),
    ...["--tmpfs", stateDir],
    ...readOnly(context.readable.filter((path) => isBelow(path, stateDir) && path !== stateDir)),
    ...[directory, ...plan.writable].flatMap((path) => ["--bind", path, path]),
    ...(plan.network ? [] : ["--unshare-net"]),
    ...["--unshare-ipc", "--unshare-uts", "--chdir", context.cwd, "--"],
    ...argv,
  ];
}

function readOnly(paths: string[]): string[] {
  return paths.flatMap((path) => ["--ro-bind", path, path]);
}

function isBelow(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`);
}
