#!/usr/bin/env bash
# --reduce-type bf16: what rounding takes off a gradient is added in the next step, and is in the checkpoints. XTRAIN_TEST_ALL=1:
# plates are learnt by heart as with float32.
. tests/mpi/common.sh
run=(--model lprnet --data 'synth:plates?count=48&seed=3' --batch 8 --lr 1e-4 --save-every 5 --keep 2 --log-every 1 --quiet)

"${two[@]}" "${run[@]}" --steps 10 --out f32 >said 2>&1 || fail 'two ranks failed' "$(cat said)"
"${two[@]}" "${run[@]}" --steps 10 --reduce-type bf16 --out bf16 >said 2>&1 || fail 'gradients in bf16 failed' "$(cat said)"
follows f32 bf16 5e-4

# From a checkpoint, the same bits; by another number of ranks, the same sum of what was rounded off.
grep -aq 'gradient_residual\.' bf16/state-00000005.safetensors || fail 'the residual is not in the checkpoint'
cp -r bf16 again
rm again/state-00000010.safetensors
"${two[@]}" --resume again --quiet >said 2>&1 || fail 'it does not resume' "$(cat said)"
[ "$(record bf16)" = "$(record again)" ] && same_weights bf16/last.safetensors again/last.safetensors || fail 'the resumed run is another' "$(record again)"
read -ra three <<<"$(ranks 3)"
cp -r bf16 three
rm three/state-00000010.safetensors
"${three[@]}" --resume three --quiet >said 2>&1 || fail 'three ranks do not resume' "$(cat said)"
follows bf16 three 1e-5
expect 0 'resuming from bf16/state-00000010' "${one[@]}" --resume bf16 --steps 11

[ -n "${XTRAIN_TEST_ALL:-}" ] || exit 0
learn=(--model lprnet --data 'synth:plates?count=16&seed=3' --val 'synth:plates?count=16&seed=3' --batch 8 --steps 260 --eval-every 0
  --dropout 0 --quiet)
for type in f32 bf16; do
  "${two[@]}" "${learn[@]}" --reduce-type $type --out learnt-$type >said 2>&1 || fail "$type failed" "$(cat said)"
  tail -n 1 learnt-$type/metrics.jsonl | grep -q '"correct":16,' || fail "with gradients in $type 16 plates are not learnt by heart" "$(tail -n 1 learnt-$type/metrics.jsonl)"
done
