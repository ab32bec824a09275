#!/usr/bin/env bash
# A network that is one file and one line (tests/models/separable) checks itself, learns to read synthetic plates, and
# predicts in int8. XTRAIN_TEST_ALL=1: it trains until it reads nine of ten plates that it has never seen.
. tests/cli/common.sh
xtrain=$PWD/${BUILD:-build}/tests/models/xtrain-separable
cd "$tree"
steps=120
[ -z "${XTRAIN_TEST_ALL:-}" ] || steps=800
expect 0 'separable' "$xtrain" selftest --model separable --batch 2
expect 0 '' "$xtrain" --model separable --steps $steps --eval-every 0 --out run --quiet
# From 8.4 after ten steps to 2.3 after 120.
losses run | tail -n 1 | awk '{ exit !($2 < 3) }' || fail 'it does not learn' "$(losses run)"
weights=run/last.safetensors
expect 0 'int8' "$xtrain" eval $weights --data 'synth:plates?count=200&seed=4' --compare f32,int8
[ $steps = 800 ] || exit 0
correct=$("$xtrain" eval $weights --data 'synth:plates?count=1000&seed=3' --json | sed -n 's/.*"correct": *\([0-9]*\).*/\1/p')
[ "${correct:-0}" -ge 900 ] || fail "$correct of 1000 plates that it has never seen are read whole"
