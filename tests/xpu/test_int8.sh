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

# One table of accuracy and latency by device and type.
table=("$xtrain" eval "$weights" --model lprnet --device cpu,xpu --data 'synth:plates?count=56&seed=5' --calibrate "$work/plates" \
  --batch 8 --quiet)
"${table[@]}" --compare f32,int8 >"$work/said" 2>"$work/errors" || { cat "$work/errors"; fail 'eval on two devices'; }
grep -q '^device  *type  *images .* p50  *p95  *p99 .*images/s' "$work/said" || fail 'the head of the table'
[ "$(awk '$1 == "cpu" || $1 == "xpu:0" { print $1 "." $2 }' "$work/said" | tr '\n' ' ')" = 'cpu.f32 cpu.int8 xpu:0.f32 xpu:0.int8 ' ] ||
  fail 'the rows'
grep -Eq '^xpu:0: ' "$work/said" || fail 'the devices are not named'
echo "24 plates in int8: $((24 - other)) read as on the CPU"
