#!/usr/bin/env bash
# 200 steps in which ranks die at random moments (kill -9) and all are started again: each time the job ends at once, with
# the dead rank named by rank 0 and the code that a process killed alone has; the end is the undisturbed run's, bit for
# bit, or to rounding if another number of ranks resumes. XTRAIN_TEST_ALL=1, or KILLS=N: until N have died.
. tests/mpi/common.sh
wanted=${KILLS:-${XTRAIN_TEST_ALL:+12}}
[ -n "$wanted" ] || { echo 'skipped: it takes minutes: XTRAIN_TEST_ALL=1 or KILLS=N'; exit 77; }
RANDOM=${SEED:-11}
run=(--model lprnet --data 'synth:plates?count=96&seed=3' --val 'synth:plates?count=20&seed=4' --batch 8 --steps "${STEPS:-200}"
  --save-every 7 --log-every 4 --eval-every 4 --optim sgd --momentum 0.9 --lr 2e-5 --sched constant --ema 0.99)

# The steps that the newest checkpoint has seen.
reached() { ls "$1" 2>/dev/null | sed -n 's/^state-0*\([0-9][0-9]*\)\.safetensors$/\1/p' | sort -n | tail -n 1; }

# A start by N ranks, of which one dies after some steps of it. True where the run came to its end before.
die_or_end() { # RUN N
  local run_folder=$1 n=$2 from step victim pid code=0
  from=$(reached "$run_folder")
  mpirun -n "$n" "${one[@]}" "${run[@]}" --resume auto --out "$run_folder" --quiet >said 2>&1 &
  child=$!
  # Once it has saved, it has met; then some moment before it saves again, or after.
  while :; do
    step=$(reached "$run_folder")
    [ "${step:-0}" = "${from:-0}" ] && kill -0 $child 2>/dev/null || break
    sleep 0.05
  done
  sleep "0.$((RANDOM % 9))"
  victim=$((RANDOM % n))
  pid=$(pid_of $victim "$run_folder" 2>/dev/null) || true
  case $pid in *[!0-9]* | '') wait $child || fail 'it failed, and nobody was killed' "$(cat said)"; return 0 ;; esac
  kill -KILL "$pid"
  wait $child || code=$?
  [ $code != 0 ] || return 0
  [ $code = 137 ] || fail "expected exit code 137 of a killed rank, got $code" "$(cat said)"
  [ $n = 1 ] || grep -q "rank $victim on .* (process $pid) is gone: it was killed, or has crashed" said ||
    fail "rank $victim, which was killed, is not named" "$(cat said)"
  deaths=$((deaths + 1))
  return 1
}

undisturbed() { "${two[@]}" "${run[@]}" --out whole --quiet >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"; }
undisturbed

# As many ranks each time.
deaths=0
until die_or_end same 2; do [ $deaths -lt "$wanted" ] || { "${two[@]}" "${run[@]}" --resume auto --out same --quiet >said 2>&1; break; }; done
same_run whole same "after $deaths deaths"
echo "$deaths deaths of 2 ranks: the same bits"

# 1, 2 and 3 in turn.
deaths=0 n=1
until die_or_end other $((n % 3 + 1)); do
  n=$((n + 1))
  [ $deaths -lt "$wanted" ] || { "${two[@]}" "${run[@]}" --resume auto --out other --quiet >said 2>&1; break; }
done
follows whole other 1e-3
echo "$deaths deaths of 1 to 3 ranks: the same run to rounding"
