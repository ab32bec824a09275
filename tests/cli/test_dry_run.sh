#!/usr/bin/env bash
# What --dry-run says of memory: the program's own part too, while no pass has touched the activations yet.
. tests/cli/common.sh
"$xtrain" --model lprnet --data 'synth:plates?count=80&seed=3' --batch 64 --threads 1 --dry-run >"$tree/said" 2>&1 || fail 'a dry run fails' "$(cat "$tree/said")"
mb() { sed -n "s/^  $1 *\([0-9.]*\) MB.*/\1/p" "$tree/said"; }
awk -v p="$(mb 'program and libraries')" 'BEGIN { exit !(p > 5 && p < 1000) }' || fail 'the program takes no memory' "$(cat "$tree/said")"
awk -v a="$(mb 'activations and gradients')" -v all="$(mb all)" 'BEGIN { exit !(a > 400 && all > a) }' || fail 'the activations' "$(cat "$tree/said")"
