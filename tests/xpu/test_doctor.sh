#!/usr/bin/env bash
# doctor asks the device for the answers that a run asks for, tries each back end in a process of its own, and outlives one
# that crashes. Run through double.sh.
. tests/xpu/common.sh
needs_faults

doctor() { # the fault; the kernel
  code=0
  XT_FAULT=$1 XT_FAULT_KERNEL=${2:-} "$xtrain" doctor >"$work/said" 2>&1 || code=$?
}
doctor none
[ "$code" = 0 ] || fail "a device that is well: exit code $code"
grep -q '^passed  *known answers  *the ops of a small network are correct, forward and backward' "$work/said" || fail 'the answers'
grep -q '^skipped  *on Level Zero  *no GPU' "$work/said" || fail 'a back end that is not there'
grep -Eq '^passed  *on OpenCL  *correct; [0-9.]+ ms a pass' "$work/said" || fail 'the available back end'
grep -q '^fact  *back end  *OpenCL is the only one here' "$work/said" || fail 'that it is the only one'
grep -q '^fact  *runtime  *SYCL.*(ZE) is not in this package' "$work/said" || fail "oneDNN's runtimes"

doctor 'nothing 1' pooling
[ "$code" = 4 ] || fail "without pools: exit code $code"
grep -q '^failed  *known answers  *.*computes wrong results.* pool (f32), for one, has an error of ' "$work/said" || fail 'pools that do nothing'
grep -q '^fact  *on OpenCL  *does not work: .*pool (f32), for one, ' "$work/said" || fail 'the back end'

doctor 'abort 1'
[ "$code" = 4 ] || fail "a driver that aborts: exit code $code"
grep -q '^failed  *known answers  *.*its driver gave up (abort)' "$work/said" || fail 'a driver that aborts'
grep -q '^fact  *back end  *no back end computes correctly here' "$work/said" || fail 'no back end is left'

# Level Zero's driver ends the process that asks it: plan B is named, and works.
if [ -e "$build/tests/xpu/ze_driver.so" ]; then
  export ZE_ENABLE_ALT_DRIVERS=$build/tests/xpu/ze_driver.so XT_ZE_TEST=crash
  doctor none
  [ "$code" = 4 ] || fail "Level Zero crashes: exit code $code"
  grep -q '^fact  *on Level Zero  *does not work: .*its driver gave up (abort)' "$work/said" || fail 'that Level Zero crashes'
  grep -q '^fact  *back end  *OpenCL, since Level Zero does not work: export ONEAPI_DEVICE_SELECTOR=opencl:gpu$' "$work/said" ||
    fail 'plan B is not named'
  ONEAPI_DEVICE_SELECTOR=opencl:gpu "$xtrain" --model lprnet --batch 1 --xpu --dry-run >"$work/said" 2>&1 || fail 'plan B'
  # Where each part of a step runs, and in which type.
  for row in 'images up +transfer +xpu:0 +u8' 'labels up +transfer +xpu:0 +s32' 'losses down +transfer +xpu:0 +f32' \
    'loss +CTC +xpu:0 +f32' 'optimizer +adamw +xpu:0 +f32'; do
    grep -Eq "^$row " "$work/said" || fail "no row: $row"
  done
  unset ZE_ENABLE_ALT_DRIVERS XT_ZE_TEST
fi

code=0
XT_LAYER_FEW=1 "$xtrain" --model lprnet --batch 1 --xpu --dry-run >"$work/said" 2>&1 || code=$?
[ "$code" = 4 ] && grep -q '^xtrain: error: --device xpu: the OpenCL driver .* has no unified shared memory .*; install a newer driver .*ONEAPI_DEVICE_SELECTOR=level_zero:gpu$' \
  "$work/said" || fail 'a driver without unified shared memory'
echo 'doctor knows a device that is well from one that is not, on each back end'
