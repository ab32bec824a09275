#!/usr/bin/env bash
# --overfit: few images are learnt by heart, or the program says which were not and where to look.
. tests/cli/common.sh
cd "$tree"
train=("$xtrain" --model lprnet --threads 1)

expect 0 'learnt by heart: all 4 by step' "${train[@]}" --data 'synth:plates?count=50&seed=3' --overfit 4 --ema 0.9 --out learnt
grep -qF '4 of 50 synthetic plates' <<<"$said" || fail 'it does not say what it trains on' "$said"
grep -qE '^augment: false|^dropout: 0 ' learnt/config.yaml || fail 'the images vary' "$(cat learnt/config.yaml)"
expect 0 'learnt by heart' "$xtrain" --resume learnt
expect 0 '"exit_reason":"learnt"' "$xtrain" --resume learnt --json

# One picture with two labels cannot be learnt.
"$xtrain" data pack 'synth:plates?count=4&seed=5' set >/dev/null
mkdir same && tar -xf set-000000.tar -C same
picture=$(find same -name '*.png' -o -name '*.jpg' | sort | head -n 1)
mkdir two && cp "$picture" "two/京A12345_1.${picture##*.}" && cp "$picture" "two/京A12346_1.${picture##*.}"
expect 1 '--overfit 2: ' "${train[@]}" --data two --overfit 2 --steps 4 --out two-run
grep -qF 'not learnt: 0 of 2 are predicted correctly after 4 steps; wrong:' <<<"$said" || fail 'it names none' "$said"
grep -qF '京A12345_1' <<<"$said" && grep -qF 'labelled 京A12346, read as' <<<"$said" || fail 'it names none' "$said"
grep -qF 'few were learnt: either the labels do not match the images' <<<"$said" || fail 'it explains nothing' "$said"

# Learnt in training, not yet in evaluation: the statistics lag behind.
expect 1 'the running statistics of the batch norms lag behind in so few steps; give it more --steps' \
  "${train[@]}" --data 'synth:plates?count=50&seed=3' --overfit 4 --steps 20 --out early

# What was typed stays; what cannot be is refused.
expect 0 'dropout: 0.5 ' "${train[@]}" --overfit 4 --dropout 0.5 --print-config
expect 2 '--overfit 9: --data two has 2 images' "${train[@]}" --data two --overfit 9
expect 2 'what --overfit takes of --data two has 1 image, fewer than one batch of 2; give --batch 1 or less' "${train[@]}" --data two --overfit 1 --batch 2
expect 2 'was made with --overfit 4' "${train[@]}" --data 'synth:plates?count=50&seed=3' --batch 4 --resume auto --out learnt
