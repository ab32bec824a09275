#!/usr/bin/env bash
# Intel's real OpenCL driver in capture mode, as an Arc A770: what oneDNN takes there, and the driver's own kernel cache
# (attacks on it: test_capture_cache.sh). It computes nothing, so doctor's convolution is off there, and that is expected.
. tests/xpu/common.sh
keep_kernels_in "$work/cache"

capture "$xtrain" devices --json
grep -q '0x56a0' "$work/said" || fail 'the device is an A770'
grep -q '"architecture":.*Xe-HPG' "$work/said" || fail 'the architecture is known'
grep -q '"machine_code":.*true' "$work/said" || fail 'oneDNN has machine code'
grep -q '"implementation":.*jit:' "$work/said" || fail 'the convolution is jit'
grep -q '"trains":.*"f32","bf16","fp16"' "$work/said" || fail 'f32, bf16 and fp16 train'
grep -q '"infers":.*"int8"' "$work/said" || fail 'int8 infers'

# The driver's own limit of one allocation; what is larger is refused before anything is made.
grep -q '"allocation_max_bytes":.*4294959104' "$work/said" || fail 'the limit of one allocation is known'
capture "$xtrain" --model resnet50 --data 'synth:shapes?count=4096' --batch 4096 --amp bf16 --xpu --dry-run
grep -q 'conv1 (value): 6.58 GB in one piece, and .* takes at most 4.29 GB; --batch [0-9]* fits, which --batch auto finds' \
  "$work/said" || fail 'a tensor above it is refused by name'

capture "$xtrain" doctor
grep -q '^passed *engine' "$work/said" || fail 'the engine starts'
kernels() { find "$work/cache" -name '*_cache' -printf '%f %T@\n' | sort; }
first=$(kernels)
[ -n "$first" ] || fail 'the driver keeps what it compiled'
"$xtrain" cache verify >"$work/said" || fail 'what it stored is recorded'
capture "$xtrain" doctor
[ "$(kernels)" = "$first" ] || fail 'a second start compiles nothing'
echo 'as an Arc A770: machine code, and kernels from the cache'
