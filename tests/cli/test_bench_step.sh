#!/usr/bin/env bash
# xtrain bench step: its parts add up, several configurations share a table, and --against decides the exit code.
# Runs alone: its second step must not be slower than its first because of another test.
set -euo pipefail
xtrain=${BUILD:-build}/xtrain
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Two threads also where there is one CPU: figures of other counts are not compared.
bench() { "$xtrain" bench step --model lprnet --steps 4 --quiet --oversubscribe --threads "${threads:-2}" "$@" 2>"$folder/said"; }
fail() {
  echo "$1"
  cat "$folder/said"
  exit 1
}
# number FILE KEY: the first value of a key
number() { grep -o "\"$2\":[0-9.e+-]*" "$1" | head -n 1 | cut -d: -f2; }

bench --batch 4 --json --profile >"$folder/one.json" || fail "a normal run failed"
for key in images_per_s step_ms conv_ms share free_conv_ms free_share first_step_seconds peak_rss_mb planned_mb; do
  awk -v x="$(number "$folder/one.json" "$key")" 'BEGIN { exit !(x > 0) }' || fail "$key is not above 0"
done
sum=$(number "$folder/one.json" sum_ms)
step=$(sed 's/.*"profile"//' "$folder/one.json" | number /dev/stdin step_ms)
awk -v a="$sum" -v b="$step" 'BEGIN { exit !(a > 0.97 * b && a <= b) }' || fail "parts of $sum ms in a step of $step ms"

bench --batch 2,4 --amp "off$(! cpu_has bf16 || echo ,bf16)" >"$folder/table" || fail "a table of several types failed"
[ "$(grep -c '^cpu ' "$folder/table")" = "$(cpu_has bf16 && echo 4 || echo 2)" ] || fail "$(cat "$folder/table")"
grep -q 'to first' "$folder/table" || fail "$(cat "$folder/table")"
bench --batch 4 --profile >"$folder/profile" || fail "--profile failed"
grep -q '^these parts add up to .* % of the .* ms' "$folder/profile" || fail "$(cat "$folder/profile")"

# What training does with Winograd's loops, which read the parameters, has no copies of the weights in the lower bound either.
ONEDNN_VERBOSE=1 ONEDNN_MAX_CPU_ISA=AVX2 "$xtrain" bench step --model resnet18 --classes 10 --batch 8 --image-size 128 --steps 1 \
  --quiet --oversubscribe --threads 2 >"$folder/verbose" 2>"$folder/said" || fail 'AVX2 failed'
grep -q 'exec,cpu,convolution.*ic256oc256_ih8' "$folder/verbose" || fail 'no convolution of 256 channels'
! grep -q 'exec,cpu,reorder.*dst_f32:p:.*256x256x3x3' "$folder/verbose" || fail 'copies of weights that no loop reads'

# Against itself made slow: fine; made fast beyond belief: 1.
sed 's/"images_per_s":[^,]*/"images_per_s":0.001/g' "$folder/one.json" >"$folder/slow.json"
sed 's/"images_per_s":[^,]*/"images_per_s":1e9/g' "$folder/one.json" >"$folder/fast.json"
bench --batch 4 --against "$folder/slow.json" >/dev/null || fail "quicker than before, and yet it failed"
code=0
bench --batch 4 --against "$folder/fast.json" >/dev/null || code=$?
[ "$code" = 1 ] && grep -q '% slower than the' "$folder/said" || fail "slower than before gave code $code"
code=0
bench --batch 5 --against "$folder/fast.json" >/dev/null || code=$?
[ "$code" = 3 ] || fail "nothing to compare with gave code $code"

# An error in one run of several is the whole command's, and nothing is printed.
code=0
bench --batch 4 --device cpu,xpu >"$folder/table" || code=$?
[ "$code" = 4 ] && [ ! -s "$folder/table" ] || fail "a device that is not there gave code $code"
code=0
sed 's/"type":"f32"/"type":"fp16"/' "$folder/one.json" >"$folder/fp16.json"
bench --batch 4 --amp fp16 --against "$folder/fp16.json" >/dev/null || code=$?
[ "$code" = 2 ] && grep -Eq -- '--amp fp16: (oneDNN trains|this CPU has no)' "$folder/said" || fail "fp16 against fp16 gave code $code"

# Beside processes that keep the CPUs busy, which end with it.
threads=1
bench --batch 2 --beside 2 --json >"$folder/beside.json" || fail "--beside 2 failed"
[ "$(number "$folder/beside.json" beside)" = 2 ] || fail "$(cat "$folder/beside.json")"
awk -v x="$(number "$folder/beside.json" others_cpu_share)" 'BEGIN { exit !(x > 0) }' || fail "nobody was beside it"
! grep -q 'other processes used' "$folder/said" || fail 'the requested load is warned of'
# In a file of both streams each message stands on a line of its own, however much was printed before it.
yes >/dev/null & busy=$!
"$xtrain" bench step --model resnet50 --batch 1 --image-size 32 --steps 2 --oversubscribe --threads 1 --profile >"$folder/both" 2>&1
kill "$busy"
grep -q '^warning: other processes used' "$folder/both" || fail "a message within a line: $(grep warning: "$folder/both")"
bench --batch 2 --beside 0,1 >"$folder/both" || fail "--beside 0,1 failed"
[ "$(awk '$2 == "f32" { print $5 }' "$folder/both" | tr '\n' ' ')" = '0 1 ' ] || fail "not a row each: $(cat "$folder/both")"
[ "$(pgrep -cf -- "bench step .*--batch 2 --beside 2")" = 0 ] || fail "busy processes were left"
