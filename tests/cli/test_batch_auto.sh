#!/usr/bin/env bash
# --batch auto: says what it takes and why, keeps it for the run, and is refused where it makes no sense. That it is the
# largest that fits is tests/xpu/test_xpu_memory.c's, where the memory is the test's to say.
. tests/cli/common.sh

images=(--model lprnet --data 'synth:plates?count=24&seed=3')
# The lines that speak of it, with figures of memory as N.
lines() { grep -e '--batch auto' <<<"$said" | sed -E 's/[0-9]+\.[0-9]+ GB/N GB/g'; }
says() { [ "$(lines)" = "$1" ] || fail "expected \"$1\", got:" "$said"; }

# A run takes all images where the memory has room for more, and writes the number down.
train=("${images[@]}" --threads 1 --save-every 1)
expect 0 '24 steps of 24 images' "$xtrain" "${train[@]}" --steps 24 --stop-after 0.01s --batch auto --dry-run
expect 0 '2 steps of 24 images' "$xtrain" "${train[@]}" --steps 2 --batch auto --out "$tree/run"
says '--batch auto takes 24: all the images, for N GB of the N GB of memory that are free; --lr 0.002 stays, though what suits and what accuracy comes of it depend on the batch'
grep -qx 'batch: 24 *# the result of auto' "$tree/run/config.yaml" || fail "$(grep batch "$tree/run/config.yaml")"

# Either way to resume continues with the original batch.
expect 0 'step 2 of 3' "$xtrain" --config "$tree/run/config.yaml" --steps 3 --resume auto --out "$tree/run"
says ''
expect 0 '2 steps of 6 images' "$xtrain" "${train[@]}" --steps 2 --batch 6 --out "$tree/six"
expect 0 '3 steps of 6 images' "$xtrain" "${train[@]}" --steps 3 --batch auto --resume auto --out "$tree/six"
says "--batch auto takes 6, as in the run of $tree/six/state-00000002.safetensors"
expect 0 '4 steps of 6 images' "$xtrain" "${train[@]}" --steps 4 --batch auto --resume "$tree/six"
printf 'batch: auto\n' >"$tree/auto.yaml"
expect 0 '1 step of 24 images' "$xtrain" "${images[@]}" --config "$tree/auto.yaml" --steps 1 --dry-run
expect 3 'there is no such file' "$xtrain" "${train[@]}" --batch auto --resume "$tree/nowhere"

# Evaluation and prediction.
weights=$tree/run/last.safetensors
expect 0 'images' "$xtrain" eval --init "$weights" --data 'synth:plates?count=10&seed=4' --batch auto
says '--batch auto takes 10: all the images, for N GB of the N GB of memory that are free'
expect 0 'batch' "$xtrain" eval --init "$weights" --data 'synth:plates?count=10&seed=4' --batch auto --lprnet-norm batch
says "--batch auto takes 10: all the images, for N GB of the N GB of memory that are free; this network's context norm is over the batch: another batch gives other answers"
bf16=$(! cpu_has bf16 || echo bf16,)
expect 0 'int8' "$xtrain" eval --init "$weights" --data 'synth:plates?count=10&seed=4' --batch auto --compare "${bf16}f32,int8"
says '--batch auto takes 10: all the images, for N GB of the N GB of memory that are free'

expect 2 '--batch takes auto or a whole number from 1 to 65536, not "autp"; did you mean auto?' "$xtrain" "${images[@]}" --batch autp
expect 2 '--batch auto is not supported by xtrain bench loader; give a number' "$xtrain" bench loader "${images[@]}" --batch auto
expect 2 'batch auto is not supported by xtrain warmup; give a number' "$xtrain" warmup "${images[@]}" --batch auto

# Recomputed activations need no memory: more images fit, and the dry run says why.
fits() {
  { "$xtrain" --model resnet50 --data 'synth:shapes?count=20000' --batch 16384 --threads 1 --dry-run "$@" 2>&1 || true; } |
    sed -n 's/.*; --batch \([0-9]*\) fits.*/\1/p'
}
stored=$(fits) recomputed=$(fits --recompute)
[ -n "$stored" ] && [ "$recomputed" -gt $((stored * 6 / 5)) ] || fail "--recompute lets $recomputed images fit, $stored without"
expect 0 '--recompute: the outputs of 44 batch norms are recomputed instead of stored, ' "$xtrain" --model resnet50 --batch 4 --threads 1 \
  --recompute --dry-run
