#!/usr/bin/env bash
# MPICH beside Open MPI: the program loads the plug-in of the launcher, both train the same run, and MPICH's launcher hands
# signals on.
. tests/mpi/common.sh
launcher=$(type -P mpirun.mpich || true)
[ -n "$launcher" ] && [ -e "${xtrain%/*}/libxtrain_mpich.so" ] || { echo 'skipped: no MPICH beside Open MPI (mpich libmpich-dev)'; exit 77; }
run=(--model lprnet --data 'synth:plates?count=96&seed=3' --batch 8 --log-every 1)
mpich=("$launcher" -n 2 "${one[@]}")

expect 0 '2 ranks by Open MPI v' "${two[@]}" "${run[@]}" --steps 4 --out open
expect 0 '2 ranks by MPICH Version: ' "${mpich[@]}" "${run[@]}" --steps 4 --out mpich
follows open mpich 1e-5
expect 2 '--batch: 8 on rank 0' "$launcher" -n 1 "${one[@]}" "${run[@]}" --steps 4 --out other : -n 1 "${one[@]}" "${run[@]}" --batch 10 --steps 4

for signal in USR1 TERM INT; do
  "${mpich[@]}" "${run[@]}" --steps 100000 --save-every 2 --out $signal >said 2>&1 &
  child=$!
  saved $signal
  kill -$signal $child
  wait $child || true
  grep -q '; all is saved; resume with: ' said || fail "SIG$signal to mpirun: nothing was saved" "$(cat said)"
done
expect 0 'resuming from USR1/state-' "${two[@]}" --resume USR1 --max-time 0.2s
