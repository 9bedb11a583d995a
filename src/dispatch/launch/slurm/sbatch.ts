/** The job that Slurm is given for a run: options of sbatch, and the script. Pure. */
import type { RunPlan } from "../../../config/plan.ts";
import type { NodeFiles } from "../launcher.ts";

export interface Batch {
  name: string;
  comment: string;
  /** What the script and the proxy print before the proxy has its log. */
  logFile: string;
  script: string;
}

export function sbatchOptions(plan: RunPlan, { name, comment, logFile, script }: Batch): string[] {
  const { fields, nodes, tasksPerNode } = plan.slurm;
  const { partition, account, qos, time, constraint, gres, extra, warn_seconds } = fields;
  const { cpus, memoryMb, gpus } = plan.resources;
  const named = {
    partition,
    account,
    qos,
    time,
    constraint,
    signal: warn_seconds !== undefined ? `B:USR1@${warn_seconds}` : undefined,
    gres: gres ?? (gpus.requested > 0 ? `gpu:${gpus.requested}` : undefined),
    // Of a config that leaves them open, as those of `mosaic run`, Slurm's own defaults hold.
    "cpus-per-task": cpus ?? undefined,
    mem: memoryMb === null ? undefined : `${memoryMb}M`,
  };
  return [
    // A job that Slurm put back by itself would be an attempt that nobody has counted.
    ...["--parsable", "--no-requeue", "--export=NONE", "--open-mode=append", "--chdir=/"],
    ...[`--nodes=${nodes}`, `--ntasks-per-node=${tasksPerNode}`],
    ...Object.entries(named).flatMap(([option, value]) => value === undefined ? [] : [`--${option}=${value}`]),
    ...[`--job-name=${name}`, `--comment=${comment}`, `--output=${literal(logFile)}`],
    ...(extra ?? []),
    script,
  ];
}

/** sbatch replaces % in names of files. */
function literal(path: string): string {
  return path.replaceAll("%", "%%");
}

/**
 * The script becomes the proxy: a shell that waits would keep Slurm's signals from it. Nothing in it is secret. Until the
 * proxy listens, the warning before the time limit (SIGUSR1) would end it.
 */
export function batchScript(
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
  node?: { made: NodeFiles; logFile: string },
): string {
  const exports = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}\n`);
  const made = node === undefined ? "" : nodeScript(node.made, node.logFile);
  return `#!/bin/sh\ntrap '' USR1\n${made}${exports.join("")}exec ${argv.map(quoted).join(" ")}\n`;
}

/** Slurm keeps scripts where their user and its own administrators read them: here, one is as secret as the start file. */
function nodeScript({ directory, directories, files }: NodeFiles, logFile: string): string {
  const lines = ["umask 077", `mkdir -p ${directories.map(quoted).join(" ")} || exit 72`];
  for (const [path, text] of Object.entries(files)) {
    lines.push(`cat >${quoted(path)} <<'${END}' || exit 72`, text.replaceAll("\r", "").replace(/\n$/, ""), END);
  }
  // What Slurm has opened for it would stay on the node.
  lines.push(`exec >>${quoted(`${directory}/logs/job.log`)} 2>&1`, `rm -f ${quoted(logFile)}`, "");
  return lines.join("\n");
}

const END = "MOSAIC_END_OF_FILE";

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
