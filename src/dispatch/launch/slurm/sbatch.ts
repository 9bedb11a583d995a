/** The Slurm job of a run: options of sbatch, and the script. Pure. */
import type { RunPlan } from "../../../config/plan.ts";
import type { NodeFiles } from "../engine/launcher.ts";

export interface Batch {
  name: string;
  comment: string;
  /** Output of the script and the proxy before the proxy has its own log. */
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
    // If a config leaves them open, such as one of `mosaic run`, Slurm's own defaults apply.
    "cpus-per-task": cpus ?? undefined,
    mem: memoryMb === null ? undefined : `${memoryMb}M`,
  };
  return [
    // A job that Slurm requeues by itself would be an attempt that mosaic does not count.
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
 * The script becomes the proxy (exec): a waiting shell would not pass Slurm's signals on. It contains no secret. Until the
 * proxy handles it, SIGUSR1 (the warning before the time limit) would end it, so the script ignores it.
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

/** Only the job's user and Slurm's administrators can read the script, so it is as secret as the start file. */
function nodeScript({ directory, directories, files }: NodeFiles, logFile: string): string {
  const lines = ["umask 077", `mkdir -p ${directories.map(quoted).join(" ")} || exit 72`];
  for (const [path, text] of Object.entries(files)) {
    lines.push(`cat >${quoted(path)} <<'${END}' || exit 72`, text.replaceAll("\r", "").replace(/\n$/, ""), END);
  }
  // Slurm opened this file; it would stay on the node.
  lines.push(`exec >>${quoted(`${directory}/logs/job.log`)} 2>&1`, `rm -f ${quoted(logFile)}`, "");
  return lines.join("\n");
}

const END = "MOSAIC_END_OF_FILE";

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
