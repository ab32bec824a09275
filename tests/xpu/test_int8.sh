#!/usr/bin/env bash
# int8 inference on the double that computes: LPRNet with the published weights reads plates as the CPU does in int8.
# Run through double.sh.
. tests/xpu/common.sh
needs_double
shared=${XTRAIN_SHARED:-../shared}
weights=$shared/data/weights/lprnet_sirius.pth
[ -e "$weights" ] || { echo 'skipped: no shared data'; exit 77; }

mkdir "$work/plates"
find "$shared/data/plates/val" -name '*.jpg' | sort | sed -n 1,24p | xargs cp -t "$work/plates"
for device in cpu xpu; do
  "$xtrain" predict "$weights" --model lprnet --amp int8 --calibrate "$work/plates" --batch 8 --device $device \
    --quiet "$work/plates" >"$work/said" 2>"$work/errors" || { cat "$work/errors"; fail "predict on $device"; }
  cut -f 1,2 "$work/said" >"$work/$device" # the probabilities differ
done
[ "$(wc -l <"$work/cpu")" = 24 ] || fail 'not 24 answers'
# Rounding the other way may change a near tie.
other=$(diff "$work/cpu" "$work/xpu" | grep -c '^>' || true)
[ "$other" -le 1 ] || { diff "$work/cpu" "$work/xpu" || true; fail "$other of 24 plates are read otherwise than on the CPU"; }
echo "24 plates in int8: $((24 - other)) read as on the CPU"
