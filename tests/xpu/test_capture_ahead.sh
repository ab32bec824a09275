#!/usr/bin/env bash
# Kernels for a GPU that is not here: made in Intel's driver's capture mode, carried in an archive, and found again by a
# start as on that GPU, which compiles none, holds them against their record, and asks the device whether it is right.
. tests/xpu/common.sh
keep_kernels_in "$work/made"
small=(--model lprnet --batch 1 --for predict --types f32)

# A name that is not known, and no driver.
code=0
"$xtrain" warmup --for-gpu a777 "${small[@]}" >"$work/said" 2>&1 || code=$?
[ "$code" = 2 ] && grep -q 'a770, a750' "$work/said" || fail 'an unknown name is refused with those that are known'
code=0
OCL_ICD_FILENAMES=$work/none.so "$xtrain" warmup --for-gpu a770 "${small[@]}" >"$work/said" 2>&1 || code=$?
[ "$code" = 4 ] && grep -q 'is not installed: install intel-opencl-icd' "$work/said" || fail 'no driver'

# capture.sh asks for the driver that has this mode; warmup sets it up.
ahead() { capture env -u NEOReadDebugKeys -u ForceDeviceId -u ONEAPI_DEVICE_SELECTOR "$xtrain" warmup --for-gpu "$@"; }
ahead a770 "${small[@]}"
[ "$code" = 0 ] || fail 'warmup --for-gpu'
grep -q 'for Arc A770 (0x56a0), and no GPU has run them' "$work/said" || fail 'what is not tested is said'
made=$(find "$work/made" -name '*_cache' | wc -l)
[ "$made" -ge 3 ] || fail "only $made kernels"
"$xtrain" cache list >"$work/said"
grep -q 'created ahead of time, in capture mode; run never on a GPU' "$work/said" || fail 'cache list'
"$xtrain" cache export "$work/kernels.tar.gz" >/dev/null || fail 'export'

# As on the GPU, in an empty cache.
export XTRAIN_CACHE_DIR=$work/there OverrideRevision=8
"$xtrain" cache import "$work/kernels.tar.gz" >"$work/said" 2>&1 || fail 'import'
start() { capture "$xtrain" warmup "${small[@]}" --xpu; }
start
grep -Eq "^predict +f32 +0 kernels +compiled, +$made in the cache before" "$work/said" || fail 'a start compiles none'
grep -q "$made kernels made ahead of time: GPU, driver 22.43.* as recorded" "$work/said" || fail 'they are held against their record'

# One whose contents are others is compiled afresh; a record of another driver puts all of them out of use.
kernel=$(find "$work/there" -name '*_cache' | sort | sed -n 1p)
printf 'X' | dd of="$kernel" bs=1 seek=500 conv=notrunc status=none
start
grep -Eq "^predict +f32 +1 kernel +compiled" "$work/said" || fail 'one that was changed'
sed -i 's/^# driver: .*/# driver: 24.1.2/' "$work"/there/kernels/*/index.txt
start
grep -q "made ahead of time, not used: made for driver 24.1.2, and here it is 22.43.*; compiling afresh" "$work/said" ||
  fail 'why those of another driver are not used'
grep -Eq "^predict +f32 +$made kernels +compiled, +0 in the cache before" "$work/said" || fail 'they are compiled afresh'

# Another GPU: it is said why these do not serve.
export XTRAIN_CACHE_DIR=$work/other
"$xtrain" cache import "$work/kernels.tar.gz" >/dev/null 2>&1 || fail 'import'
capture env ForceDeviceId=0x56a1 HardwareInfoOverride=7x4x16 "$xtrain" warmup "${small[@]}" --xpu
grep -q 'made ahead of time, are not used: made for GPU 0x56a0, and here it is 0x56a1; compiling afresh' "$work/said" ||
  fail 'why those of another GPU are not used'
grep -Eq '^predict +f32 +[1-9][0-9]* kernels +compiled, +0 in the cache before' "$work/said" || fail 'another GPU compiles its own'
echo "$made kernels made ahead of time: a start as on an A770 compiled none of them"
