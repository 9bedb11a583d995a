/** `mosaic run -- COMMAND` */
import { type Command, InvalidArgumentError } from "commander";
import { resolve } from "node:path";
import { messageOf, MosaicError } from "../../../base/errors.ts";
import { OBJECTIVE_FORM, objectiveOf } from "../../../records/objective.ts";
import { parseBytes, parseDuration } from "../../../base/text/format.ts";
import { slurmFieldsOf } from "../../../config/slurm_fields.ts";
import { manual } from "../../verb/verb_parser.ts";
import type { Link } from "../../link/daemon_link.ts";
import type { HostResponse } from "../../../gen/mosaic/v1/mosaic_pb.ts";
import type { Context } from "../../link/context.ts";
import { escapeControl } from "../../text/text.ts";
import { inheritedFrom } from "../../verb/caller_environment.ts";
import { commandConfig, resolveProgram } from "../../verb/command_config.ts";
import {
  bytesValue,
  codeOption,
  connectionFlags,
  connectionOptions,
  decimal,
  durationValue,
  outputOption,
  repeated,
  wholeNumber,
} from "../../verb/flags.ts";
import { queueFields, queueOptions } from "../../verb/queue_flags.ts";
import { offerDaemon } from "../../link/offer_daemon.ts";
import { FOLLOW_EXITS, snapshot, submit } from "./submit.ts";

export function define(command: Command, context: Context, result: { code: number }): void {
  command
    .description(
      "Submits a command as a training run, without a config file. What it prints as JSON lines, key=value pairs or " +
        "Stable-Baselines3's tables becomes its metrics. It starts in the current directory. Each call is a new run. " +
        "Prints the run's id.",
    )
    .usage("[options] -- COMMAND [ARGUMENTS]")
    // Everything after the program's name belongs to the program, with or without "--".
    .passThroughOptions()
    .argument("<command...>", "the program and its arguments")
    .option(
      "-f, --follow",
      "print its output and events until it has ended; exit code by its outcome",
    );
  submits(runOptions(command), context, result);
}

/** Options of runs that are given as commands: those of sweeps, too. */
export function runOptions(command: Command): Command {
  return command
    .option("-n, --name <name>", "name of the run (default: from the command)")
    .option(
      "--gpus <n>",
      "number of GPU slots required, or a part of one, as 0.25: other runs may have the rest",
      gpusValue,
    )
    .option(
      "--gpu-memory <size>",
      "share cards: memory of each that the run needs, as 6G; more is an alert, and with :pause or :cancel also that",
      gpuMemoryValue,
    )
    .option(
      "--cpus <n>",
      "CPUs; enforced where the daemon has --cgroup-parent, or by Slurm",
      wholeNumber(1),
    )
    .option(
      "--memory <size>",
      "memory, such as 16G, at least 256M; enforced as --cpus is",
      memoryValue,
    )
    .option(
      "--slurm [fields]",
      "Slurm places the run; fields are those of metadata.slurm, such as partition=gpu,time=720 (default: the daemon's --slurm)",
      slurmValue,
    )
    .option(
      "-e, --env <name=value>",
      "environment variable; NAME alone passes your value on",
      repeated,
    )
    .option("--env-all", "pass on your whole environment; it is stored with the run")
    .option("-t, --tag <tag>", "tag (repeatable)", repeated)
    .option(
      "--priority <n>",
      "priority; higher starts earlier (default: 0)",
      wholeNumber(-1_000_000),
    )
    .option("--cwd <dir>", "working directory (default: the current directory)")
    .option("--max-steps <n>", "maximum number of steps", wholeNumber(1))
    .option("--max-duration <duration>", "maximum running time, such as 90m", durationValue)
    .option(
      "--stall-timeout <duration>",
      "fail the run after this long without output",
      durationValue,
    )
    .option(
      "--min-gpu-util <rule>",
      "alert if its GPUs are used less, as 10%/1h; with :pause or :cancel also that",
      gpuUseValue,
    )
    .option("--attempts <n>", "maximum number of attempts if the run fails", wholeNumber(1))
    .option(
      "--backoff <seconds>",
      "delay before the second attempt, doubled for each further one",
      decimal(0),
    )
    .option(
      "--supports-pause",
      "the program accepts pause and resume as JSON lines on standard input",
    )
    .option("--worker-id <id>", "worker's name in log files and records")
    .option(
      "--objective <metric>",
      "the number by which the run is judged, as eval/reward:max (or :min, :last, :mean)",
      objectiveValue,
    )
    .option(
      "--observe <glob>",
      "also read tracker files of this pattern (repeatable; see docs/reference/formats.md)",
      repeated,
    )
    .option(
      "--uses <artifact>",
      "an artifact that it reads, as RUN:PATH or NAME:ALIAS (repeatable)",
      repeated,
    )
    .option("--no-observe", "read no files of trackers, only what the program prints");
}

