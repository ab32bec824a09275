#!/usr/bin/env bash
# Weights as other training scripts save them: wrapped, prefixed, of another network, or never trained.
. tests/cli/common.sh
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
pth() { python3 "$writer" "$@"; }
writer=$PWD/tests/cli/write_pth.py
cd "$tree"
"$xtrain" "${small[@]}" --steps 4 --out run >/dev/null 2>&1
"$xtrain" --model mobilenet_v3_small --data 'synth:shapes?count=4&seed=1' --image-size 32 --batch 4 --steps 1 --out other >/dev/null 2>&1
images=(--data 'synth:plates?count=16&seed=5')
score() { "$xtrain" eval "$@" "${images[@]}" --json 2>/dev/null | grep -o '"correct":.*"char_accuracy":[^,]*'; }
right=$(score run)

# Prefixes of wrappers are skipped where all names have them, and that is said; the network is recognised.
while read -r prefix under; do
  pth run/last.safetensors a.pth prefix="$prefix" ${under:+under="$under"}
  [ "$(score a.pth)" = "$right" ] || fail "$prefix $under: another answer" "$(score a.pth)" "$right"
  expect 0 "its tensors begin with \"$prefix\", which is skipped" "$xtrain" eval a.pth "${images[@]}"
done <<'KINDS'
model. state_dict
module. net
net.model.module. model.state_dict
_orig_mod. model_state_dict
KINDS

# Weights of another network are named, and no part of them is taken.
pth other/last.safetensors other.pth prefix=model.
train=("$xtrain" "${small[@]}" --steps 1 --out next --resume auto)
expect 3 'these look like weights of MobileNetV3' "${train[@]}" --init other.pth
expect 3 '(--model mobilenet_v3_small)' "${train[@]}" --init other.pth
expect 3 'these look like weights of LPRNet' "$xtrain" --model mobilenet_v3_small --data 'synth:shapes?count=4&seed=1' --image-size 32 \
  --batch 4 --steps 1 --out shapes --init a.pth
! grep -q 'its last layer' <<<"$said" || fail 'a last layer that is not in the file' "$said"
expect 3 'too few to start from' "${train[@]}" --init other.pth --init-partial
expect 3 'fits 0 of the network' "${train[@]}" --init other.pth --init-partial

# Only weights that were trained without batch statistics keep theirs frozen: not those that were not trained at all.
pth run/last.safetensors frozen.pth statistics=initial
expect 0 'so it was trained without' "${train[@]}" --init frozen.pth
rm -r next
pth run/last.safetensors fresh.pth statistics=initial affine=initial
expect 0 'saving to' "${train[@]}" --init fresh.pth
! grep -q 'trained without' <<<"$said" || fail 'weights that were never trained are called trained' "$said"
