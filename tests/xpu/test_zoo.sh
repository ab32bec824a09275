#!/usr/bin/env bash
# A network from an ONNX file, of the less common layers, against what PyTorch computes with it in float64: answers, losses
# of five steps, gradients, statistics. Run through double.sh.
. tests/xpu/common.sh
needs_double

"$build/tests/zoo" --device xpu tests/models/fixtures/parts >"$work/said" 2>&1 || fail 'a network of the less common layers'
tail -n 1 "$work/said"
