#!/usr/bin/env bash
# How far runs with other thread counts agree: oneDNN's weight gradients differ in the last bits, and training multiplies
# the difference. The first loss agrees to 1e-6, 20 steps at a rate of 1e-4 to 1 %. (At one count all bits agree:
# test_resume.sh.)
. tests/cli/common.sh
for threads in 1 2; do
  "$xtrain" --model lprnet --data 'synth:plates?count=80&seed=3' --batch 4 --steps 20 --lr 1e-4 --log-every 1 \
    --threads $threads --oversubscribe --out "$tree/$threads" --quiet
done
join <(losses "$tree/1" | sort) <(losses "$tree/2" | sort) >"$tree/both"
[ "$(wc -l <"$tree/both")" = 20 ] || fail 'there are not 20 losses' "$(cat "$tree/both")"
awk '{ d = ($2 - $3) / $2; d = d < 0 ? -d : d; if (d > ($1 == 1 ? 1e-6 : 1e-2)) { print "step " $1 ": " $2 " and " $3; bad = 1 } }
  END { exit bad }' "$tree/both" || fail 'the losses of 1 and 2 threads are too far apart'
