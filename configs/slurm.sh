#!/bin/bash
# A job that trains to the end, over as many starts as Slurm gives it. Options before its name are sbatch's, behind it
# those of a run, with --out:
#   sbatch configs/slurm.sh --config run.yaml --out runs/a
#   sbatch --array=1-5 configs/slurm.sh --config run.yaml --out runs/a    # seeds 1 to 5, in runs/a-seed-1 and on
#   sbatch --array=1-6 configs/slurm.sh runs/sweep                        # the runs of `xtrain sweep --out runs/sweep`
# Three minutes before the limit, or where the job is preempted, xtrain gets a signal, saves and ends with code 75; the job
# is queued again then and continues, bit for bit on the same kind of node. XTRAIN names the program where it is not in the PATH.
#SBATCH --job-name=xtrain
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
set -u
xtrain=${XTRAIN:-xtrain}
job=$SLURM_JOB_ID
task=${SLURM_ARRAY_TASK_ID:-}
[ -z "$task" ] || job=${SLURM_ARRAY_JOB_ID}_$task

# The run's folder gets the seed's name.
add_seed() {
  local word out=
  command=("$xtrain")
  for word; do
    case $out$word in
    --out) out=next/ ;;
    next/*) word+=-seed-$task out=done/ ;;
    --out=*) word+=-seed-$task out=done/ ;;
    esac
    command+=("$word")
  done
  [ "$out" = done/ ] || { echo "slurm.sh: give --out DIR, the runs' folder" >&2; exit 2; }
  command+=(--seed "$task" --resume auto)
}

if [ -n "$task" ] && [ -x "${1:-}/run.sh" ]; then
  command=("$1/run.sh" "$task")
elif [ -n "$task" ]; then
  add_seed "$@"
else
  command=("$xtrain" "$@" --resume auto)
fi
code=0
srun "${command[@]}" || code=$?
if [ $code = 75 ]; then
  echo "slurm.sh: saved; job $job is queued again"
  scontrol requeue "$job" && exit 0
fi
exit $code
