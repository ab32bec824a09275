#!/usr/bin/env bash
# A run that was begun with two threads, and finds the CPUs held by others: it is saved and goes on with one, in the same
# process, where a signal that comes meanwhile still stops it. Runs alone: it keeps the CPUs busy.
. tests/cli/common.sh
[ "$(nproc)" -ge 2 ] || { echo 'skipped: one CPU alone'; exit 77; }
[ -r /proc/self/schedstat ] || { echo 'skipped: this system does not count how long threads wait'; exit 77; }
"$xtrain" "${small[@]}" --steps 1 --threads 2 --out "$tree/run" --quiet
sed -i '/^threads:/d' "$tree/run/config.yaml"
load=()
for ((i = 0; i < 3 * $(nproc); i++)); do
  timeout 60 sh -c 'while :; do :; done' &
  load+=($!)
done
trap 'kill "${load[@]}" 2>/dev/null || :; rm -rf "$tree"' EXIT
(exec "$xtrain" --resume "$tree/run" --steps 100000 --watch-cpus 0.3s --json >"$tree/json" 2>"$tree/said") &
run=$!
for ((i = 0; i < 600; i++)); do grep -q '^other processes hold the CPUs: going on from step [0-9]* with 1 thread, ' "$tree/said" && break; sleep 0.1; done
grep -q '^other processes hold the CPUs: going on from step [0-9]* with 1 thread, ' "$tree/said" ||
  fail 'it does not go on with one thread' "$(cat "$tree/said")"
kill -TERM $run
kill "${load[@]}" || :
code=0
wait $run || code=$?
[ "$code" = 75 ] || fail "it ended with $code after a signal" "$(cat "$tree/said")"
[ "$(grep -c '^going on from ' "$tree/said")" = 2 ] || fail 'it does not go on from what it saved' "$(cat "$tree/said")"
[ "$(wc -l <"$tree/json")" = 1 ] || fail 'the end is not told once' "$(cat "$tree/json")"
# What a start takes is counted from where it began, not from where the process did: then both would be more than
# all of it. On a busy machine they may well be two thirds.
start=$(sed -n 's/.*"start_seconds":\([0-9.]*\).*/\1/p' "$tree/json") all=$(sed -n 's/.*"seconds":\([0-9.]*\).*/\1/p' "$tree/json")
awk "BEGIN { exit !($start < 0.9 * $all) }" || fail "starts took $start s of $all s"
echo 'a run goes on with one thread where others hold the CPUs'
