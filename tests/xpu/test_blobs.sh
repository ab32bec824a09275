#!/usr/bin/env bash
# oneDNN's OpenCL runtime on the double that computes: networks run, and its cache blobs keep what was compiled. Attacks on
# them are compiled again, never used. XTRAIN_TEST_DNNL_OPENCL names a libdnnl.so.3 with that runtime, which no package has:
# docs/xpu.md says how to build one. Run through double.sh.
. tests/xpu/common.sh
needs_double
[ -n "${XTRAIN_TEST_DNNL_OPENCL:-}" ] ||
  { echo 'skipped: XTRAIN_TEST_DNNL_OPENCL names no oneDNN with the OpenCL runtime'; exit 77; }

# The library between what it needs: the OpenCL loader and the runtime of the double.
mkdir "$work/lib"
ln -s "$(dirname "$OCL_ICD_FILENAMES")"/* "$work/lib/"
rm -f "$work"/lib/libdnnl*
ln -s "$(realpath "$XTRAIN_TEST_DNNL_OPENCL")" "$work/lib/libdnnl.so.3"
keep_kernels_in "$work/cache"
export XTRAIN_DNNL_XPU=$work/lib/libdnnl.so.3 XT_LAYER_LOG=$work/log

# How many programs a command makes the double compile.
run() {
  : >"$XT_LAYER_LOG"
  "$@" >"$work/said" 2>&1 || fail "$*"
  compiled=$(grep -c '^compiled' "$XT_LAYER_LOG" || true)
}
expect() { [ "$compiled" = "$1" ] || fail "$2: compiled $compiled, not $1"; }

run "$xtrain" devices
grep -q 'OpenCL (experimental)' "$work/said" || fail 'devices does not say that it is experimental'
convolution=$build/tests/convolution
warm=0 cold=2 # the device's facts and one convolution
run "$convolution"
expect $cold 'cold'
run "$convolution"
expect $warm 'warm'
"$xtrain" cache verify >"$work/said" || fail 'verify'
"$xtrain" cache list --json >"$work/said" && grep -q '"runtime":.*"OpenCL, OpenCL"' "$work/said" || fail 'list --json'
[ -z "$(find "$work/cache" -name '*.cl_cache')" ] || fail 'the driver keeps its kernels beside the blobs'

folder=$(dirname "$(ls "$work"/cache/kernels/*/index.txt)")
blob=$(ls -S "$folder"/*.blob_cache | sed -n 1p)
attack() { # what, and a command that does it; the one primitive is compiled again
  local what=$1
  shift
  "$@"
  "$xtrain" cache verify >/dev/null 2>&1 && fail "verify does not see: $what"
  run "$convolution"
  expect $((warm + 1)) "$what"
  run "$convolution"
  expect $warm "after: $what"
}
flip() { # at a byte, to another one
  local at=${1:-1000} byte
  byte=$(od -An -tu1 -j "$at" -N 1 "$blob")
  printf "\\$(printf %o $((byte ^ 1)))" | dd of="$blob" bs=1 seek="$at" conv=notrunc status=none
}
attack truncated truncate -s -10 "$blob"
attack 'bit-flipped' flip
attack 'world-writable' chmod 666 "$blob"
relink() { mv "$blob" "$work/moved"; ln -s "$work/moved" "$blob"; }
attack symlink relink

# The index agrees with the damage: the blob's own length and hash do not.
reindex() {
  local name=${blob##*/}
  sed -i "/ $name\$/d" "$folder/index.txt"
  echo "$(sha256sum <"$blob" | cut -d' ' -f1) $(stat -c %s "$blob") $name" >>"$folder/index.txt"
}
for seek in 0 8 16 24 100 20000; do
  flip "$seek"
  reindex
  "$xtrain" cache verify >/dev/null || fail 'the index does not agree'
  run "$convolution"
  expect $((warm + 1)) "damage at byte $seek that the index agrees with"
  "$xtrain" cache clear >/dev/null
  run "$convolution"
done
truncate -s -10 "$blob"
reindex
run "$convolution"
expect $((warm + 1)) 'a length that the index agrees with'
"$xtrain" cache clear >/dev/null

run "$convolution"
chmod 777 "$folder"
run "$convolution"
expect $cold 'a folder that others can write'
chmod 700 "$folder"
if [ "$(id -u)" != 0 ]; then # root writes anywhere
  chmod -R a-w "$work/cache"
  run "$convolution"
  expect $warm 'read-only'
  chmod -R u+w "$work/cache"
fi

# Another oneDNN: another folder.
cp "$work/lib/libdnnl.so.3" "$work/other.so.3"
echo >>"$work/other.so.3"
mv "$work/lib/libdnnl.so.3" "$work/first"
cp "$work/other.so.3" "$work/lib/libdnnl.so.3"
run "$convolution"
expect $cold 'another version'
[ "$(ls -d "$work"/cache/kernels/* | wc -l)" = 2 ] || fail 'another version has another folder'
mv "$work/first" "$work/lib/libdnnl.so.3"

"$xtrain" cache export "$work/kernels.tar.gz" >/dev/null
"$xtrain" cache clear >/dev/null
run "$convolution"
expect $cold 'after clear'
"$xtrain" cache clear >/dev/null
"$xtrain" cache import "$work/kernels.tar.gz" >/dev/null || fail import
run "$convolution"
expect $warm imported
"$xtrain" cache prune --max-size 1 >/dev/null || fail prune
"$xtrain" cache clear >/dev/null
"$convolution" & first=$!
"$convolution" || fail 'the second of two at once'
wait "$first" || fail 'the first of two at once'
run "$convolution"
expect $warm 'after two at once'

# A network: its losses follow the CPU's, a second start compiles nothing, and without the cache nothing is stored.
train() { # folder, and more options
  local out=$1
  shift
  run "$xtrain" --model lprnet --data 'synth:plates?count=20&seed=3' --val 'synth:plates?count=4&seed=4' --batch 4 --steps 5 \
    --lr 1e-4 --log-every 1 --out "$work/$out" "$@"
}
train cpu --device cpu
train first --xpu
grep -q 'runs GPUs with OpenCL here, which is experimental' "$work/said" || fail 'the start does not say so'
expect_many=$compiled
[ "$expect_many" -gt 100 ] || fail "a cold start compiled $expect_many"
train second --xpu
expect 0 'the warm start of a network'
[ "$(losses "$work/first")" = "$(losses "$work/second")" ] || fail 'a warm start computes something else'
paste -d ' ' <(losses "$work/cpu") <(losses "$work/first") >"$work/both"
awk '{ d = ($2 - $4) / $2; if (d < -5e-3 || d > 5e-3) { print; bad = 1 } } END { exit bad || NR != 5 }' "$work/both" ||
  { cat "$work/both"; fail 'the losses of cpu and xpu are too far apart'; }
XT_LAYER_FEW=1 "$xtrain" --model lprnet --data 'synth:plates?count=4' --val 'synth:plates?count=4' --batch 4 --steps 1 \
  --xpu --out "$work/few" >"$work/said" 2>&1 && fail 'a network without unified shared memory'
grep -q 'has no unified shared memory' "$work/said" || fail 'the reason is not said'
before=$(find "$work/cache" -type f | wc -l)
run "$xtrain" selftest --xpu --small --quiet --no-kernel-cache
[ "$(find "$work/cache" -type f | wc -l)" = "$before" ] || fail '--no-kernel-cache stored something'
echo "cold: $expect_many compiled; warm: none; losses follow the CPU's"
