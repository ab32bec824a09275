#!/usr/bin/env bash
# Every kind of op, at small shapes, by oneDNN's GPU kernels on the double that computes: in bf16 (test_first_run.sh does so in
# float32), XTRAIN_TEST_ALL=1: in each type, and LPRNet's own in bf16 and int8. Run through double.sh.
. tests/xpu/common.sh
needs_double

check() {
  "$xtrain" selftest --xpu --quiet "$@" >"$work/said" 2>"$work/errors" ||
    { cat "$work/errors"; fail "selftest --xpu $*"; }
}
for type in bf16 ${XTRAIN_TEST_ALL:+f32 fp16}; do
  check --small --amp "$type"
  for pass in forward backward inference; do
    grep -Eq "^convolution +$type +$pass +[0-9]+ " "$work/said" ||
      fail "no convolutions in $type, $pass"
  done
  tail -n 1 "$work/said"
done
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  # In int8 there is inference alone: numbers without and with a sign, and what comes before and after them.
  check --small --amp int8
  for row in 'input +s8' 'convolution +u8' 'convolution +s8' 'pool +u8' 'dropout +u8'; do
    grep -Eq "^$row +inference +[0-9]+ " "$work/said" || fail "no row $row"
  done
  tail -n 1 "$work/said"
  for amp in bf16 int8; do
    check --model lprnet --batch 1 --amp $amp
    tail -n 1 "$work/said"
  done
fi
