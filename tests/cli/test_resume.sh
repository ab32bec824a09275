#!/usr/bin/env bash
# A run killed at any moment and resumed writes bit for bit what the run that was not killed writes: losses, evaluations,
# weights, and what its report shows of them. XTRAIN_TEST_ALL=1: many kills.
. tests/cli/common.sh

val='synth:plates?count=10&seed=4'
run=("${small[@]}" --threads 1 --steps 26 --save-every 5 --eval-every 2 --dropout 0.3 --quiet --val "$val")
same() { # RUN WHAT
  same_run "$tree/whole" "$@"
}

"$xtrain" "${run[@]}" --log-every 3 --out "$tree/whole"
[ -s "$tree/whole/report.html" ] || fail 'the run left no page'
"$xtrain" "${run[@]}" --log-every 3 --out "$tree/again"
same "$tree/again" 'a second run with the same threads'

kills=0
rounds=1
[ -z "${XTRAIN_TEST_ALL:-}" ] || rounds=10
for ((round = 1; round <= rounds; round++)); do
  kill_until_done "$tree/killed$round" "${run[@]}" --log-every 3
  same "$tree/killed$round" "killed $((kills - round)) times so far"
  [ -z "$(find "$tree/killed$round" -name '*.part-*')" ] || fail 'half-written files were left'
done

# Stopped politely at any step, in the middle of a line's mean: the same.
code=75 tenths=3
until [ "$code" = 0 ]; do
  code=0
  tenths=$((tenths + 1))
  "$xtrain" "${run[@]}" --log-every 3 --stop-after $((tenths / 10)).$((tenths % 10))s --out "$tree/stopped" --resume auto >"$tree/said" 2>&1 || code=$?
  [ "$code" = 0 ] || [ "$code" = 75 ] || fail "stopped and resumed, it ended with code $code" "$(cat "$tree/said")"
done
same "$tree/stopped" 'stopped'
[ "$(ls "$tree/stopped"/state-* | wc -l)" = 2 ] || fail 'not the newest two checkpoints are left' "$(ls "$tree/stopped")"
echo "killed $((kills - rounds)) times"
