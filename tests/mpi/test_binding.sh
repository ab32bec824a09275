#!/usr/bin/env bash
# An affinity mask of a rank holds; where all have all CPUs, and --bind none is not given, they divide them.
. tests/mpi/common.sh
[ "$(nproc)" = 2 ] && [ "$(taskset -pc $$ | sed 's/.*: //')" = 0,1 ] || { echo 'skipped: it is written for CPUs 0 and 1'; exit 77; }
unset OMPI_MCA_rmaps_base_oversubscribe
run=(--workers 1 --model lprnet --data 'synth:plates?count=8&seed=3' --batch 4 --steps 1 --out run)
printf 'rank 0=localhost slot=1\nrank 1=localhost slot=0\n' >crossed

# bound "THREADS CPUS, THREADS CPUS" OPTIONS...: of ranks 0 and 1, in the table at the start.
bound() {
  local want=$1 code=0
  shift
  rm -rf run
  said=$("$@" 2>&1) || code=$?
  [ $code = 0 ] || fail "exit code $code from: $*" "$said"
  [ "$(awk -v h="$(hostname)" '$2 == h && $1 ~ /^[01]$/ { print $4 " " $5 ";" }' <<<"$said" | paste -sd ' ')" = "$want" ] ||
    fail "expected $want from: $*" "$said"
}

bound '1 0; 1 1;' mpirun --bind-to none -n 2 "$xtrain" "${run[@]}"
bound '1 0-1; 1 0-1;' mpirun --bind-to none -n 2 "$xtrain" "${run[@]}" --bind none
bound '1 1; 1 0;' mpirun --rankfile crossed -n 2 "$xtrain" "${run[@]}"
bound '1 1; 1 1;' mpirun --cpu-set 1 -n 2 "$xtrain" "${run[@]}"
! grep -q 'by its own default' <<<"$said" || fail 'it is said to be nobody'"'"'s binding' "$said"
bound '1 1; 1 1;' taskset -c 1 mpirun --bind-to none -n 2 "$xtrain" "${run[@]}"
bound '1 1; 1 0;' mpirun -n 1 taskset -c 1 "$xtrain" "${run[@]}" : -n 1 taskset -c 0 "$xtrain" "${run[@]}"
bound '1 0; 1 0;' mpirun -n 1 taskset -c 0 "$xtrain" "${run[@]}" : -n 1 taskset -c 0 "$xtrain" "${run[@]}"
grep -q 'mpirun binds its processes by its own default, which leaves 1 CPU of .* unused; mpirun --bind-to none' <<<"$said" ||
  fail 'the unused CPU is not named' "$said"
