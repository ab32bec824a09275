#!/usr/bin/env bash
# Every kind of op in every type, at small shapes, by oneDNN's GPU kernels on the double that computes; LPRNet's own in
# bf16. Run through double.sh.
set -euo pipefail
build=${BUILD:-build}
[ -n "${OPENCL_LAYERS:-}" ] || { echo 'skipped: no test double of a GPU: run "make test-xpu"'; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() {
  "$build/xtrain" selftest --xpu --quiet "$@" >"$work/said" 2>"$work/errors" ||
    { cat "$work/said" "$work/errors"; echo "FAILED: selftest --xpu $*"; exit 1; }
}
check --small
for type in f32 bf16 fp16; do
  for pass in forward backward inference; do
    grep -Eq "^convolution +$type +$pass +[0-9]+ " "$work/said" ||
      { cat "$work/said"; echo "FAILED: no convolutions in $type, $pass"; exit 1; }
  done
done
tail -n 1 "$work/said"
check --model lprnet --batch 1 --amp bf16
tail -n 1 "$work/said"
