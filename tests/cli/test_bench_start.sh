#!/usr/bin/env bash
# xtrain bench start: two starts for each type, whose phases add up, and nothing left behind.
. tests/cli/common.sh
export TMPDIR=$tree
start=("$xtrain" bench start --model lprnet --batch 2 --threads 1)

types=$(cpu_has bf16 && echo 2 || echo 1)
expect 0 'the CPU has no kernel cache' "${start[@]}" --amp "off$([ "$types" = 1 ] || echo ,bf16)"
[ "$(grep -c '^  first / second: [0-9]' <<<"$said")" = "$types" ] || fail 'there is not a pair of each' "$said"
[ "$(grep -c '^  first step  ' <<<"$said")" = "$types" ] || fail 'the first step is missing' "$said"
[ -z "$(ls "$tree")" ] || fail 'something is left behind' "$(ls "$tree")"

expect 0 '"kernel_cache":false' "${start[@]}" --json
grep -oE '"name":"[^"]*","cold":\{"seconds":[0-9.e+-]*' <<<"$said" | tr -d '{"' |
  awk -F: '{ sum[$2 ~ /^to the first step/ ? "all" : "parts"] += $NF }
    END { exit !(sum["all"] > 0.01 && sum["all"] - sum["parts"] < 1e-6 && sum["parts"] - sum["all"] < 1e-6) }' ||
  fail 'the phases do not add up' "$said"
! grep -q kernels_compiled <<<"$said" || fail 'the CPU counts kernels' "$said"

expect 2 'fp16' "${start[@]}" --amp fp16
expect 2 'belongs to' "${start[@]}" --profile

# A training run says the same where asked, but not among its results.
run=("${small[@]}" --steps 1 --threads 1)
expect 0 'start: first step ' "$xtrain" "${run[@]}" --verbose --out "$tree/a"
grep -qE '^start: library load +[0-9.]+ s, +[0-9.]+ s of CPU time$' <<<"$said" || fail 'a phase is missing' "$said"
expect 0 '"step":1' "$xtrain" "${run[@]}" --json --verbose --out "$tree/b"
! grep -q '^start:' <<<"$said" || fail 'the start is reported on the output of --json' "$said"
