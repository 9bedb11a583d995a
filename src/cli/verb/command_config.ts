/** Builds the config of a run that was given as a command line. */
import { MosaicError } from "../../base/errors.ts";
import { matchesName, PASSED_ON } from "../../os/processes/inherited_environment.ts";
import { LONGEST_RUN_NAME } from "../../base/run_name.ts";

export interface CommandOptions {
  name?: unknown;
  gpus?: unknown;
  cpus?: unknown;
  /** Bytes. */
  memory?: unknown;
  /** Options for Slurm; true: only the daemon's defaults. Undefined: the run is on the daemon's host. */
  slurm?: unknown;
  /** The caller's variable, for variables that are passed on by name. */
  env(name: string): string | undefined;
  /** Variables of the caller that are passed on by default. */
  inherited?: Readonly<Record<string, string>>;
  /** The names of the other variables, which the run does not get. */
  leftOut?: readonly string[];
  /** The caller's umask, octal. */
  umask?: string | undefined;
  tag?: unknown;
  priority?: unknown;
  cwd: string;
  maxSteps?: unknown;
  /** Milliseconds. */
  maxDuration?: unknown;
  stallTimeout?: unknown;
  attempts?: unknown;
  backoff?: unknown;
  supportsPause?: unknown;
  workerId?: unknown;
  /** The fields of `metadata.queue`. */
  queue?: Record<string, unknown> | undefined;
  /** Patterns of further files to observe; false: no files are observed. */
  observe?: unknown;
  /** Makes the config unique, so that the same `mosaic run` twice gives two runs. */
  nonce: string;
}

/** `variables` are those of --env. @throws {MosaicError} `invalid_argument` for a variable that is not set. */
export function commandConfig(
  words: readonly string[],
  options: CommandOptions,
  variables: readonly string[] = [],
): Record<string, unknown> {
  const [program, ...args] = words;
  const schedule = {
    ...(options.maxSteps === undefined ? {} : { max_steps: options.maxSteps }),
    ...(options.maxDuration === undefined
      ? {}
      : { max_duration_seconds: Math.max(1, Math.ceil(Number(options.maxDuration) / 1000)) }),
    ...(options.stallTimeout === undefined ? {} : { stall_timeout_seconds: Number(options.stallTimeout) / 1000 }),
  };
  const restart = {
    ...(options.attempts === undefined ? {} : { max_attempts: options.attempts }),
    ...(options.backoff === undefined ? {} : { backoff_s: options.backoff }),
  };
  return {
    run_name: options.name ?? nameOf(words),
    entry_point: program,
    arguments: args,
    environment: { ...options.inherited, ...environmentOf(variables, options.env) },
    resources: {
      ...(options.cpus === undefined ? {} : { cpus: options.cpus }),
      ...(options.memory === undefined ? {} : { memory_mb: Math.ceil(Number(options.memory) / 2 ** 20) }),
      gpus: { requested: options.gpus ?? 0, mandatory: Number(options.gpus ?? 0) > 0 },
    },
    artifacts: {},
    ...(Object.keys(schedule).length === 0 ? {} : { schedule }),
    metadata: {
      submission: {
        by: "mosaic run",
        nonce: options.nonce,
        ...(options.leftOut === undefined || options.leftOut.length === 0 ? {} : { left_out: options.leftOut }),
      },
      ...(options.umask === undefined ? {} : { umask: options.umask }),
      ...(options.priority === undefined ? {} : { priority: options.priority }),
      ...(options.queue === undefined ? {} : { queue: options.queue }),
      ...(options.tag === undefined ? {} : { tags: options.tag }),
      ...(Object.keys(restart).length === 0 ? {} : { restart }),
      ...(options.slurm === undefined ? {} : { launcher: "slurm" }),
      ...(options.slurm === undefined || options.slurm === true ? {} : { slurm: options.slurm }),
      ...(options.observe === undefined || options.observe === true ? {} : { observe: options.observe }),
      worker: {
        script: program,
        arguments: args,
        cwd: options.cwd,
        use_grpc: false,
        ...(options.supportsPause === true ? { supports_pause: true } : {}),
        ...(options.workerId === undefined ? {} : { worker_id: options.workerId }),
      },
    },
  };
}

