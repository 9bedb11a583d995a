#!/bin/bash
# Bring up a private single-machine Slurm cluster without systemd, as root.
# usage: slurm-up.sh [DIR]        (default $TMPDIR/mosaic-slurm)
# env:   NODES (4) GPUS per node (2) CPUS per node (8) MEM MB per node (4000)
#        BASE_PORT (26800): slurmctld BASE_PORT, slurmd i BASE_PORT+i, srun BASE_PORT+100..+299
# Idempotent: starts only what is not running.  Last stdout line: SLURM_CONF=<path>
# Writes only below DIR.  Everything binds to 127.0.0.1.
set -euo pipefail
DIR=$(readlink -m "${1:-${MOSAIC_SLURM_DIR:-${TMPDIR:-/tmp}/mosaic-slurm}}")
NODES=${NODES:-4} GPUS=${GPUS:-2} CPUS=${CPUS:-8} MEM=${MEM:-4000} BASE_PORT=${BASE_PORT:-26800}
KILLWAIT=${KILLWAIT:-10}
log() { echo "slurm-up: $*" >&2; }
[ "$(id -u)" = 0 ] || { log "must be root"; exit 2; }
trap 'log "failed at line $LINENO"; for f in "$DIR"/log/*.log; do [ -e "$f" ] && { echo "== $f"; tail -n 8 "$f"; }; done >&2' ERR

# 1. packages (.ci/run installs them)
for program in slurmctld slurmd munged sbatch; do
  command -v "$program" >/dev/null || { log "no $program: install slurmctld, slurmd, slurm-client and munge"; exit 3; }
done

# 2. directories, key, configuration
umask 022
mkdir -p "$DIR"/{etc,run,log,state,spool,munge,dev,jobs}
chmod 755 "$DIR" "$DIR"/{etc,run,log}; chmod 700 "$DIR"/{state,spool,munge}
if [ ! -s "$DIR/munge/munge.key" ]; then (umask 077; head -c 1024 /dev/urandom >"$DIR/munge/munge.key"); fi
# The daemons bind to what their own hostname resolves to; unless that is 127.0.0.1 they run
# in a private UTS namespace whose hostname is "localhost" (nothing in /etc is edited).
getent ahostsv4 localhost >/dev/null || { log "localhost does not resolve; add '127.0.0.1 localhost' to /etc/hosts"; exit 2; }
HOST=$(hostname); UTS=()
if ! getent ahostsv4 "$HOST" | grep -q '^127\.0\.0\.1 '; then
  HOST=localhost; UTS=(unshare --uts sh -c 'hostname localhost; exec "$@"' sh)
fi
CONF=$DIR/etc/slurm.conf
if [ ! -s "$CONF" ]; then
  cat >"$CONF.tmp" <<CONF
ClusterName=mosaic
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$BASE_PORT
SrunPortRange=$((BASE_PORT+100))-$((BASE_PORT+299))
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$DIR/run/munge.sock
CredType=cred/munge
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmctldPidFile=$DIR/run/slurmctld.pid
SlurmdPidFile=$DIR/run/slurmd.%n.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=5
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc=$DIR/log/jobcomp.txt
MailProg=/bin/true
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,requeue_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
DefMemPerCPU=100
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=$KILLWAIT
OverTimeLimit=0
MinJobAge=3600
MaxJobCount=2000
InactiveLimit=0
SlurmctldTimeout=10
SlurmdTimeout=20
MessageTimeout=5
ReturnToService=2
UnkillableStepTimeout=30
JobRequeue=1
SlurmdParameters=config_overrides
CONF
  nodes=n[1-$NODES]; [ "$NODES" = 1 ] && nodes=n1
  for i in $(seq "$NODES"); do
    echo "NodeName=n$i NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((BASE_PORT+i)) CPUs=$CPUS RealMemory=$MEM Gres=gpu:fake:$GPUS State=UNKNOWN" >>"$CONF.tmp"
  done
  cat >>"$CONF.tmp" <<CONF
PartitionName=main Nodes=$nodes Default=YES MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=1 OverSubscribe=NO GraceTime=5
PartitionName=high Nodes=$nodes MaxTime=INFINITE DefaultTime=60 State=UP PriorityTier=10 PreemptMode=OFF
CONF
  # Fake GPUs.  File= must be a character device or CUDA_VISIBLE_DEVICES stays unset.
  echo "AutoDetect=off" >"$DIR/etc/gres.conf"
  existing=(/dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty)
  for g in $(seq 0 $((GPUS-1))); do
    f=$DIR/dev/gpu$g; [ -c "$f" ] || { rm -f "$f"; mknod -m 666 "$f" c 1 3 2>/dev/null; } || f=${existing[$g]}
    echo "NodeName=$nodes Name=gpu Type=fake File=$f" >>"$DIR/etc/gres.conf"
  done
  # slurmd 22.05 probes /sys/fs/cgroup unless told; nothing here uses cgroups
  mountpoint -q /sys/fs/cgroup || echo "CgroupPlugin=cgroup/v1" >"$DIR/etc/cgroup.conf"
  mv "$CONF.tmp" "$CONF"
fi
export SLURM_CONF=$CONF
# The nodes do not see this directory: an empty one that nobody can write to is in its place.
NS=(); [ -z "${HIDE:-}" ] || NS=(unshare --mount sh -c 'mount -t tmpfs -o ro none "$0" && exec "$@"' "$HIDE")

# 3. daemons.  Each is recorded by pid in DIR/run/*.pid
alive() { # pidfile exe-substring
  local p; p=$(cat "$1" 2>/dev/null) && [ -n "$p" ] && [ -r "/proc/$p/cmdline" ] && tr '\0' ' ' <"/proc/$p/cmdline" | grep -q -- "$2"; }
if ! alive "$DIR/run/munged.pid" "$DIR/run/munge.sock"; then
  rm -f "$DIR/run/munge.sock" "$DIR/run/munge.sock.lock"
  munged --socket="$DIR/run/munge.sock" --key-file="$DIR/munge/munge.key" --pid-file="$DIR/run/munged.pid" \
    --log-file="$DIR/munge/munged.log" --seed-file="$DIR/munge/seed" --num-threads=4
fi
if ! alive "$DIR/run/slurmctld.pid" "$CONF"; then "${UTS[@]}" slurmctld -f "$CONF"; fi
for i in $(seq "$NODES"); do
  if ! alive "$DIR/run/slurmd.n$i.pid" "$CONF"; then mkdir -p "$DIR/spool/n$i"; "${UTS[@]}" "${NS[@]}" slurmd -N "n$i" -f "$CONF"; fi
done

# 4. wait until every node registered
deadline=$((SECONDS+45))
while [ $SECONDS -lt $deadline ]; do
  if up=$(timeout 3 sinfo -h -N -p main -o '%N %T' 2>/dev/null) && [ "$(grep -cE ' (idle|mixed|allocated|drained|draining|completing)$' <<<"$up")" = "$NODES" ]; then ok=1; break; fi
  sleep 0.2
done
if [ -z "${ok:-}" ]; then log "cluster not ready"; sinfo -N -l >&2 || true; false; fi
echo "SLURM_CONF=$CONF"
