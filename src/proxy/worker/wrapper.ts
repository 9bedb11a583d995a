/**
 * The shell between the proxy and the worker. It is why training survives the proxy's death: it
 * leads a session and a process group of its own, has files for output, and records how the worker
 * ended. The worker's data does not pass through it.
 */
import type { RunFiles } from "../../base/layout.ts";
import { CLOSE_DESCRIPTORS, type Confinement, crossing } from "../../os/rights/crossing.ts";
import { DETACHED } from "../../os/processes/shell.ts";
import { EXIT_IN_CONTROL } from "../state/exit_place.ts";
import { inodeOf } from "../../journal/journal_file.ts";

/** The wrapper found a worker file of the attempt: the worker was started already. */
export const ALREADY_STARTED = 199;
/**
 * The wrapper could not write its files (a full disk): nothing was started, and a later try may
 * succeed.
 */
export const NO_SPACE = 198;
/** A worker that could not be put under its limits is not run. */
const NO_CGROUP = 126;
/** Bytes of an exit record, padded with spaces. */
const RESERVED = 120;

/**
 * - `trap :` and not `trap ''`: the wrapper must survive a signal to its group, and a handler,
 *   unlike ignoring, is not inherited by the worker.
 * - The worker file is created exclusively (`set -C`), so that of two wrappers of one attempt only
 *   one runs the worker. A wrapper that cannot write its content removes it.
 * - The exit record's space is allocated before the worker starts, and overwritten without
 *   truncation: the end of a worker that has filled the disk is recorded nevertheless. Both files
 *   are held open: if the state directory was moved meanwhile, the record is in the unfinished file
 *   (readUnfinishedExit).
 * - The pid's start time is the 20th field after the command's name, as in
 *   src/os/processes/identity.ts.
 * - The worker's output files lose the write permission once they are open: a script that opens
 *   /dev/stdout or /dev/stderr would open them again, and `>` would truncate them
 *   (docs/explanation/architecture.md).
 * - The worker's shell puts itself into the cgroup ("0"); the wrapper stays outside, so that it
 *   outlives the group's end.
 * - The input is opened for reading and writing: a FIFO then neither blocks nor ends.
 * - A signal to the group may interrupt `mv`, so it is tried more than once; what it moves is
 *   complete in any case. A worker without a sandbox may have removed the file and put anything in
 *   the record's place, which is removed first.
 * - A status of 128 + n is signal n or the worker's own code; $? cannot tell. But a shell prints on
 *   standard error that a signal has ended a command; this output goes to a file here, with its
 *   space allocated as well. Without such output (a shell prints none for SIGINT and SIGPIPE) the
 *   status is recorded as a code. If sh is bash, it prints none in its POSIX mode, so that is
 *   turned off.
 * - It exits with the worker's status, for a parent that finds no record (a full disk).
 * - It runs with a fixed environment and working directory: it may have more rights than the worker
 *   (src/os/rights/crossing.ts).
 */
