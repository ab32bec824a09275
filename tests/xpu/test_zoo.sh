#!/usr/bin/env bash
# Networks from ONNX files, of the less common layers, recurrent ones, of computed weights and of points, against what
# PyTorch computes with them in float64: answers, losses of five steps, gradients, statistics; and a step of a run.
# XTRAIN_TEST_ALL=1: also those whose ops the others have, which the reader alone makes special. Run through double.sh.
. tests/xpu/common.sh
needs_double

networks=tests/models/fixtures/parts
if [ -z "${XTRAIN_TEST_ALL:-}" ]; then
  networks=$work/float32
  mkdir "$networks"
  cp tests/models/fixtures/parts/{parts,weights,pools,maps,points,choices,recurrent_rows,grey}.{onnx,safetensors} "$networks"
fi
"$build/tests/zoo" --device xpu "$networks" >"$work/said" 2>&1 || fail 'the small networks' "$(grep WRONG "$work/said")"
tail -n 1 "$work/said"
# As a run trains them, with the loss on the device: its check compares a whole step with the CPU's.
for network in "$networks"/*.safetensors; do
  network=${network%.safetensors}.onnx
  "$xtrain" --model "$network" --data 'synth:shapes?count=8&seed=3' --batch 4 --steps 1 --xpu >"$work/said" 2>&1 || fail "a step of $network"
done
mkdir "$work/bf16"
cp tests/models/fixtures/parts/{weights,pools}.{onnx,safetensors} "$work/bf16"
"$build/tests/zoo" --device xpu --amp bf16 "$work/bf16" >"$work/said" 2>&1 || fail 'computed weights and averages in bf16'
