#!/usr/bin/env bash
# A real Slurm in a network namespace of its own: configs/slurm.sh and configs/slurm-mpi.sh save at a signal, are queued again and
# come to the bits of an undisturbed run; srun starts ranks by PMIx, and tasks that are each --alone; where one of two nodes is
# lost, the other continues.
# XTRAIN_TEST_ALL=1 and root; Debian: slurmctld slurmd slurm-client.
[ -n "${XTRAIN_TEST_ALL:-}${SLURM_TEST:-}" ] || { echo 'skipped: it takes minutes: XTRAIN_TEST_ALL=1'; exit 77; }
. tests/mpi/common.sh
command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v srun >/dev/null ||
  { echo 'skipped: no Slurm (slurmctld slurmd slurm-client)'; exit 77; }
[ "$(id -u)" = 0 ] || { echo 'skipped: a Slurm of the test is started by root'; exit 77; }
if [ -z "${IN_NAMESPACE:-}" ]; then
  unshare --net --uts true 2>/dev/null || { echo 'skipped: this system lets nobody make network namespaces'; exit 77; }
  cd "$OLDPWD"
  rm -rf "$tree"
  IN_NAMESPACE=1 exec unshare --net --uts bash "$0"
fi
configs=$OLDPWD/configs
hostname xtslurm
ip link set lo up
# An address beside loopback, without which getaddrinfo gives the daemons none to listen at.
ip link add xt0 type veth peer name xt1 && ip addr add 10.233.0.1/24 dev xt0 && ip link set xt0 up
export XTRAIN=$xtrain SLURM_CONF=$tree/slurm.conf
mkdir state spool.{xtslurm,xta,xtb}
cat >slurm.conf <<END
ClusterName=xtrain
SlurmctldHost=xtslurm(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
StateSaveLocation=$tree/state
SlurmdSpoolDir=$tree/spool.%n
SlurmctldPidFile=$tree/slurmctld.pid
SlurmdPidFile=$tree/slurmd.%n.pid
SlurmctldLogFile=$tree/slurmctld.log
SlurmdLogFile=$tree/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
SchedulerParameters=bf_interval=1,sched_interval=1,requeue_delay=1
NodeName=xtslurm NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
NodeName=xta NodeHostname=xta NodeAddr=127.0.0.1 Port=17011 CPUs=1 State=UNKNOWN
NodeName=xtb NodeHostname=xtb NodeAddr=127.0.0.1 Port=17012 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=xtslurm Default=YES MaxTime=INFINITE State=UP
PartitionName=two Nodes=xta,xtb MaxTime=INFINITE State=UP
END
# in_namespace KIND PID: the processes that are in the same namespace.
in_namespace() {
  local process
  for process in /proc/[0-9]*; do
    [ "$(readlink "$process/ns/$1" 2>/dev/null)" != "$(readlink "/proc/$2/ns/$1")" ] || echo "${process#/proc/}"
  done
}
slurm_down() {
  scancel --full --signal=KILL --user=root 2>/dev/null || true
  for daemon in ./*.pid; do kill "$(cat "$daemon")" 2>/dev/null || true; done
}
trap 'slurm_down; sleep 1; kill -KILL $(in_namespace net $$ | grep -vx $$) 2>/dev/null; rm -rf "$tree"' EXIT
slurmctld >said 2>&1 && slurmd >>said 2>&1 || fail 'Slurm does not start' "$(cat said ./*.log)"
for node in xta xtb; do
  unshare --uts sh -c 'hostname "$1" && exec slurmd -N "$1"' - $node >>said 2>&1 || fail 'Slurm does not start' "$(cat said ./*.log)"
done
until [ "$(sinfo -h -N -o %t 2>/dev/null | sort -u)" = idle ]; do sleep 0.2; done

run=("${small[@]}" --threads 1 --workers 1 --save-every 5 --steps 60)

# Tasks of srun.
expect 0 '2 ranks by Open MPI' srun -n 2 --mpi=pmix "$xtrain" "${run[@]}" --steps 2 --out pmix
expect 4 'that srun started without PMIx, so that they cannot find each other: give srun --mpi=pmix' srun -n 2 "$xtrain" "${run[@]}" --steps 2 --out none
expect 0 'done: 2 steps' srun -n 2 bash -c '"$XTRAIN" "$@" --out packed-$SLURM_PROCID' - "${run[@]}" --steps 2 --alone
[ -e packed-0/last.safetensors ] && [ -e packed-1/last.safetensors ] || fail 'a packed task did not train' "$said"

# job NAME SIGNALLED SBATCH-ARGUMENTS...: the job, which gets SIGUSR1 as before its time limit once it has saved, to its end.
job() {
  local name=$1 whom=$2 id
  shift 2
  id=$(sbatch --parsable --output="$name.log" "$@")
  until ls "$name"/state-*.safetensors >/dev/null 2>&1; do
    squeue -h -j "$id" | grep -q . || fail "$name ended before it saved" "$(cat "$name.log")"
    sleep 0.1
  done
  scancel $whom --signal=USR1 "$id"
  while squeue -h -j "$id" 2>/dev/null | grep -q .; do sleep 0.5; done
  grep -q "saved; job $id is queued again" "$name.log" || fail "$name was not queued again" "$(cat "$name.log")"
  grep -q 'done: 60 steps' "$name.log" || fail "$name did not come to its end" "$(cat "$name.log")"
  diff <(record "whole-$name") <(record "$name") && same_weights "whole-$name/last.safetensors" "$name/last.safetensors" ||
    fail "$name is another run than the undisturbed one"
}
"${one[@]}" "${run[@]}" --out whole-job --quiet >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"
"${two[@]}" "${run[@]}" --out whole-ranks --quiet >said 2>&1 || fail 'the undisturbed run of two failed' "$(cat said)"
job job '' --cpus-per-task=1 "$configs/slurm.sh" "${run[@]}" --out job
RANKS=2 OMPI_MCA_odls_base_sigkill_timeout=1 job ranks --batch --nodes=1 "$configs/slurm-mpi.sh" "${run[@]}" --out ranks

# A node that goes with all that runs on it: the other continues from the checkpoint, with half the ranks.
slower=(--model lprnet --data 'synth:plates?count=48&seed=3' --batch 8 --lr 2e-5 --optim sgd --momentum 0 --sched constant --log-every 1
  --threads 1 --workers 1 --save-every 5 --steps 40)
"${one[@]}" "${slower[@]}" --out whole-lost --quiet >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"
id=$(RANKS=1 sbatch --parsable --output=lost.log --partition=two --nodes=2 "$configs/slurm-mpi.sh" "${slower[@]}" --out lost)
until ls lost/state-*.safetensors >/dev/null 2>&1; do
  squeue -h -j "$id" | grep -q . || fail 'it ended before it saved' "$(cat lost.log)"
  sleep 0.1
done
kill -KILL $(in_namespace uts "$(cat slurmd.xtb.pid)")
# Slurm does not see the end of a job on a node that is lost.
while squeue -h -t PD,CF,R -j "$id" 2>/dev/null | grep -q .; do sleep 0.5; done
grep -q 'slurm-mpi.sh: lost: xtb; 1 node(s) continue' lost.log && grep -q 'resuming from lost/state-' lost.log &&
  grep -q 'done: 40 steps' lost.log || fail 'it did not continue without the node' "$(cat lost.log)"
follows whole-lost lost 1e-4
