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
    ...Object.entries(named).flatMap(([option, value]) =>
      value === undefined ? [] : [`--${option}=${value}`]
    ),
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
 * Ends the worker of a killed proxy. The job is over then, and Slurm gives its node and GPUs to
 * others; but with proctrack/linuxproc Slurm does not find the worker, whose parent is gone. `$$`
 * is the script's process, which becomes the proxy, and its start time (the 20th field after the
 * command's name) tells it from a later process of that number. The worker's group is recognized in
 * the same way (src/proxy/worker/wrapper.ts writes the file). SIGKILL, as Slurm uses for what a
 * script leaves behind.
 */
const GUARD = `
_mosaic_ticks() { _mosaic_is=; read -r _mosaic_stat 2>/dev/null <"/proc/$1/stat" && _mosaic_field \${_mosaic_stat##*) }; }
_mosaic_field() { _mosaic_is=\${20}; }
_mosaic_guard() {
  trap '' HUP INT QUIT TERM USR1 USR2
  [ -n "$_mosaic_was" ] || exit 0
  _mosaic_ticks $$
  while [ "$_mosaic_is" = "$_mosaic_was" ]; do sleep 2; _mosaic_ticks $$; done
  read -r _mosaic_line 2>/dev/null <"$1" || exit 0
  _mosaic_pid=\${_mosaic_line#*'"pid":'} _mosaic_id=\${_mosaic_line#*'"identity":"'}
  _mosaic_pid=\${_mosaic_pid%%,*} _mosaic_id=\${_mosaic_id%%'"'*}
  case $_mosaic_pid in ''|*[!0-9]*) exit 0 ;; esac
  read -r _mosaic_boot </proc/sys/kernel/random/boot_id
  _mosaic_ticks "$_mosaic_pid"
  [ "$_mosaic_boot/$_mosaic_is" = "$_mosaic_id" ] || exit 0
  echo "mosaic: the proxy is gone and the job is over, so the worker (process group $_mosaic_pid) is killed" >&2
  kill -KILL "-$_mosaic_pid"
}
`;

/**
 * The script becomes the proxy (exec): a waiting shell would not pass Slurm's signals on. It
 * contains no secret. Until the proxy handles it, SIGUSR1 (the warning before the time limit) would
 * end it, so the script ignores it.
 * @param workerFile on the job's node
 */
export function batchScript(
  argv: readonly string[],
  env: Readonly<Record<string, string>>,
  workerFile: string,
  node?: { made: NodeFiles; logFile: string },
): string {
  const exports = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}\n`);
  const made = node === undefined ? "" : nodeScript(node.made, node.logFile);
  // Read before the guard is there: the script may have ended when the guard first looks.
  const known = "_mosaic_ticks $$\n_mosaic_was=$_mosaic_is\n";
  const guard = `${GUARD}${known}_mosaic_guard ${quoted(workerFile)} </dev/null >/dev/null &\n`;
  return `#!/bin/sh\ntrap '' USR1\n${made}${guard}${exports.join("")}exec ${
    argv.map(quoted).join(" ")
  }\n`;
}

/**
 * Only the job's user and Slurm's administrators can read the script, so it is as secret as the
 * start file.
 */
function nodeScript({ directory, directories, files }: NodeFiles, logFile: string): string {
  const lines = ["umask 077", `mkdir -p ${directories.map(quoted).join(" ")} || exit 72`];
  for (const [path, text] of Object.entries(files)) {
    lines.push(
      `cat >${quoted(path)} <<'${END}' || exit 72`,
      text.replaceAll("\r", "").replace(/\n$/, ""),
      END,
    );
  }
  // Slurm opened this file; it would stay on the node.
  lines.push(`exec >>${quoted(`${directory}/logs/job.log`)} 2>&1`, `rm -f ${quoted(logFile)}`, "");
  return lines.join("\n");
}

const END = "MOSAIC_END_OF_FILE";

function quoted(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
