#!/usr/bin/env bash
# Stopped, killed and gone on, also by another number of ranks: what comes of it is what an undisturbed run gives.
. tests/mpi/common.sh
run=(--model lprnet --data 'synth:plates?count=96&seed=3' --val 'synth:plates?count=20&seed=4' --batch 8
  --save-every 4 --log-every 4 --augment --accumulate 2 --ema 0.9)
short=("${run[@]}" --steps 40)

"${two[@]}" "${short[@]}" --out whole --quiet >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"

# Any rank may die, at any time.
RANDOM=7
for death in 1 2 3; do
  "${two[@]}" "${short[@]}" --resume auto --out died --quiet >said 2>&1 &
  child=$!
  saved died
  sleep "0.$((RANDOM % 10))"
  kill -KILL "$(pid_of $((RANDOM % 2)) died)" 2>/dev/null || true
  wait $child && break
done
"${two[@]}" "${short[@]}" --resume auto --out died --quiet >said 2>&1 || fail 'it does not resume' "$(cat said)"
[ "$(record whole)" = "$(record died)" ] && same_weights whole/last.safetensors died/last.safetensors ||
  fail "after $death deaths the run is another" "$(diff <(record whole) <(record died))"

# SIGUSR1, which mpirun hands on: saved, and exit code 75. SIGTERM and SIGINT (Ctrl-C) too, of which Open MPI's mpirun says
# 1 whatever comes; the timeout is shorter than that of docs/scaling.md (12), which XTRAIN_TEST_ALL=1 takes.
for signal in USR1 TERM INT; do
  [ $signal != TERM ] || export OMPI_MCA_odls_base_sigkill_timeout=$([ -n "${XTRAIN_TEST_ALL:-}" ] && echo 12 || echo 4)
  "${two[@]}" "${run[@]}" --steps 100000 --out $signal >said 2>&1 &
  child=$!
  saved $signal
  kill -$signal $child
  ends $([ $signal = USR1 ] && echo 75 || echo 1) "; all is saved; resume with: mpirun -n 2 "
  [ "$(grep -c 'all is saved' said)" = 1 ] || fail 'it was said twice' "$(cat said)"
done

# A stop and a continuation by anybody else are no request to end.
"${two[@]}" "${run[@]}" --steps 100000 --out paused >said 2>&1 &
child=$!
saved paused
rank=$(pid_of 0 paused)
kill -STOP "$rank"
kill -CONT "$rank"
lines=$(wc -l <paused/metrics.jsonl)
while [ "$(wc -l <paused/metrics.jsonl)" -lt $((lines + 4)) ]; do
  kill -0 $child 2>/dev/null || fail 'it does not continue' "$(cat said)"
  sleep 0.1
done
kill -USR1 $child
ends 75 'all is saved'

# As many ranks as there are today.
expect 0 'resuming from USR1/state-' "${one[@]}" --resume USR1 --max-time 0.2s
expect 0 'resuming from USR1/state-' "${two[@]}" --resume USR1 --max-time 0.2s
