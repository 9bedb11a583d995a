/**
 * The worker of a run with several tasks: a shell that starts one rank per task with srun, on the
 * nodes of the job, and exits as the first failed rank. Only decides.
 */
import type { RunFiles } from "../../../base/layout.ts";

export interface Tasks {
  nodes: number;
  tasksPerNode: number;
}

/**
 * One rank, as a task of the step.
 * - Rank 0 is on the job's first node, like the proxy. It opens the journal itself, so that none of
 *   its output is buffered elsewhere when a process dies. The wrapper has made the journal
 *   read-only; the coordinator allows one more opening.
 * - The rank that links its record first has failed first. A rank that was told to end has not
 *   failed; it exits with 0, because otherwise srun would kill ranks that still use their grace
 *   period.
 */
const RANK = `
_mosaic_out=$1 _mosaic_err=$2 _mosaic_in=$3 _mosaic_log=$4 _mosaic_record=$5 _mosaic_port=$6 _mosaic_tasks=$7
shift 7
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=$_mosaic_tasks
export NODE_RANK=$SLURM_NODEID GROUP_RANK=$SLURM_NODEID
export MASTER_ADDR="\${MASTER_ADDR:-$SLURM_LAUNCH_NODE_IPADDR}" MASTER_PORT="\${MASTER_PORT:-$_mosaic_port}"
_mosaic_at=$_mosaic_record-$RANK.json _mosaic_told=
trap '_mosaic_told=1' TERM
if [ "$RANK" = 0 ]; then
  exec 0<>"$_mosaic_in" >>"$_mosaic_out" 2>>"$_mosaic_err"
  command -p chmod 400 "$_mosaic_out" "$_mosaic_err"
else
  exec </dev/null >"$_mosaic_log.rank-$RANK.stdout.log" 2>"$_mosaic_log.rank-$RANK.stderr.log"
fi
_mosaic_note() {
  printf '{"rank":%d,"node":"%s"%s}\\n' "$RANK" "$SLURMD_NODENAME" "$1" >"$_mosaic_at.tmp" &&
    command -p mv -f "$_mosaic_at.tmp" "$_mosaic_at"
}
_mosaic_note ''
"$@"
_mosaic_code=$?
_mosaic_note ",\\"code\\":$_mosaic_code"
[ -z "$_mosaic_told" ] || exit 0
[ $_mosaic_code = 0 ] || command -p ln "$_mosaic_at" "$_mosaic_record-first.json" 2>/dev/null
exit $_mosaic_code
`;

/**
 * - srun leads a session of its own: a SIGTERM would make it kill the ranks at once. So the ranks
 *   are signalled with scancel.
 * - --kill-on-bad-exit: the first failed rank ends the others.
 * - Its own output goes to standard error: the journal belongs to rank 0.
 */
const COORDINATOR = `
_mosaic_rank=$1 _mosaic_nodes=$2 _mosaic_tasks=$3 _mosaic_out=$4 _mosaic_err=$5 _mosaic_in=$6 _mosaic_log=$7
_mosaic_record=$8
shift 8
command -p chmod 600 "$_mosaic_out" "$_mosaic_err"
_mosaic_port=$((10000 + SLURM_JOB_ID % 20000)) _mosaic_told=
trap '_mosaic_told=1; scancel --signal=TERM "$SLURM_JOB_ID.0"' TERM
setsid srun --export=ALL --kill-on-bad-exit=1 --wait=0 --distribution=block --input=none \\
  --nodes="$_mosaic_nodes" --ntasks=$((_mosaic_nodes * _mosaic_tasks)) --ntasks-per-node="$_mosaic_tasks" \\
  --cpus-per-task="\${SLURM_CPUS_PER_TASK:-1}" \\
  /bin/sh -c "$_mosaic_rank" mosaic-rank "$_mosaic_out" "$_mosaic_err" "$_mosaic_in" "$_mosaic_log" \\
  "$_mosaic_record" "$_mosaic_port" "$_mosaic_tasks" "$@" >&2 &
_mosaic_srun=$!
while :; do
  wait $_mosaic_srun
  _mosaic_status=$?
  kill -0 $_mosaic_srun 2>/dev/null || break
done
_mosaic_field() { command -p sed -n "s/.*\\"$1\\":\\"\\{0,1\\}\\([^\\",}]*\\).*/\\1/p" "$2"; }
_mosaic_first=$_mosaic_record-first.json
if [ -r "$_mosaic_first" ]; then
  _mosaic_status=$(_mosaic_field code "$_mosaic_first") _mosaic_who=$(_mosaic_field rank "$_mosaic_first")
  if [ "$_mosaic_who" != 0 ]; then
    echo "mosaic: rank $_mosaic_who on $(_mosaic_field node "$_mosaic_first") failed first; the end of its standard error:"
    command -p tail -n 15 "$_mosaic_log.rank-$_mosaic_who.stderr.log"
  fi >&2
elif [ -n "$_mosaic_told" ] && [ -r "$_mosaic_record-0.json" ]; then
  _mosaic_status=$(_mosaic_field code "$_mosaic_record-0.json")
fi
exit "\${_mosaic_status:-1}"
`;

/** @param controlled rank 0 reads control messages on its standard input */
export function rankedCommand(
  command: readonly string[],
  { nodes, tasksPerNode }: Tasks,
  { files, attempt, controlled }: { files: RunFiles; attempt: number; controlled: boolean },
): string[] {
  return [
    ...["/bin/sh", "-c", COORDINATOR, "mosaic-ranks", RANK, String(nodes), String(tasksPerNode)],
    ...[
      files.stdout(attempt),
      files.stderr(attempt),
      controlled ? files.stdinFifo(attempt) : "/dev/null",
    ],
    ...[files.logOf(attempt), files.rankRecord(attempt), ...command],
  ];
}
