#!/usr/bin/env bash
# Networks from ONNX files against what PyTorch computes with them in float64: some of the less common layers, those of the
# shared folder, and one of these exported and read again.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=${BUILD:-build}
zoo=$build/tests/zoo
networks=${XTRAIN_SHARED:-../shared}/zoo
[ -x "$zoo" ] || { echo "$zoo was not built"; exit 1; }
case $zoo in
  /*) export XTRAIN_DNNL=${XTRAIN_DNNL:-$PWD/deps/dnnl/lib/libdnnl.so.3} ;;
esac
. tests/cpu.sh
in_bf16() { ! cpu_has bf16 || "$zoo" --amp bf16 "$@"; }

"$zoo" tests/models/fixtures/parts
"$zoo" --programs tests/models/fixtures/parts
in_bf16 tests/models/fixtures/parts
if [ ! -d "$networks" ]; then
  echo 'skipped but for some small networks: no shared data'
  exit 77
fi
"$zoo" "$networks"
in_bf16 "$networks"
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  "$zoo" --programs "$networks"
  in_bf16 --programs "$networks"
fi

# The reference has gradients of batch norms, which an export has no more: what it answers counts.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=mobilenet_v3_small
"$build/xtrain" export "$networks/$name.onnx" "$work/$name.onnx" --normalize half --threads 1 >/dev/null
cp "$networks/$name.safetensors" "$work"
answers=$("$zoo" "$work" || true)
grep -q 'ok     eval.logits' <<<"$answers" || { echo 'the exported network answers otherwise'; echo "$answers"; exit 1; }
