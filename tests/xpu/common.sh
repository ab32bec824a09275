# What the scripts of this folder share; sourced by them from the root of the tree. What the last command said is in
# $work/said.
set -euo pipefail
. tests/xpu/where.sh
xtrain=$build/xtrain
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*"
  [ ! -e "$work/said" ] || grep -v '^onednn' "$work/said" | tail -n 40
  exit 1
}

# For tests that are run through double.sh.
needs_double() {
  [ -n "${OPENCL_LAYERS:-}" ] || { echo 'skipped: no test double of a GPU: run "make test-xpu"'; exit 77; }
}

# The double's calls fail where XT_FAULT says so (fault_layer.c).
needs_faults() {
  needs_double
  export OPENCL_LAYERS=$OPENCL_LAYERS:$build/tests/xpu/fault_layer.so
}

# Kernels are cached in this folder, and not with those of all tests.
keep_kernels_in() {
  unset NEO_CACHE_DIR NEO_CACHE_PERSISTENT
  export XTRAIN_CACHE_DIR=$1
}

# Runs a command as on an A770; its exit code is in $code.
capture() {
  code=0
  tests/xpu/capture.sh "$@" >"$work/said" 2>&1 || code=$?
  [ "$code" != 77 ] || { cat "$work/said"; exit 77; }
  [ "$code" != 70 ] || fail "a pointer without a place: $*"
  [ "$code" -le 128 ] || fail "ended by signal $((code - 128)): $*"
}

# The losses of a run, "step loss" a line.
losses() { sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"; }

# A network of five layers, for tests of what surrounds a network: it starts in a tenth of LPRNet's time.
small=(--model tests/models/fixtures/parts/distilled.onnx --batch 1 --data 'synth:shapes?count=8&seed=3')

# Four short steps while the double's calls fail as said (fault_layer.c); exit code in $code.
train_under() { # the fault; options
  export XT_FAULT=$1
  rm -rf "$work/run"
  code=0
  timeout 300 "$xtrain" "${small[@]}" --lr 1e-4 --sched constant --save-every 1 --log-every 1 --steps 4 --xpu \
    --out "$work/run" "${@:2}" >"$work/said" 2>&1 || code=$?
}
