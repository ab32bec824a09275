#!/usr/bin/env bash
# Networks from ONNX files against what PyTorch computes with them in float64.
set -euo pipefail
cd "$(dirname "$0")/../.."

zoo=${BUILD:-build}/tests/zoo
networks=${XTRAIN_SHARED:-../shared}/zoo
if [ ! -d "$networks" ]; then
  echo 'skipped: no shared data'
  exit 77
fi
[ -x "$zoo" ] || { echo "$zoo was not built"; exit 1; }
case $zoo in
  /*) export XTRAIN_DNNL=${XTRAIN_DNNL:-$PWD/deps/dnnl/lib/libdnnl.so.3} ;;
esac
"$zoo" "$networks"
