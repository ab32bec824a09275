#!/usr/bin/env bash
# Two ranks on a GPU train as two ranks on the CPU do. On one GPU: a rank has a share of the CPUs, of which the double's
# two would be made. Run through double.sh.
. tests/xpu/common.sh
needs_double
command -v mpirun >/dev/null && [ -e "$build/libxtrain_mpi.so" ] || { echo 'skipped: no MPI: run "make deps MPI=1" and "make"'; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1
run=(mpirun -n 2 "$xtrain" "${small[@]:0:2}" --data 'synth:shapes?count=24&seed=3' --batch 4 --steps 3 --log-every 1 --threads 1
  --optim sgd --momentum 0 --lr 1e-2 --sched constant --dropout 0 --no-sync-bn)

code=0
"${run[@]}" --device xpu:0 --out "$work/gpus" >"$work/said" 2>&1 || code=$?
[ "$code" = 0 ] || fail "two ranks on a GPU: code $code"
grep -q '^  0 .*xpu:0' "$work/said" && grep -q '^  1 .*xpu:0' "$work/said" || fail 'a rank is not on the GPU'
"${run[@]}" --out "$work/cpus" >"$work/said" 2>&1 || fail 'two ranks on the CPU'
paste -d ' ' <(losses "$work/cpus") <(losses "$work/gpus") >"$work/losses"
awk '{ d = ($2 - $4) / $2; if (d < 0) d = -d; if ($1 != $3 || !(d < 1e-4)) bad = 1 } END { exit bad || NR != 3 }' "$work/losses" ||
  fail "other losses than the CPU's: $(cat "$work/losses")"

code=0
"${run[@]/--no-sync-bn/--sync-bn}" --device xpu:0 --out "$work/synchronised" >"$work/said" 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'give --no-sync-bn' "$work/said" || fail 'norms over all ranks are not refused'
