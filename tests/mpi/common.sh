# What the scripts of this folder share; sourced by them from the root of the tree.
. tests/cli/common.sh
command -v mpirun >/dev/null && [ -e "$(dirname "$xtrain")/libxtrain_mpi.so" ] ||
  { echo 'skipped: no MPI: run "make test-mpi"'; exit 77; }
cd "$tree"

# As root, and with more ranks than CPUs, where the tests run so.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
# A rank that waits gives its CPU away where there are more ranks than CPUs.
export OMPI_MCA_mpi_yield_when_idle=1
one=("$xtrain" --threads 1 --workers 1)
ranks() { # N: the command that starts N
  echo mpirun -n "$1" "${one[@]}"
}
read -ra two <<<"$(ranks 2)"

# follows A B MOST: no loss of run B is further from run A's than this part of it, and there are as many.
follows() {
  paste -d ' ' <(losses "$1") <(losses "$2") | awk -v most="$3" -v a="$1" -v b="$2" '
    { d = $2 - $4; d = (d < 0 ? -d : d) / $2; if (d > worst) worst = d
      if (NF != 4 || $1 != $3) bad = 1 }
    END { printf "%s follows %s to %.1e over %d steps\n", b, a, worst, NR
          exit bad || NR == 0 || !(worst <= most) }' || fail "$2 does not follow $1 to $3" "$(losses "$1")" "$(losses "$2")"
}

# No script of this folder limits the time of the clock, which says nothing on a busy machine: one that hangs is ended by
# what runs it (TEST_TIMEOUT).

# saved RUN: waits until the run of the mpirun in the background has a checkpoint.
saved() {
  until ls "$1"/state-*.safetensors >/dev/null 2>&1; do
    kill -0 "$child" 2>/dev/null || fail "$1 ended before it saved" "$(cat said)"
    sleep 0.1
  done
}

# pid_of RANK RUN: the process that is this rank of the run.
pid_of() {
  local pid
  for pid in $(pgrep -x xtrain); do
    # Without a pipe: what writes into one is killed where grep has seen enough, which looked like no match.
    grep -zqx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" 2>/dev/null &&
      grep -zqF -- "$2" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid" && return
  done
  fail "no rank $1 of $2 runs" "$(cat said)"
}

# ends CODE TEXT: the mpirun in the background exits with the code and printed this.
ends() {
  local code=0
  wait "$child" || code=$?
  [ "$code" = "$1" ] || fail "expected exit code $1, got $code" "$(cat said)"
  grep -qF -- "$2" said || fail "expected \"$2\"" "$(cat said)"
}