export const SCRIPT = `
trap : HUP INT QUIT TERM USR1 USR2
_mosaic_worker=$1 _mosaic_exit=$2 _mosaic_out=$3 _mosaic_err=$4 _mosaic_in=$5 _mosaic_at=$6
_mosaic_journal=$7 _mosaic_cgroup=$8 _mosaic_umask=$9
shift 9
[ -z "$BASH_VERSION" ] || { (set +o posix) 2>/dev/null && set +o posix; }
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
_mosaic_boot=boot _mosaic_stat= _mosaic_ticks=
read -r _mosaic_boot </proc/sys/kernel/random/boot_id
read -r _mosaic_stat </proc/$$/stat
_mosaic_field() { _mosaic_ticks=\${20}; }
_mosaic_field \${_mosaic_stat##*) }
set -C
if ! true >"$_mosaic_worker"; then
  [ -e "$_mosaic_worker" ] && exit ${ALREADY_STARTED}
  exit ${NO_SPACE}
fi
set +C
if ! printf '%${RESERVED}s\\n' '' >"$_mosaic_exit.tmp" ||
  ! printf '%${RESERVED}s\\n' '' >"$_mosaic_exit.said.tmp" ||
  ! printf '{"pid":%d,"identity":"%s/%s","started_at":"%s","journal":"%s","exit":"${EXIT_IN_CONTROL}"}\\n' \\
    $$ "$_mosaic_boot" "$_mosaic_ticks" "$_mosaic_at" "$_mosaic_journal" >"$_mosaic_worker"; then
  command -p rm -f "$_mosaic_exit.tmp" "$_mosaic_exit.said.tmp" "$_mosaic_worker"
  exit ${NO_SPACE}
fi
exec 2<>"$_mosaic_exit.said.tmp" 8<"$_mosaic_exit.said.tmp" 9<>"$_mosaic_exit.tmp"
(
  command -p chmod 400 /proc/self/fd/1 /proc/self/fd/2
  if [ -n "$_mosaic_cgroup" ] && ! echo 0 >"$_mosaic_cgroup/cgroup.procs"; then
    echo "mosaic: the worker cannot be put into its cgroup $_mosaic_cgroup" >&2
    exit ${NO_CGROUP}
  fi
  [ -z "$_mosaic_umask" ] || umask "$_mosaic_umask"${CLOSE_DESCRIPTORS}  exec "$@"
) \\
  0<>"$_mosaic_in" >>"$_mosaic_out" 2>>"$_mosaic_err" 8<&- 9>&-
_mosaic_raw=$?
_mosaic_code=$_mosaic_raw _mosaic_signal= _mosaic_said=
read -r _mosaic_said <&8
if [ $_mosaic_raw -gt 128 ] && [ -n "$_mosaic_said" ]; then
  _mosaic_signal=$(kill -l $((_mosaic_raw - 128)) 2>/dev/null)
  [ -n "$_mosaic_signal" ] && _mosaic_code=null _mosaic_signal=SIG$_mosaic_signal
fi
exec 2>/dev/null
command -p rm -f "$_mosaic_exit.said.tmp"
_mosaic_end=$(command -p date -u +%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
_mosaic_record=$(printf '{"code":%s,"signal":"%s","ended_at":"%s"}' \\
  "$_mosaic_code" "$_mosaic_signal" "$_mosaic_end")
printf '%-${RESERVED}s\\n' "$_mosaic_record" >&9
command -p mv -f "$_mosaic_exit.tmp" "$_mosaic_exit" || command -p mv -f "$_mosaic_exit.tmp" "$_mosaic_exit" ||
  command -p mv -f "$_mosaic_exit.tmp" "$_mosaic_exit" || {
  command -p rm -rf "$_mosaic_exit"
  printf '%s\\n' "$_mosaic_record" >"$_mosaic_exit"
}
exit $_mosaic_raw
`;

export interface WrappedCommand extends Confinement {
  argv: readonly string[];
  env: Record<string, string>;
  cwd: string;
  /** A FIFO if the worker gets control messages. */
  stdin: string | undefined;
  /** The worker's cgroup. */
  cgroup: string | undefined;
  /** Octal; "": unchanged. */
  umask: string;
}

/** @throws when no process can be created. */
export function spawnWrapper(
  files: RunFiles,
  attempt: number,
  command: WrappedCommand,
): Deno.ChildProcess {
  const { argv, env, cwd } = crossing(command.argv, command);
  return new Deno.Command("/bin/sh", {
    args: [
      "-c",
      SCRIPT,
      "mosaic-worker",
      files.workerFile(attempt),
      files.exitFile(attempt),
      files.stdout(attempt),
      files.stderr(attempt),
      command.stdin ?? "/dev/null",
      new Date().toISOString(),
      inodeOf(files.stdout(attempt)) ?? "",
      command.cgroup ?? "",
      command.umask,
      ...argv,
    ],
    cwd,
    env,
    ...DETACHED,
  }).spawn();
}
