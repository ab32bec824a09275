#!/usr/bin/env bash
# Benches that need an XPU, on the double that computes: that they say what they are for. Run through double.sh.
. tests/xpu/common.sh
needs_double

loader=(bench loader --model lprnet --data 'synth:plates?count=64' --batch 16 --workers 1)
"$xtrain" "${loader[@]}" --xpu --json >"$work/said" 2>&1 || fail 'bench loader --xpu'
for row in 'pinned","overlapped":false' 'pinned","overlapped":true' 'pageable","overlapped":false' \
  'pageable","overlapped":true'; do
  grep -q "\"memory\":\"$row,\"bytes_per_s\":[1-9][0-9.]*,\"images_per_s\":[1-9]" "$work/said" || fail "no row $row"
done
"$xtrain" "${loader[@]}" --json >"$work/said" 2>&1 || fail 'bench loader'
! grep -q uploads "$work/said" || fail 'on the CPU nothing is transferred'
