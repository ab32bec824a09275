#!/usr/bin/env bash
# What threads do to a run: at one count all bits agree, whatever else the machine does (and from start to start:
# test_resume.sh); between counts oneDNN's weight gradients differ in the last bits, and training multiplies the
# difference. The first loss agrees to 1e-6, 20 steps at a rate of 1e-4 to 1 %.
# Runs alone: the default is the machine's threads.
. tests/cli/common.sh
train=("$xtrain" --model lprnet --data 'synth:plates?count=80&seed=3' --batch 4 --lr 1e-4 --log-every 1 --quiet)
for threads in 1 2; do
  "${train[@]}" --steps 20 --threads $threads --oversubscribe --out "$tree/$threads"
done
join <(losses "$tree/1" | sort) <(losses "$tree/2" | sort) >"$tree/both"
[ "$(wc -l <"$tree/both")" = 20 ] || fail 'there are not 20 losses' "$(cat "$tree/both")"
awk '{ d = ($2 - $3) / $2; d = d < 0 ? -d : d; if (d > ($1 == 1 ? 1e-6 : 1e-2)) { print "step " $1 ": " $2 " and " $3; bad = 1 } }
  END { exit bad }' "$tree/both" || fail 'the losses of 1 and 2 threads are too far apart'

# The default is the machine's, with others on it too.
load=()
for ((i = 0; i < 3 * $(nproc); i++)); do
  timeout 120 sh -c 'while :; do :; done' &
  load+=($!)
done
trap 'kill "${load[@]}" 2>/dev/null || :; rm -rf "$tree"' EXIT
"${train[@]}" --steps 5 --out "$tree/busy"
kill "${load[@]}"
wait "${load[@]}" 2>/dev/null || :
"${train[@]}" --steps 5 --out "$tree/quiet"
same_weights "$tree/quiet/last.safetensors" "$tree/busy/last.safetensors" || fail 'other weights beside busy processes'
diff <(record "$tree/quiet") <(record "$tree/busy") || fail 'another record beside busy processes'
for run in quiet busy; do
  grep -q "\"threads\":\"$(nproc)\"" "$tree/$run/proof.json" || fail "$run: not as many threads as CPUs" "$(cat "$tree/$run/proof.json")"
done
