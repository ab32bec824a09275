#!/usr/bin/env bash
# Networks from ONNX files, of the less common layers, of values that no layer has and of computed weights, against what
# PyTorch computes with them in float64: answers, losses of five steps, gradients, statistics. Run through double.sh.
. tests/xpu/common.sh
needs_double

"$build/tests/zoo" --device xpu tests/models/fixtures/parts >"$work/said" 2>&1 || fail 'the small networks' "$(grep WRONG "$work/said")"
tail -n 1 "$work/said"
cp tests/models/fixtures/parts/{weights,pools}.{onnx,safetensors} "$work"
"$build/tests/zoo" --device xpu --amp bf16 "$work" >"$work/said" 2>&1 || fail 'computed weights and averages in bf16'
