#!/usr/bin/env bash
# A GPU that computes nothing, or a kind of kernel wrongly (fault_layer.c): no run begins on it, since the run's own ops
# are compared with references first. XTRAIN_TEST_ALL=1: every fault, and by the self-test. Run through double.sh.
. tests/xpu/common.sh
needs_faults

train() { # options
  rm -rf "$work/run"
  code=0
  "$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --batch 1 --steps 1 --xpu --out "$work/run" "$@" \
    >"$work/said" 2>&1 || code=$?
}
refuses() { # the fault; kernels that have it; what is wrong
  export XT_FAULT=$1 XT_FAULT_KERNEL=$2
  train
  [ "$code" = 4 ] || fail "$1 of '$2': exit code $code"
  grep -Eq "^xtrain: error: xpu:0: .* computes wrong results, so it is not used: .* $3 \(f32\).* above the bound of .*; \"xtrain selftest" \
    "$work/said" || fail "$1 of '$2': the sentence"
  [ ! -e "$work/run" ] || fail "$1 of '$2': a run was begun"
  if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
    code=0
    "$xtrain" selftest --xpu --small --amp f32 --quiet >"$work/said" 2>&1 || code=$?
    [ "$code" = 1 ] && grep -Eq '^xtrain: error: .* above the bound of ' "$work/said" || fail "$1 of '$2': the self-test, exit code $code"
  fi
  unset XT_FAULT XT_FAULT_KERNEL
}
refuses 'turn 1' pool '[a-z.0-9]+: max pool'
refuses 'hole 1' bwd_weights '[a-z.0-9]+: gradient of the weights(, summed over channels)?'
refuses 'group 1' conv '[a-z.0-9]+: .*'
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  refuses 'nothing 1' '' '.*'
  refuses 'nothing 1' pooling '[a-z.0-9]+: .*'
  refuses 'swap 1' reorder '.*'
  refuses 'stale 1' conv '[a-z.0-9]+: .*'
  refuses 'flush 1' bwd_weights '[a-z.0-9]+: gradient of the weights, where a NaN is lost'
fi

# A pass is shown with its cost, and changes nothing of the run.
train
[ "$code" = 0 ] && grep -Eq 'xpu:0: .* computes this network.s ops as references in double precision do: [0-9]+ passes of ops in [0-9.]+ s' "$work/said" ||
  fail "a device that is well: exit code $code"
grep -q '"device_check":"passed"' "$work/run/proof.json" || fail 'the record'
grep -q '"deterministic":"by oneDNN.s attribute"' "$work/run/proof.json" || fail 'the record says whether bits repeat'
losses "$work/run" >"$work/checked"
train --check-device never --deterministic
losses "$work/run" | cmp -s - "$work/checked" || fail 'the check changes the run'
grep -q '"device_check":"not asked"' "$work/run/proof.json" || fail 'the record of a run without it'
XT_FAULT='nothing 1' train --no-device-check
[ "$code" != 4 ] || fail '--no-device-check checks all the same'

# A GPU that goes wrong during the run: found at the checkpoint, which is not saved.
XT_FAULT='turn 100' XT_FAULT_KERNEL=pooling train --check-device every --save-every 1 --steps 2
[ "$code" = 4 ] && grep -q 'error: at step 1, which is not saved: .* above the bound of .*; nothing that this run has computed is to be trusted' "$work/said" ||
  fail "a device that goes wrong: exit code $code"
[ -z "$(find "$work/run" -name 'state-*')" ] || fail 'its checkpoint'
echo 'no run begins on a device that computes nothing, or one kind of op wrongly'
