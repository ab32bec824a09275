#!/usr/bin/env bash
# As test_resume.sh, with a moving average, steps of several batches, patience, and a run that diverges and goes back to
# a checkpoint: killed at any moment it comes to the same bits. XTRAIN_TEST_ALL=1: many kills; KILLS=N: N of them.
. tests/cli/common.sh
val='synth:plates?count=10&seed=4'
run=("${small[@]}" --threads 1 --steps 22 --save-every 4 --eval-every 2 --log-every 3 --dropout 0.3 --quiet --val "$val"
  --ema 0.9 --accumulate 2 --patience 100 --optim sgd --clip 0 --sched constant --on-nan rollback)

# Which rate diverges, and comes to the end at a part of it, depends on the CPU's last bits.
for lr in 120 130 140 160 180 280 300 500 100 700 1000 none; do
  rm -rf "$tree/whole"
  [ $lr != none ] || fail 'no rate diverges and comes to the end' "$(cat "$tree/warnings")"
  "$xtrain" "${run[@]}" --lr $lr --out "$tree/whole" >/dev/null 2>"$tree/warnings" || continue
  ! grep -q 'has diverged.*; going back to step' "$tree/warnings" || break
done
run+=(--lr "$lr")
grep -q '"rolled_back_to":' "$tree/whole/metrics.jsonl" || fail 'the record knows of no rollback' "$(cat "$tree/whole/metrics.jsonl")"

wanted=${KILLS:-${XTRAIN_TEST_ALL:+40}}
for ((round = 1; round == 1 || kills - round + 1 < ${wanted:-1}; round++)); do
  kill_until_done "$tree/killed$round" "${run[@]}"
  same_run "$tree/whole" "$tree/killed$round" "killed $((kills - round)) times so far"
  [ -z "$(find "$tree/killed$round" -name '*.part-*')" ] || fail 'half-written files were left'
  rm -rf "$tree/killed$round"
done
echo "killed $((kills - round + 1)) times"
