#!/usr/bin/env bash
# The published weights with another alphabet: real plates of the symbols that remain are read as before, nothing new is
# answered, and what is new and dropped is said.
. tests/cli/common.sh
shared=${XTRAIN_SHARED:-../shared}
[ -d "$shared/data/plates" ] || { echo 'skipped: no shared data'; exit 77; }
shared=$(cd "$shared" && pwd)/data
cd "$tree"
published=$shared/weights/lprnet_sirius.pth
# The same, by a step too small to change an answer: weights that name their symbols.
"$xtrain" --model lprnet --init "$published" --data "$shared/plates/val" --steps 1 --batch 4 --lr 1e-12 --threads 1 --out own --quiet
weights=own/last.safetensors
provinces=京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂川贵云藏陕甘青宁新 # but 琼
rest=0123456789ABCDEFGHJKLMNPQRSTUVWXYZ

right() { sed -n 's/^\([0-9]*\) of 150 plates read right.*/\1/p' <<<"$said"; }
evaluate() { expect 0 'of 150 plates read right' "$xtrain" eval --init "$weights" --data "$shared/plates/val" --threads 1 "$@"; }
evaluate
before=$(right)
! grep -q 'is kept' <<<"$said" || fail 'its own alphabet is another' "$said"

# Three for three, in another order and with another blank: the inputs of the others' logits are unchanged.
printf '%s' "${rest}港澳${provinces}学_" >swapped.txt
evaluate --alphabet swapped.txt
grep -qF 'has 68 symbols, the blank among them: the weights of 65 of the 68 here are retained; new: 港, 澳, 学; dropped: 琼, I, O' <<<"$said" ||
  fail 'not said' "$said"
[ "$(right)" = "$before" ] || fail "$(right) right, $before before" "$said"

# Fewer, and more than were dropped: LPRNet's context takes a mean over the symbols' own channels, so that what is dropped
# or new moves the logits a little.
printf '%s' "$provinces$rest-" >fewer.txt
evaluate --alphabet fewer.txt
[ "$(right)" -ge $((before - 1)) ] || fail "$(right) right, $before before" "$said"
printf '%s' "$provinces${rest}港澳学警使领IO琼-" >more.txt
evaluate --alphabet more.txt
[ "$(right)" -ge $((before - 1)) ] || fail "$(right) right, $before before" "$said"

# Weights that do not name theirs: as many are taken in the order given, else they are those of Chinese plates.
weights=$published
expect 0 'does not name its symbols: they are assumed to be those of swapped.txt, in that order' \
  "$xtrain" predict "$weights" --model lprnet --alphabet swapped.txt --threads 1 "$shared/plates/val"
expect 0 'does not name its symbols: they are assumed to be the 68 of Chinese plates' \
  "$xtrain" predict "$weights" --model lprnet --alphabet fewer.txt --threads 1 "$shared/plates/val"
weights=own/last.safetensors

# Trained on, the weights are the new alphabet's.
expect 0 'the given weights: ' "$xtrain" --model lprnet --init "$weights" --alphabet swapped.txt --data "$shared/plates/val" \
  --val "$shared/plates/val" --steps 1 --batch 4 --threads 1 --out run
[ "$(sed -n 's/^the given weights: \([0-9]*\) of 150.*/\1/p' <<<"$said")" = "$before" ] || fail 'other weights at the start' "$said"
expect 0 'metadata: alphabet is "京沪津渝' "$xtrain" diff "$weights" run
grep -qF 'container.0.weight' <<<"$said" || fail 'no tensor of the head' "$said"
