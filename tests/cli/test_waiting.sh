#!/usr/bin/env bash
# Threads that wait spin for a short while alone, unless the user says otherwise, or OpenMP was in the process before: as
# OpenMP itself says when it is loaded.
. tests/cli/common.sh
unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME
# spins COUNT VARIABLE...
spins() {
  local want=$1
  shift
  expect 0 "GOMP_SPINCOUNT = '$want'" env OMP_DISPLAY_ENV=verbose "$@" "$xtrain" --version
}
spins 600
spins 77 GOMP_SPINCOUNT=77
spins 0 OMP_WAIT_POLICY=passive
spins 30000000000 OMP_WAIT_POLICY=active
spins 300000 LD_PRELOAD=libgomp.so.1
# In training longer, whose loops take longer.
expect 0 'they spin before they sleep as set by GOMP_SPINCOUNT=10000' "$xtrain" "${small[@]}" --steps 1 \
  --threads 2 --oversubscribe --verbose --out "$tree/a"
