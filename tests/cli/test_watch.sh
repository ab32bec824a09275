#!/usr/bin/env bash
# What a person reads of a run that is watched: why it ended, which weights are the best, where numbers went wrong; and
# and invalid settings.
. tests/cli/common.sh
cd "$tree"
train=("$xtrain" "${small[@]}" --threads 1)
val=(--val 'synth:plates?count=4&seed=4')

expect 0 'ended before step 90: early stopping after 2 evaluations without gain (--patience 2; raise it and --resume to continue)' \
  "${train[@]}" "${val[@]}" --steps 90 --lr 1e-30 --bn frozen --patience 2 --ema 0.5 --out still
grep -q '  their moving average: ' <<<"$said" || fail 'the average is not shown' "$said"
grep -qF 'still/ema.safetensors   their moving average' <<<"$said" || fail 'where the average lies is not said' "$said"
grep -q '"state":"done: nothing was gained any more (--patience)"' still/report.json || fail 'the page says another end' "$(cat still/report.json)"
expect 0 'still done ' "$xtrain" compare still still
expect 0 '"exit_reason":"patience"' "$xtrain" --resume still --json
expect 0 'of 4 plates' "$xtrain" eval --init still/ema.safetensors --data 'synth:plates?count=4&seed=4'

expect 0 '3 steps of 12 images, in 3 batches of 4 (2 steps an epoch)' "${train[@]}" --accumulate 3 --steps 3 --out parts
rate=$(sed -n 's/^speed: \([0-9]*\) .*/\1/p' <<<"$said") logged=$(sed -n 's/.*"images_per_s":\([0-9]*\).*/\1/p' parts/metrics.jsonl)
[ "$rate" -gt $((logged / 2)) ] || fail "the last screen says $rate images/s, the record $logged" "$said"
grep -q '"batch":12,' parts/report.json || fail 'the page says another number of images a step' "$(cat parts/report.json)"
expect 2 'parts/state-00000003.safetensors was made with --accumulate 3; give the same' "${train[@]}" --steps 4 --resume auto --out parts

# At such a rate it diverges, whatever the CPU; the command that is said then gets to the end, with a checkpoint and without.
fast=(--steps 12 --optim sgd --lr 1000 --clip 0 --sched constant)
gets_further() { # RUN HOW
  local line=${said##*; "$2" with: }
  [ "$line" != "$said" ] || fail "no way on by \"$2\" is said" "$said"
  (eval "$line --quiet") >said 2>&1 || fail "it does not get further: $line" "$(cat said)"
  [ -s "$1/last.safetensors" ] && grep -q '"state":"done"' "$1/report.json" || fail "it is not at the end: $line" "$(cat said)"
}
expect 1 'has diverged' "${train[@]}" "${fast[@]}" --out wild
gets_further wild 'begin again'
expect 1 '3 times it went back to the checkpoint before (--on-nan rollback), the last time at ' \
  "${train[@]}" "${fast[@]}" --save-every 1000 --on-nan rollback --out wilder
[ "$(grep -c '"rolled_back_to":0,' wilder/metrics.jsonl)" = 3 ] || fail 'not each rollback is in the record' "$(cat wilder/metrics.jsonl)"
gets_further wilder 'resume from the checkpoint of step 0'
[ "$(grep -c '"rolled_back_to":0,' wilder/metrics.jsonl)" = 3 ] || fail 'the rollbacks are gone from the record' "$(cat wilder/metrics.jsonl)"

expect 2 '--patience 3 counts evaluations, and there is nothing to evaluate on; give --val' "${train[@]}" --steps 4 --patience 3
expect 2 'with --eval-every 0 the only one is at the end' "${train[@]}" "${val[@]}" --steps 4 --patience 3 --eval-every 0
expect 2 'min-delta defines a gain for --patience; give both' "${train[@]}" --min-delta 0.1
expect 2 'min-lr is above lr, the highest rate' "${train[@]}" --min-lr 0.1 --lr 0.01
expect 2 '--ema takes a number from 0 to less than 1' "${train[@]}" --ema 1
expect 2 '--accumulate takes a whole number from 1' "${train[@]}" --accumulate 0
expect 2 'fewer than --accumulate 7 batches of 4' "${train[@]}" --steps 1 --accumulate 7
expect 2 '--on-nan takes stop, skip or rollback' "${train[@]}" --on-nan ignore
