#!/usr/bin/env bash
# --balance: a rank that is slowed gets fewer images; steps, sums and what a resumed run does stay right.
. tests/mpi/common.sh
gently=(--model lprnet --data 'synth:plates?count=48&seed=3' --val 'synth:plates?count=8&seed=4' --lr 2e-5 --batch 12
  --optim sgd --momentum 0 --sched constant --log-every 1)

# slow RANK RUN: while the mpirun in the background runs, this rank is stopped for five sixths of the time, so that it is the
# slower one on a machine of any speed and load.
slow() {
  local pid
  until [ -e "$2/metrics.jsonl" ]; do
    kill -0 "$child" 2>/dev/null || fail "$2 ended before it began" "$(cat said)"
    sleep 0.02
  done
  pid=$(pid_of "$1" "$2") || fail "rank $1 of $2 ended before it was slowed" "$(cat said)"
  while kill -STOP "$pid" 2>/dev/null; do
    sleep 0.1
    kill -CONT "$pid" 2>/dev/null || break
    sleep 0.02
  done &
}

"${one[@]}" "${gently[@]}" --steps 30 --out one --quiet >said 2>&1 || fail 'one process failed' "$(cat said)"
"${two[@]}" "${gently[@]}" --steps 30 --out cut --balance >said 2>&1 &
child=$!
slow 1 cut
wait $child || fail 'two ranks failed' "$(cat said)"
grep -q "the ranks' shares of a batch from step [0-9]* on: [0-9]*, [0-9]* images (--balance" said || fail 'nothing was cut' "$(cat said)"
read -r first last < <(sed -n 's/.*"rank_shares":"\([0-9]*\),.*/\1/p' cut/metrics.jsonl | sed -n '1p;$p' | paste -sd ' ')
[ "$first" = 6 ] && [ "$last" -gt 6 ] || fail 'the slow rank did not get fewer images' "$(cat cut/metrics.jsonl)"
# Every image is trained on once in each epoch, by whichever rank: another image would be another loss.
follows one cut 2e-5
losses one | head -n 1 >one.first && losses cut | head -n 1 | paste -d ' ' one.first - |
  awk '{ d = $2 - $4; exit !((d < 0 ? -d : d) <= 1e-6 * $2) }' || fail 'the first step has another loss' "$(losses one)" "$(losses cut)"

# A resumed run has the shares of its checkpoint; another number of ranks its own.
"${two[@]}" --resume cut --steps 32 --quiet >said 2>&1 || fail 'it does not resume' "$(cat said)"
tail -n 3 cut/metrics.jsonl | grep -q "\"step\":31,.*\"rank_shares\":\"$last," || fail 'the shares were forgotten' "$(cat cut/metrics.jsonl)"
read -ra three <<<"$(ranks 3)"
"${three[@]}" --resume cut --steps 34 --quiet >said 2>&1 || fail 'three ranks do not resume' "$(cat said)"
grep -q '"step":33,.*"rank_shares":"4,4,4"' cut/metrics.jsonl || fail 'three ranks have no shares' "$(cat cut/metrics.jsonl)"
