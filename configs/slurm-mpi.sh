#!/bin/bash
# A job of Slurm that trains on several nodes by Open MPI, over as many starts as Slurm gives it: one rank a GPU of the
# node, or a NUMA node; RANKS is another number of ranks a node. Options before its name are sbatch's, behind it those of a
# run, with --out in a folder that every start sees:
#   sbatch --nodes=4 configs/slurm-mpi.sh --config run.yaml --out runs/a
#   sbatch --nodes=2 --gpus-per-node=4 configs/slurm-mpi.sh --xpu --no-sync-bn --config run.yaml --out runs/a
# Three minutes before the limit, or where the job is preempted, the ranks save and end with code 75; the job is queued again
# then and continues, by another number of ranks too (--nodes=1-4 takes what is free). Where a node is lost, the ranks of the
# others continue from the last checkpoint; with the job's first node, Slurm queues the job again. XTRAIN names the program
# where it is not in the PATH.
#SBATCH --job-name=xtrain
#SBATCH --nodes=2
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --no-kill
#SBATCH --open-mode=append
set -u
xtrain=${XTRAIN:-xtrain}
ranks=${RANKS:-${SLURM_GPUS_ON_NODE:-$(ls -d /sys/devices/system/node/node[0-9]* 2>/dev/null | wc -l)}}
[ "$ranks" -gt 0 ] || ranks=1

hosts=$(mktemp)
trap 'rm -f "$hosts"' EXIT
asked=
trap 'asked=1; kill -USR1 $child 2>/dev/null' USR1 TERM
# Ended by a signal itself, mpirun leaves its processes twice this long.
export OMPI_MCA_odls_base_sigkill_timeout=${OMPI_MCA_odls_base_sigkill_timeout:-12}

# On the nodes in $hosts, to the ranks' end: their code.
train() {
  local code=0 last
  mpirun --bind-to none --map-by slot --hostfile "$hosts" -n $((ranks * $(wc -l <"$hosts"))) "$xtrain" "$@" --resume auto </dev/null &
  child=$!
  wait $child || code=$?
  # A signal to this script ends the wait, not mpirun.
  while [ -n "$asked" ]; do
    asked= last=0
    wait $child || last=$?
    [ $last = 127 ] || code=$last
  done
  return $code
}

# Takes the nodes out of $hosts that run nothing any more; false where all do.
lose_nodes() {
  local node slots lost=
  while read -r node slots; do
    timeout 60 srun --overlap --nodes=1 --ntasks=1 --nodelist="$node" true </dev/null >/dev/null 2>&1 && continue
    sed -i "/^$node /d" "$hosts"
    lost+=" $node"
  done < <(cat "$hosts")
  [ -n "$lost" ] && [ -s "$hosts" ] && echo "slurm-mpi.sh: lost:$lost; $(wc -l <"$hosts") node(s) continue"
}

scontrol show hostnames "$SLURM_JOB_NODELIST" | sed "s/$/ slots=$ranks/" >"$hosts"
code=0
train "$@" || code=$?
while [ $code != 0 ] && [ $code != 75 ] && lose_nodes; do
  code=0
  train "$@" || code=$?
done
if [ $code = 75 ]; then
  echo "slurm-mpi.sh: saved; job $SLURM_JOB_ID is queued again"
  scontrol requeue "$SLURM_JOB_ID" && exit 0
fi
exit $code