function submits(command: Command, context: Context, result: { code: number }): void {
  command.addOption(codeOption()).option(
    "--snapshot",
    "start from a copy of the repository's files as they are now, removed with the run",
  ).option("--dry-run", "print the config instead of submitting it");
  connectionOptions(outputOption(queueOptions(command), ["table", "json", "jsonl"]))
    .addHelpText(
      "after",
      manual({
        examples: [
          [
            "mosaic run --follow -- python train.py --lr 3e-4",
            "train, print its output, exit by the outcome",
          ],
          [
            "mosaic run --gpus 1 --name sweep-7 --tag sweep -e SEED -- ./train.sh",
            "wait for a free GPU slot",
          ],
          [
            "mosaic run --gpu-memory 6G -- python train.py",
            "one GPU, shared with runs that declare the rest",
          ],
          [
            "mosaic run --slurm partition=gpu,time=720 --gpus 1 -- python train.py",
            "on a node of Slurm",
          ],
          [
            "mosaic run --after prepare --begin 18:00 -- python train.py",
            "when run prepare has ended well, tonight",
          ],
          [
            "mosaic run --attempts 3 --max-duration 8h -- python train.py",
            "retry failures, with a limit",
          ],
        ],
        exits: { ...FOLLOW_EXITS, 4: "no such program or working directory" },
      }),
    )
    .action(async (words: string[], flags: Record<string, unknown>) => {
      const { config, here, missing, variables } = configOf(
        words,
        flags,
        context,
        crypto.randomUUID(),
      );
      if (flags["dryRun"] === true) {
        warnOfLeftOut(missing, context);
        context.out.write(`${JSON.stringify(config, null, 2)}\n`);
        return;
      }
      if (here) await offerDaemon(context, connectionFlags(flags));
      const choosesGpus = (flags["gpus"] ?? flags["gpuMemory"]) !== undefined ||
        flags["slurm"] !== undefined ||
        variables.some((v) => /^CUDA_VISIBLE_DEVICES\b/.test(v));
      const configJson = JSON.stringify(config);
      const code = flags["snapshot"] === true
        ? await snapshot(context, configJson, flags)
        : { configJson };
      result.code = await submit(context, code.configJson, flags, {
        ...code,
        before: async (link) => {
          if (!choosesGpus) warnOfUnusedGpus(await link.unary(link.methods.getHost, {}), context);
          if (missing.length > 0 && !await wasWarned(missing, link)) {
            warnOfLeftOut(missing, context);
          }
          warnOfContainer(words, context);
        },
      });
    });
}

/** "2": whole cards; "0.25": a part of one. */
function gpusValue(text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if ((Number.isSafeInteger(value) && value >= 0) || (value > 0 && value < 1)) return value;
  throw new InvalidArgumentError(
    "It must be a number of GPUs, or a part of one between 0 and 1, such as 0.25.",
  );
}

interface GpuMemory {
  mb: number;
  then: string | undefined;
}

/** "6G", "6G:cancel". */
function gpuMemoryValue(text: string): GpuMemory {
  const [, size = "", then] = /^(.*?)(?::(pause|cancel))?$/s.exec(text) ?? [];
  const mb = Math.ceil((parseBytes(size) ?? 0) / 2 ** 20);
  if (mb >= 64) return { mb, then };
  throw new InvalidArgumentError(
    "It must be a size of at least 64M, as 6G, and may end with :pause or :cancel.",
  );
}

