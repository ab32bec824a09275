#!/usr/bin/env bash
# Every kind of op in every type, at small shapes, by oneDNN's GPU kernels on the double that computes; XTRAIN_TEST_ALL=1:
# LPRNet's own in bf16 and int8. Run through double.sh.
. tests/xpu/common.sh
needs_double

check() {
  "$xtrain" selftest --xpu --quiet "$@" >"$work/said" 2>"$work/errors" ||
    { cat "$work/errors"; fail "selftest --xpu $*"; }
}
check --small
for type in f32 bf16 fp16; do
  for pass in forward backward inference; do
    grep -Eq "^convolution +$type +$pass +[0-9]+ " "$work/said" ||
      fail "no convolutions in $type, $pass"
  done
done
# In int8 there is inference alone: numbers without and with a sign, and what comes before and after them.
for row in 'input +s8' 'convolution +u8' 'convolution +s8' 'pool +u8' 'dropout +u8'; do
  grep -Eq "^$row +inference +[0-9]+ " "$work/said" || fail "no row $row"
done
tail -n 1 "$work/said"
for amp in ${XTRAIN_TEST_ALL:+bf16 int8}; do
  check --model lprnet --batch 1 --amp $amp
  tail -n 1 "$work/said"
done
