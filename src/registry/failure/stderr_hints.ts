/**
 * Common causes of a failed run, recognized in the last lines of its standard error, with a hint
 * for each. Lines are searched from the newest back; within a line the first matching entry is
 * used.
 */

import { GPU_MEMORY_FULL, gpuMemoryText, readGpuMemoryFull } from "./gpu_memory.ts";

interface Cause {
  pattern: RegExp;
  /** `match[1]` and so on are the worker's text: they are shown, never run. */
  hint: (match: RegExpExecArray) => string;
}

const quoted = (text: string | undefined) => JSON.stringify((text ?? "").slice(0, 120));

const CAUSES: readonly Cause[] = [
  {
    pattern: GPU_MEMORY_FULL,
    hint: ({ input }) => {
      const { others } = readGpuMemoryFull(input);
      return others.length > 0
        ? "Others had memory of the run's GPU: mosaic gpus shows who. Use a smaller batch or model, or wait until they have ended."
        : "The GPU's memory is full. Use a smaller batch or model or fewer environments; mosaic gpus shows who else uses the GPU.";
    },
  },
  {
    pattern:
      /No CUDA GPUs are available|Found no NVIDIA driver|CUDA driver version is insufficient|not compiled with CUDA enabled|no CUDA-capable device/i,
    hint: () =>
      "The worker sees no usable GPU. Request one (resources.gpus.requested); if it did, the driver or the CUDA build of its framework does not fit.",
  },
  {
    pattern:
      /(?:unrecognized arguments|[Nn]o such option|unknown option|unexpected argument)\b.*--(?:grpc|worker-id)\b/,
    hint: () =>
      "The program does not know --grpc or --worker-id, which the original's workers get. Set metadata.worker.use_grpc to false and leave out worker_id, or let the program accept them.",
  },
  {
    pattern: /error: the following arguments are required: (.+)/,
    hint: ([, names]) =>
      `The command line lacks ${
        quoted(names)
      }: put it in the run's arguments (a worker's --config: in worker.config). ` +
      "A worker of a config also gets the original's --grpc and --worker-id, unless use_grpc is false and worker_id is left out.",
  },
  {
    pattern: /No module named ['"]?([\w.]+)['"]?/,
    hint: ([, name]) =>
      `The Python module ${
        quoted(name)
      } is not installed for the interpreter that ran the worker. Install it there, or set worker.python to another interpreter.`,
  },
  {
    pattern: /cannot import name ['"](\w+)['"] from ['"]([\w.]+)['"]/,
    hint: ([, name, module]) =>
      `${quoted(module)} is installed in a version without ${
        quoted(name)
      }. Install the version that the worker was written for.`,
  },
  {
    pattern: /DependencyNotInstalled: (.+)/,
    hint: ([, what]) =>
      `The environment needs a package that is not installed: ${what!.slice(0, 200)}`,
  },
  {
    pattern:
      /(?:NameNotFound|NamespaceNotFound|VersionNotFound|UnregisteredEnv|DeprecatedEnv)\b:?\s*(.*)/,
    hint: ([, what]) =>
      `Gymnasium knows no such environment (${
        what!.slice(0, 200).trim() || "no name given"
      }). Check its spelling and version, and that the package that registers it is installed and imported.`,
  },
  {
    pattern: /(\S+\.so(?:\.\d+)*): cannot open shared object file/,
    hint: ([, library]) =>
      `The system library ${quoted(library)} is missing. Install the package that contains it.`,
  },
  {
    pattern:
      /No space left on device|ENOSPC|\[Errno 28\]|Disk quota exceeded|database or disk is full/i,
    hint: () =>
      "The disk is full. Free space (mosaic prune removes ended runs), then: mosaic retry RUN",
  },
  {
    pattern: /Address already in use|EADDRINUSE|\[Errno 98\]/i,
    hint: () =>
      "A port that the worker wants is taken. Give each run a port of its own, or let it choose a free one.",
  },
  {
    pattern:
      /insufficient shared memory|unable to (?:open|allocate|write).*shared memory|\/dev\/shm/i,
    hint: () =>
      "Shared memory (/dev/shm) is used up. Use fewer data-loading processes, or give the container more of it (--shm-size).",
  },
  {
    pattern:
      /^\s*(?:numpy\.\S*)?MemoryError\b|ArrayMemoryError|std::bad_alloc|Cannot allocate memory|\[Errno 12\]/,
    hint: () =>
      "The worker was refused memory that it asked for: it asked for too much at a time, the host has no more, or a limit on its address space (ulimit -v) was reached. Use less, or run fewer workers at a time.",
  },
  {
    pattern: /Too many open files|EMFILE|\[Errno 24\]/,
    hint: () =>
      "The worker ran out of file descriptors. Raise the limit (ulimit -n) where the daemon is started.",
  },
  {
    pattern: /No API key|api_key not configured|wandb: ERROR .*log ?in/i,
    hint: () =>
      "Weights & Biases wants a key. Put WANDB_API_KEY into the config's environment, or WANDB_MODE=offline.",
  },
  {
    pattern:
      /No available video device|cannot connect to X server|could not connect to display|Unable to open display|GLFWError/i,
    hint: () =>
      'The worker wants a display and there is none. Render off screen (render_mode "rgb_array"), or set SDL_VIDEODRIVER=dummy or MUJOCO_GL=egl.',
  },
  {
    pattern:
      /\/dev\/(?:stdout|stderr): Permission denied|Permission denied: '\/dev\/(?:stdout|stderr)'/,
    hint: () =>
      "The worker opened /dev/stdout or /dev/stderr again, which would truncate its log. In a shell write >&1 and >&2; in a program use the open stream.",
  },
  {
    pattern: /(?:PermissionError|Permission denied|EACCES|\[Errno 13\])(?:[^'"]*['"]([^'"]+)['"])?/,
    hint: ([, path]) =>
      `The worker may not use ${
        path === undefined ? "a file or directory that it needs" : quoted(path)
      }. It runs as the daemon's user; check the owner and mode.`,
  },
  {
    pattern: /(?:^|[\s:])([^\s:]+): (?:command )?not found\s*$|command not found: (\S+)/,
    hint: ([, before, after]) =>
      `The command ${
        quoted(before ?? after)
      } is not on the worker's PATH. Install it, or give its full path.`,
  },
  {
    pattern: /^bwrap: execvp (.+): No such file or directory/,
    hint: ([, path]) =>
      `The sandbox does not show ${
        quoted(path)
      }, or an interpreter that it names: /tmp is private there. Keep the program and its environment elsewhere, such as in your home.`,
  },
  {
    pattern: /(?:FileNotFoundError|ENOENT|No such file or directory)(?:[^'"]*['"]([^'"]+)['"])?/,
    hint: ([, path]) =>
      `The worker looked for ${
        path === undefined ? "a file that is not there" : `${quoted(path)}, which is not there`
      }. Relative paths begin where the worker started: in worker.cwd, else in the present directory of mosaic run, or in the daemon's of mosaic submit.`,
  },
];

/**
 * A hint for the newest recognized cause in these lines (oldest first); undefined if there is none.
 */
export function hintFromLines(lines: readonly string[]): string | undefined {
  for (let i = lines.length - 1; i >= 0; i--) {
    // A hostile line must not make a pattern slow.
    const line = lines[i]!.slice(0, 2000);
    for (const { pattern, hint } of CAUSES) {
      const match = pattern.exec(line);
      if (match !== null) return hint(match);
    }
  }
  return undefined;
}

/**
 * What the newest recognized cause says of a full GPU: "" if it has no figures; undefined if the
 * cause is another.
 */
export function gpuMemoryFrom(lines: readonly string[]): string | undefined {
  for (let i = lines.length - 1; i >= 0; i--) {
    const line = lines[i]!.slice(0, 2000);
    if (GPU_MEMORY_FULL.test(line)) return gpuMemoryText(readGpuMemoryFull(line));
    if (CAUSES.some(({ pattern }) => pattern.test(line))) return undefined;
  }
  return undefined;
}

/** A line that ends a traceback: `RuntimeError: text`, `queue.Empty`. */
const EXCEPTION = /^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:: .*|:)?$/;
const FRAME = /^ {2}File "(.+)", line (\d+)/;
/** Code that its user did not write and is unlikely to change. */
const LIBRARY = /\/(?:site|dist)-packages\/|\/lib(?:64)?\/python[\d.]+\/|^</;

/**
 * The exception that ended a Python program, and its line in the program's own code; undefined
 * without a traceback.
 */
export function hintFromTraceback(lines: readonly string[]): string | undefined {
  for (let i = lines.length - 1; i > 0; i--) {
    const exception = lines[i]!.slice(0, 2000);
    if (!/^ {2}/.test(lines[i - 1]!) || !EXCEPTION.test(exception)) continue;
    const frames: RegExpExecArray[] = [];
    for (let j = i - 1; j >= 0 && /^ {2}/.test(lines[j]!); j--) {
      const frame = FRAME.exec(lines[j]!.slice(0, 2000));
      if (frame !== null) frames.push(frame);
    }
    if (frames.length === 0) continue;
    const [, path, line] = frames.find(([, path]) => !LIBRARY.test(path!)) ?? frames[0]!;
    return `The program ended with ${cut(exception)} (${cut(path!)}, line ${line}).`;
  }
  return undefined;
}

const cut = (text: string) => text.length > 300 ? `${text.slice(0, 299)}…` : text;