/** What the run does if it takes more of a card than it has declared. */
function overRule({ then }: GpuMemory): Record<string, unknown>[] {
  return then === undefined ? [] : [{ when: "gpu_memory", value: 100, then }];
}

/** "10%/1h", "5%/15m:cancel": an alert rule. */
function gpuUseValue(text: string): Record<string, unknown> {
  const [, percent, time, then] =
    /^(\d+(?:\.\d+)?)%\/(\w+?)(?::(tell|pause|cancel))?$/.exec(text) ?? [];
  const ms = time === undefined ? undefined : parseDuration(time);
  if (ms === undefined || ms <= 0 || Number(percent) <= 0 || Number(percent) > 100) {
    throw new InvalidArgumentError(
      "It must be a share and a time, as 10%/1h, and may end with :pause or :cancel.",
    );
  }
  return {
    when: "gpu_idle",
    value: Number(percent),
    seconds: ms / 1000,
    ...(then === undefined ? {} : { then }),
  };
}

/**
 * The config of a run that is given as a command.
 * @param nonce makes it differ from the configs of other runs
 * @throws MosaicError `not_found`, `invalid_argument` for a program or directory of this host
 */
export function configOf(
  words: readonly string[],
  flags: Record<string, unknown>,
  context: Context,
  nonce: string,
) {
  const cwd = resolve(String(flags["cwd"] ?? "."));
  const gpuMemory = flags["gpuMemory"] as GpuMemory | undefined;
  const alerts = [
    ...flags["minGpuUtil"] === undefined ? [] : [flags["minGpuUtil"] as Record<string, unknown>],
    ...gpuMemory === undefined ? [] : overRule(gpuMemory),
  ];
  const program = resolveProgram(words[0]!, cwd, context.env("PATH") ?? "", isExecutable);
  const variables = flags["env"] as string[] | undefined ?? [];
  // Another host has its own paths, users and programs.
  const here = flags["target"] === undefined && !context.env("MOSAIC_TARGET");
  const all = flags["envAll"] === true;
  const { inherited, leftOut } = inheritedFrom(here || all ? context.variables() : {}, all);
  const given = variables.map((variable) => variable.split("=", 1)[0]!);
  const missing = leftOut.filter((name) => !given.includes(name));
  const config = commandConfig([program, ...words.slice(1)], {
    ...flags,
    queue: queueFields(flags),
    gpuMemoryMb: gpuMemory?.mb,
    alerts: alerts.length === 0 ? undefined : alerts,
    cwd,
    nonce,
    env: context.env,
    inherited,
    leftOut: missing,
    umask: here ? Deno.umask().toString(8).padStart(3, "0") : undefined,
  }, variables);
  if (here && flags["dryRun"] !== true) {
    requireDirectory(cwd);
    requireProgram(program, words[0]!);
  }
  return { config, here, missing, variables };
}

function objectiveValue(text: string): string {
  if (objectiveOf(text) !== undefined) return text;
  throw new InvalidArgumentError(`It must be ${OBJECTIVE_FORM}.`);
}

/** The least value of `resources.memory_mb` (src/config/schema.ts). */
const LEAST_MEMORY_BYTES = 256 << 20;

function memoryValue(text: string): number {
  const bytes = bytesValue(text);
  if (bytes >= LEAST_MEMORY_BYTES) return bytes;
  throw new InvalidArgumentError("It must be at least 256M.");
}

function slurmValue(text: string): Record<string, string | number> {
  try {
    return slurmFieldsOf(text);
  } catch (error) {
    throw new InvalidArgumentError(`${messageOf(error)}.`);
  }
}

const MOST_NAMES = 24;

/** A program may depend on a variable without saying so. */
export function warnOfLeftOut(names: readonly string[], context: Context): void {
  if (names.length === 0) return;
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : "";
  const which = `${escapeControl(names.slice(0, MOST_NAMES).join(", "))}${more}`;
  context.err.write(
    `mosaic: the run does not get ${which} of your environment: secrets, and what would change every program ` +
      "(-e NAME passes one on, --env-all all; they are stored with the run)\n",
  );
}

