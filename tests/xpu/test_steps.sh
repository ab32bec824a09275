#!/usr/bin/env bash
# Training on the double that computes: 20 steps of LPRNet follow the CPU's losses (float32, the same seed; without dropout,
# whose masks are the device's own); LPRNet's golden numbers, XTRAIN_TEST_ALL=1: ResNet-50's, and LPRNet's in bf16; a warm
# start compiles nothing. Run through double.sh.
. tests/xpu/common.sh
needs_double
export XT_LAYER_LOG=$work/log

for device in cpu xpu; do
  "$xtrain" --model lprnet --data 'synth:plates?count=80&seed=3' --val 'synth:plates?count=4&seed=4' --batch 4 \
    --steps 20 --lr 1e-4 --dropout 0 --log-every 1 --device $device --out "$work/$device" --quiet >"$work/said" 2>&1 ||
    fail "20 steps on $device"
done
join <(losses "$work/cpu" | sort) <(losses "$work/xpu" | sort) >"$work/both"
[ "$(wc -l <"$work/both")" = 20 ] || { cat "$work/both"; fail 'there are not 20 losses'; }
# The first loss to float32's rounding; rounding that turns over single ReLUs then grows from step to step.
awk '{ d = ($2 - $3) / $2; d = d < 0 ? -d : d; if (d > ($1 == 1 ? 1e-5 : 5e-3)) { print "step " $1 ": " $2 " and " $3; bad = 1 } }
  END { exit bad }' "$work/both" || fail 'the losses of cpu and xpu are too far apart'

# A moving average and steps of several batches follow the CPU's too, over a checkpoint, also back to it.
for device in cpu xpu; do
  for steps in 2 3; do
    "$xtrain" --model lprnet --data 'synth:plates?count=80&seed=3' --val 'synth:plates?count=4&seed=4' --batch 4 \
      --accumulate 2 --ema 0.9 --on-nan rollback --sched constant --steps $steps --lr 1e-4 --dropout 0 --log-every 1 \
      --device $device --out "$work/average-$device" --resume auto --quiet >"$work/said" 2>&1 || fail "steps of two batches on $device"
  done
done
figures() { sed -n 's/.*"loss":\([^,]*\),.*/\1/p; s/.*"val_loss":\([^,]*\),.*"ema_val_loss":\([^}]*\)}/\1 \2/p' "$1/metrics.jsonl" | tr ' ' '\n'; }
paste -d ' ' <(figures "$work/average-cpu") <(figures "$work/average-xpu") >"$work/both"
[ "$(wc -l <"$work/both")" = 7 ] || { cat "$work/both"; fail 'there are not three losses and two evaluations'; }
awk '{ d = ($1 - $2) / $1; d = d < 0 ? -d : d; if (d > 1e-3) { print $1 " and " $2; bad = 1 } } END { exit bad }' "$work/both" ||
  fail 'average or sum of cpu and xpu are too far apart'
"$xtrain" --model tests/models/fixtures/parts/distilled.onnx --data 'synth:shapes?count=80&seed=3' --batch 4 --steps 60 \
  --save-every 5 --optim sgd --lr 1000 --clip 0 --sched constant --on-nan rollback --ema 0.9 --out "$work/wild" --xpu --quiet \
  >"$work/said" 2>&1 && fail 'it does not diverge'
grep -q 'going back to step .*, on at 0.5 of the rate' "$work/said" && grep -q '3 times it went back' "$work/said" ||
  fail 'a run that diverges goes back on an XPU'
"$xtrain" --model lprnet --batch 4 --steps 1 --recompute --xpu >"$work/said" 2>&1 && fail 'an XPU recomputes'
grep -q 'recompute is for the CPU so far' "$work/said" || fail 'an XPU refuses --recompute with a sentence'
"$xtrain" --model lprnet --batch 4 --steps 1 --on-nan skip --xpu >"$work/said" 2>&1 && fail 'an XPU skips steps'
grep -q 'on-nan skip is for the CPU' "$work/said" || fail 'an XPU refuses --on-nan skip with a sentence'

# The same network once more: every kernel is in the cache now.
: >"$XT_LAYER_LOG"
"$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --val 'synth:plates?count=4&seed=4' --batch 4 --steps 1 \
  --lr 1e-4 --xpu --out "$work/again" --quiet >"$work/said" 2>&1 || fail 'a warm start'
[ "$(grep -c '^compiled' "$XT_LAYER_LOG")" = 0 ] || fail 'a warm start compiles nothing'
[ "$(grep -c '^cached' "$XT_LAYER_LOG")" -gt 50 ] || fail 'its kernels come from the cache'

golden=${XTRAIN_SHARED:-../shared}/golden
if [ -d "$golden" ]; then
  for of in 'f32 --model lprnet' ${XTRAIN_TEST_ALL:+'f32 --model resnet50' 'bf16 --model lprnet'}; do
    # shellcheck disable=SC2086 # a type and options
    "$build/tests/golden" --device xpu --amp $of "$golden" >"$work/said" 2>&1 ||
      fail "golden numbers in $of"
    tail -n 1 "$work/said"
  done
fi
echo '20 steps follow the CPU; a warm start compiles nothing'
