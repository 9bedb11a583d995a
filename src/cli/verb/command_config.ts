/** Builds the config of a run that was given as a command line. */
import { MosaicError } from "../../base/errors.ts";
import { LONGEST_RUN_NAME } from "../../base/run_name.ts";

export interface CommandOptions {
  name?: unknown;
  /** A number of cards, or a part of one, between 0 and 1. */
  gpus?: unknown;
  /** MiB of each card that the run shares. */
  gpuMemoryMb?: unknown;
  cpus?: unknown;
  /** Bytes. */
  memory?: unknown;
  /**
   * Options for Slurm; true: only the daemon's defaults. Undefined: the run is on the daemon's
   * host.
   */
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
  /** Such as `eval/reward:max`. */
  objective?: unknown;
  /** Rules of `metadata.alerts`. */
  alerts?: readonly Record<string, unknown>[] | undefined;
  /** Patterns of further files to observe; false: no files are observed. */
  observe?: unknown;
  /** Artifacts that it reads. */
  uses?: unknown;
  /** "off": the run's code is not recorded. */
  code?: unknown;
  /** Makes the config unique, so that the same `mosaic run` twice gives two runs. */
  nonce: string;
}

/**
 * `variables` are those of --env. @throws {MosaicError} `invalid_argument` for a variable that is
 * not set.
 */
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
    ...(options.stallTimeout === undefined
      ? {}
      : { stall_timeout_seconds: Number(options.stallTimeout) / 1000 }),
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
      ...(options.memory === undefined
        ? {}
        : { memory_mb: Math.ceil(Number(options.memory) / 2 ** 20) }),
      gpus: gpusOf(options),
    },
    artifacts: {},
    ...(Object.keys(schedule).length === 0 ? {} : { schedule }),
    metadata: {
      submission: {
        by: "mosaic run",
        nonce: options.nonce,
        ...(options.leftOut === undefined || options.leftOut.length === 0
          ? {}
          : { left_out: options.leftOut }),
      },
      ...(options.umask === undefined ? {} : { umask: options.umask }),
      ...(options.priority === undefined ? {} : { priority: options.priority }),
      ...(options.queue === undefined ? {} : { queue: options.queue }),
      ...(options.tag === undefined ? {} : { tags: options.tag }),
      ...(Object.keys(restart).length === 0 ? {} : { restart }),
      ...(options.slurm === undefined ? {} : { launcher: "slurm" }),
      ...(options.slurm === undefined || options.slurm === true ? {} : { slurm: options.slurm }),
      ...(options.alerts === undefined ? {} : { alerts: options.alerts }),
      ...(options.objective === undefined ? {} : { objective: options.objective }),
      ...(options.observe === undefined || options.observe === true
        ? {}
        : { observe: options.observe }),
      ...(options.uses === undefined ? {} : { uses: options.uses }),
      ...(options.code === undefined ? {} : { code: options.code }),
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

function gpusOf({ gpus = 0, gpuMemoryMb }: CommandOptions): Record<string, unknown> {
  const wanted = Number(gpus);
  const isPart = wanted > 0 && wanted < 1;
  const requested = isPart || (gpuMemoryMb !== undefined && wanted === 0) ? 1 : wanted;
  return {
    requested,
    mandatory: requested > 0,
    ...(isPart ? { share: wanted } : {}),
    ...(gpuMemoryMb === undefined ? {} : { memory_mb: gpuMemoryMb }),
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
 * "train" for `python -u train.py --lr 1`; the program's own name if it is no interpreter, or runs
 * code from the command line.
 */
export function nameOf(words: readonly string[]): string {
  const base = (path: string) => path.split("/").filter((p) => p !== "").at(-1) ?? path;
  const program = base(words[0]!);
  // `env NAME=VALUE PROGRAM …`
  const behind = program === "env" ? words.slice(1).findIndex((w) => !/^-|=/.test(w)) : -1;
  if (behind >= 0) return nameOf(words.slice(1 + behind));
  const at = INTERPRETER.test(program)
    ? words.findIndex((w, i) => i > 0 && !w.startsWith("-") && !SUBCOMMANDS.includes(w))
    : -1;
  const code = TAKES_CODE_BY_E.test(program) ? /^-\w*e$/ : /^-\w*c$/;
  const script = code.test(words[at - 1] ?? "") ? undefined : words[at];
  return [...(script === undefined ? program : base(script).replace(/\.\w+$/, ""))].slice(
    0,
    LONGEST_RUN_NAME,
  ).join(
    "",
  ) || "run";
}

/**
 * The program's absolute path, as the caller's shell would find it: the daemon has another PATH and
 * another directory. Unchanged if nothing is found; the run then fails and says so.
 */
export function resolveProgram(
  program: string,
  cwd: string,
  path: string,
  isExecutable: (path: string) => boolean,
): string {
  if (program.startsWith("/")) return program;
  if (program.includes("/")) return `${cwd}/${program.replace(/^(\.\/)+/, "")}`;
  const found = path.split(":").filter((dir) => dir.startsWith("/")).map((dir) =>
    `${dir}/${program}`
  );
  return found.find(isExecutable) ?? program;
}