/** What a container engine runs is no process of the client that the run starts. */
function warnOfContainer([program, verb]: readonly string[], context: Context): void {
  const engine = program!.slice(program!.lastIndexOf("/") + 1);
  if (
    !["docker", "podman", "nerdctl"].includes(engine) ||
    !["run", "exec", "start"].includes(verb ?? "")
  ) return;
  context.err.write(
    `mosaic: the container is a process of ${engine}'s, not of this run. A cancelled run ends the ${engine} client, and the ` +
      "container may run on; let mosaic proxy be its entry point instead (mosaic docs containers)\n",
  );
}

/**
 * Whether the newest run did not get them either: then the warning was printed when it was
 * submitted.
 */
async function wasWarned(names: readonly string[], link: Link): Promise<boolean> {
  try {
    const { configJson } = await link.unary(link.methods.getRun, { run: "@last" });
    const before: unknown = JSON.parse(configJson).metadata?.submission?.left_out;
    return Array.isArray(before) && names.every((name) => before.includes(name));
  } catch (error) {
    // There is no run, or this caller may not see it.
    if (error instanceof MosaicError && ["not_found", "permission_denied"].includes(error.code)) {
      return false;
    }
    throw error;
  }
}

/** A program without a visible GPU trains on the CPU, often without a message. */
function warnOfUnusedGpus({ gpus }: HostResponse, context: Context): void {
  if (gpus.length === 0) return;
  const slots = gpus.length === 1 ? "a GPU slot" : `${gpus.length} GPU slots`;
  context.err.write(
    `mosaic: the host has ${slots}, and this run asks for none: it sees no GPU (--gpus 1 asks for one, --gpus 0 says that none is meant)\n`,
  );
}

/** @throws MosaicError `not_found`; `invalid_argument` for a file */
function requireDirectory(cwd: string): void {
  const info = infoOf(cwd);
  if (info === "missing") {
    throw new MosaicError("not_found", `--cwd ${cwd}: there is no such directory`);
  }
  if (info !== undefined && !info.isDirectory) {
    throw new MosaicError("invalid_argument", `--cwd ${cwd}: this is a file, not a directory`);
  }
}

/** What there is at a path; undefined if the caller may not see it: the daemon's user may. */
function infoOf(path: string): Deno.FileInfo | "missing" | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    const missing = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory;
    return missing ? "missing" : undefined;
  }
}

const INTERPRETERS: Record<string, string> = {
  py: "python",
  sh: "sh",
  jl: "julia",
  rb: "ruby",
  js: "node",
  R: "Rscript",
};

/**
 * @param program result of `resolveProgram`
 * @param word as the user gave it
 * @throws MosaicError `not_found`; `invalid_argument` for a directory or a file that is not
 * executable
 */
function requireProgram(program: string, word: string): void {
  if (program.startsWith("mosaic:")) return;
  if (!program.startsWith("/")) {
    throw new MosaicError("not_found", `${program}: there is no such program in PATH`, {
      hint: "Give its path, as in ./train.sh, or its interpreter, as in python train.py.",
    });
  }
  const info = infoOf(program);
  if (info === undefined) return;
  if (info === "missing") {
    throw new MosaicError("not_found", `${program}: there is no such program`);
  }
  if (info.isDirectory) {
    throw new MosaicError("invalid_argument", `${program}: this is a directory, not a program`);
  }
  if (((info.mode ?? 0o111) & 0o111) !== 0) return;
  const interpreter = INTERPRETERS[/\.(\w+)$/.exec(program)?.[1] ?? ""];
  const named = interpreter === undefined
    ? "name its interpreter"
    : `name its interpreter: ${interpreter} ${word}`;
  throw new MosaicError("invalid_argument", `${program}: this file is not executable`, {
    hint: `Make it executable: chmod +x ${word}; or ${named}`,
  });
}

function isExecutable(path: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(path);
    return isFile && ((mode ?? 0o111) & 0o111) !== 0;
  } catch {
    return false;
  }
}