/** Variables by which a program's libraries and interpreter are found: the daemon's may be those of another shell. */
const PASSED_VARIABLES = [
  ...["PATH", "VIRTUAL_ENV", "CONDA_*", "PYTHON*", "PYENV_*", "UV_*", "LD_LIBRARY_PATH", "LANG", "LC_*", "TZ"],
  ...["*_NUM_THREADS", "XLA_FLAGS", "MUJOCO_GL", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER"],
];
/** Variables of the shell, the terminal and the desktop; and those that each run gets from the daemon. */
const OF_THE_SESSION = [
  ...["_", "PWD", "OLDPWD", "SHLVL", "TERM*", "COLORTERM", "COLUMNS", "LINES", "LS_COLORS", "PS1", "PS2", "HIST*"],
  ...["EDITOR", "VISUAL", "PAGER", "LESS*", "MAIL", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE", "SSH_*", "GPG_*"],
  ...["DBUS_*", "XDG_*", "XAUTHORITY", "DISPLAY", "WAYLAND_DISPLAY", "DESKTOP_SESSION", "GNOME_*", "GTK_*", "QT_*"],
  ...["KDE_*", "SESSION_MANAGER", "WINDOWID", "VTE_VERSION", "TMUX*", "STY", "VSCODE_*", "npm_*", "NVM_*", "INIT_CWD"],
  // Variables of the caller's own Slurm allocation; a job has its own.
  "SLURM_*",
  ...["INVOCATION_ID", "JOURNAL_STREAM", "MANAGERPID", "SYSTEMD_*", "SUDO_*", "HOME", "USER", "LOGNAME", "SHELL"],
  ...["TMPDIR", "NODE", "DEBIAN_FRONTEND", "MOSAIC_*", "DENO_*", "CUDA_VISIBLE_DEVICES"],
];
/** Variables of a single process. */
const OF_THE_PROCESS = ["_", "PWD", "OLDPWD", "SHLVL", "MOSAIC_*", "CUDA_VISIBLE_DEVICES"];

/**
 * The caller's variables that a run gets by default, and the names of others that a program may need.
 * @param all everything, except what belongs to the calling process, and the GPUs, which the daemon assigns
 */
export function inheritedFrom(
  env: Readonly<Record<string, string>>,
  all: boolean,
): { inherited: Record<string, string>; leftOut: string[] } {
  const is = (patterns: readonly string[], name: string) => patterns.some((pattern) => matchesName(pattern, name));
  const wanted = (name: string) => all ? !is(OF_THE_PROCESS, name) : is(PASSED_VARIABLES, name);
  const names = Object.keys(env).sort();
  return {
    inherited: Object.fromEntries(names.filter(wanted).map((name) => [name, env[name]!])),
    leftOut: all ? [] : names.filter((name) => !wanted(name) && !is(PASSED_ON, name) && !is(OF_THE_SESSION, name)),
  };
}

export function environmentOf(
  variables: readonly string[],
  env: (name: string) => string | undefined,
): Record<string, string> {
  return Object.fromEntries(variables.map((variable) => {
    const at = variable.indexOf("=");
    if (at > 0) return [variable.slice(0, at), variable.slice(at + 1)];
    const value = at === 0 ? undefined : env(variable);
    if (value !== undefined) return [variable, value];
    throw new MosaicError("invalid_argument", `--env ${variable}: it is not set here`, {
      hint: "Give NAME=VALUE, or the name of a variable of your own environment.",
    });
  }));
}

const INTERPRETER = /^(python[\d.]*|node|deno|bash|sh|ruby|julia|uv|mosaic)$/;
const SUBCOMMANDS = ["run", "-m"];

const TAKES_CODE_BY_E = /^(node|ruby|julia)$/;

/**
 * "train" for `python -u train.py --lr 1`; the program's own name if it is no interpreter, or runs code from the command
 * line.
 */
export function nameOf(words: readonly string[]): string {
  const base = (path: string) => path.split("/").filter((p) => p !== "").at(-1) ?? path;
  const program = base(words[0]!);
  const at = INTERPRETER.test(program)
    ? words.findIndex((w, i) => i > 0 && !w.startsWith("-") && !SUBCOMMANDS.includes(w))
    : -1;
  const code = TAKES_CODE_BY_E.test(program) ? /^-\w*e$/ : /^-\w*c$/;
  const script = code.test(words[at - 1] ?? "") ? undefined : words[at];
  return [...(script === undefined ? program : base(script).replace(/\.\w+$/, ""))].slice(0, LONGEST_RUN_NAME).join(
    "",
  ) || "run";
}

/**
 * The program's absolute path, as the caller's shell would find it: the daemon has another PATH and another directory.
 * Unchanged if nothing is found; the run then fails and says so.
 */
export function resolveProgram(
  program: string,
  cwd: string,
  path: string,
  isExecutable: (path: string) => boolean,
): string {
  if (program.startsWith("/")) return program;
  if (program.includes("/")) return `${cwd}/${program.replace(/^(\.\/)+/, "")}`;
  const found = path.split(":").filter((dir) => dir.startsWith("/")).map((dir) => `${dir}/${program}`);
  return found.find(isExecutable) ?? program;
}
