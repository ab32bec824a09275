#!/usr/bin/env bash
# Races that the thread sanitizer finds in a run, in the service and in ranks, by the program built with it: for `make
# test-all`. With one thread that computes: it does not know libgomp's barriers.
XTRAIN=${BUILD:-build}/san-thread/xtrain
image=$PWD/tests/fuzz/corpus/image
. tests/cli/common.sh
cd "$tree"
# Open MPI's own.
printf '%s\n' deadlock:mca_ race:mca_ mutex:mca_ >known
export TSAN_OPTIONS="exitcode=66 suppressions=$tree/known" OMP_WAIT_POLICY=passive
mkdir data
for i in $(seq 10 29); do cp "$image/ycc_444.jpg" "data/京A123${i}_x.jpg"; done
run=(--model lprnet --data data --val data --batch 6 --threads 1 --quiet)

clean() { # WHAT COMMAND...
  local what=$1 code=0
  shift
  "$@" >said 2>&1 || code=$?
  [ $code = 0 ] && ! grep -q 'WARNING: ThreadSanitizer' said || fail "$what: code $code" "$(head -n 60 said)"
}
clean 'a run' "$xtrain" "${run[@]}" --workers 3 --steps 8 --augment --ema 0.9 --cache ram --out r
clean 'a run that is resumed' "$xtrain" --resume r --steps 9 --quiet
clean 'many images on standard input' bash -c "ls data/* $image/*.jpg | '$xtrain' serve r --stdin paths --threads 1 --workers 3"

"$xtrain" serve r --listen "unix:$tree/socket" --threads 1 --workers 3 --max-latency 5ms >served 2>&1 &
server=$!
until [ -S socket ] || ! kill -0 $server; do sleep 0.1; done
for round in 1 2 3; do ls "$image"/*; done |
  xargs -P 8 -I {} curl -s -o answer --unix-socket socket --data-binary @{} http://localhost/predict || fail 'no answer' "$(cat served)"
kill -TERM $server
clean 'the service' wait $server
! grep -q 'WARNING: ThreadSanitizer' served || fail 'the service' "$(head -n 60 served)"

if command -v mpirun >/dev/null && [ -e "${xtrain%/*}/libxtrain_mpi.so" ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  clean 'two ranks' mpirun -n 2 "$xtrain" "${run[@]}" --workers 2 --steps 4 --out ranks
fi
