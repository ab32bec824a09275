#!/usr/bin/env bash
# A network that is one file and one line (tests/models/separable) trains on synthetic plates until it reads nine of ten that
# it has never seen, checks itself, and predicts in int8.
. tests/cli/common.sh
xtrain=$PWD/${BUILD:-build}/tests/models/xtrain-separable
cd "$tree"
expect 0 'separable' "$xtrain" selftest --model separable --batch 2
expect 0 '' "$xtrain" --model separable --steps 800 --out run --quiet
correct=$("$xtrain" eval --init run/best.safetensors --data 'synth:plates?count=1000&seed=3' --json |
  sed -n 's/.*"correct": *\([0-9]*\).*/\1/p')
[ "${correct:-0}" -ge 900 ] || fail "$correct of 1000 plates that it has never seen are read whole"
expect 0 'int8' "$xtrain" eval --init run/best.safetensors --data 'synth:plates?count=200&seed=4' --compare f32,int8
