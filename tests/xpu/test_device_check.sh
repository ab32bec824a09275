#!/usr/bin/env bash
# A GPU that computes nothing, or one kind of kernel wrongly (fault_layer.c): no run begins on it. XTRAIN_TEST_ALL=1: a
# second kind. Run through double.sh.
. tests/xpu/common.sh
needs_faults

train() { # options
  rm -rf "$work/run"
  code=0
  "$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --batch 1 --steps 1 --xpu --out "$work/run" --verbose "$@" \
    >"$work/said" 2>&1 || code=$?
}
refuses() { # the kernel that does nothing, the op that it is seen by
  XT_FAULT='nothing 1' XT_FAULT_KERNEL=$1 train
  [ "$code" = 4 ] || fail "without $1: exit code $code"
  grep -Eq "^xtrain: error: xpu:0: .* computes wrong results, so it is not used: .* $2.* above the bound of .*; \"xtrain selftest" \
    "$work/said" || fail "without $1: the sentence"
  [ ! -e "$work/run" ] || fail 'a run was begun'
}
refuses '' ''
[ -z "${XTRAIN_TEST_ALL:-}" ] || refuses pooling 'stem.norm: '
refuses bwd_weights '(stem|block|head): gradient of the weights'
XT_FAULT='nothing 1' train --no-device-check
[ "$code" != 4 ] || fail '--no-device-check looks all the same'
echo 'no run begins on a device that computes nothing, or one kind of op wrongly'
