#!/usr/bin/env bash
# xtrain bench scale: a line for each number of ranks, and mpirun's own words where it refuses.
. tests/mpi/common.sh

expect 0 'images/s times one' "$xtrain" bench scale --model lprnet --batch 8 --steps 4 --threads 1 --quiet
for ranks in 1 2; do
  grep -qE "^ +$ranks +[0-9]+\.[0-9] " <<<"$said" || fail "there is no line of $ranks ranks" "$said"
done

# The runs train in the type that was given.
expect 1 'error: --amp fp16' "$xtrain" bench scale --model lprnet --batch 8 --steps 4 --threads 1 --quiet --amp half

# Said by the fake as Open MPI does it to root: rules, then words.
mkdir bin
printf '#!/bin/sh\necho ------- >&2\necho >&2\necho "mpirun has detected an attempt to run as root." >&2\nexit 1\n' >bin/mpirun
chmod +x bin/mpirun
PATH=$PWD/bin:$PATH expect 1 'the run with 2 ranks failed: mpirun has detected an attempt to run as root.' \
  "$xtrain" bench scale --model lprnet --batch 8 --steps 4 --threads 1 --quiet
