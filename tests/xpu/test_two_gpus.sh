#!/usr/bin/env bash
# Two GPUs of which one cannot be opened: it is listed with its reason, numbers stay, and the other works. Run through
# double.sh.
. tests/xpu/common.sh
needs_double

for broken in 1 2; do
  export XT_LAYER_TWO=$broken
  is=$((broken - 1)) works=$((2 - broken))
  "$xtrain" devices >"$work/said" 2>&1 || fail 'devices'
  grep -A1 "^xpu:$is  *a GPU that cannot be opened" "$work/said" | grep -q '^  why .*the start of its engine' ||
    fail "xpu:$is is not named with its reason"
  # The double has the name of this CPU.
  grep "^xpu:$works " "$work/said" | grep -qv 'cannot be opened' || fail "xpu:$works is hidden"
done
"$xtrain" doctor >"$work/said" 2>&1 || true # where there is no node of a GPU it ends with 4
grep -q "^fact  *engine's log  *urContextCreate -> UR_RESULT_ERROR_DEVICE_NOT_AVAILABLE" "$work/said" ||
  fail 'doctor does not quote what the runtime says'
grep -q '^passed  *known answers' "$work/said" || fail 'doctor does not try the one that works'
"$xtrain" --model lprnet --batch 1 --xpu --dry-run >"$work/said" 2>&1 || fail 'the one that works is not taken'
grep -q '^--device xpu: xpu:0: .*the only one that can be opened' "$work/said" || fail 'which was taken, and why'
code=0
"$xtrain" --model lprnet --batch 1 --device xpu:1 --dry-run >"$work/said" 2>&1 || code=$?
[ "$code" = 4 ] && grep -q 'error: --device xpu:1: this XPU cannot be opened; here xpu:0 is [A-Z]' "$work/said" ||
  fail 'one that cannot be opened'

# None at all: a selector that SYCL does not take, and a driver that crashes when it is opened.
unset XT_LAYER_TWO
ends() { # the sentence
  code=0
  "$xtrain" --model lprnet --batch 1 --xpu --dry-run >"$work/said" 2>&1 || code=$?
  [ "$code" = 4 ] && grep -q "^xtrain: error: --device xpu: $1" "$work/said" || fail "exit code $code, not: $1"
}
ONEAPI_DEVICE_SELECTOR=bad:thing ends '.*ONEAPI_DEVICE_SELECTOR=bad:thing leaves none: .*; write opencl:gpu there, or unset it'
# What the machine lacks is told first, and alone.
[ -e /dev/dri ] || ONEAPI_DEVICE_SELECTOR=opencl:gpu OCL_ICD_FILENAMES= OCL_ICD_VENDORS=$work OPENCL_LAYERS= \
  ends 'oneDNN finds no Intel GPU: the kernel shows none .*, and ONEAPI_DEVICE_SELECTOR changes nothing in that; '
[ -e /dev/dri ] || ! grep -q 'UR' "$work/said" || fail 'lines of the runtime'
XT_LAYER_CRASH=1 ends 'it cannot be opened: its driver gave up (abort); "xtrain doctor" checks each step'
echo 'a GPU that cannot be opened hides no other'
