#!/usr/bin/env bash
# xtrain diff: weights tensor by tensor, two models on images, and what it refuses.
. tests/cli/common.sh
cd "$tree"
"$xtrain" "${small[@]}" --steps 1 --threads 1 --seed 1 --out a --quiet
"$xtrain" --model lprnet --init a/last.safetensors --data 'synth:plates?count=24&seed=3' --batch 4 --freeze-until container \
  --steps 4 --lr 0.05 --sched constant --threads 1 --out b --quiet
line() { grep -qE -- "$1" <<<"$said" || fail "no line \"$1\"" "$said"; }

expect 0 '62 of 62 tensors of A are bit for bit the same in B' "$xtrain" diff a a
! grep -q metadata <<<"$said" || fail 'the same file differs' "$said"

# Only the layer that learned differs.
expect 0 '' "$xtrain" diff a b
line '^container.0.weight +68x516x1x1 +[0-9]+ +[0-9.e-]+ +[0-9.e-]+$'
line '^container.0.bias +68 '
! grep -q '^backbone.*\.weight' <<<"$said" || fail 'a frozen layer differs' "$said"
expect 0 '{"name":"container.0.weight","shape":"68x516x1x1","different":' "$xtrain" diff a b --json

# Another alphabet: shapes and metadata.
printf '%s' '京沪ABCDEFGHJK0123456789-' >few.txt
"$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --batch 4 --alphabet few.txt --steps 1 --threads 1 --out c --quiet
expect 0 'different shape: container.0.weight, 68x516x1x1 in A and 23x471x1x1 in B' "$xtrain" diff a c
line '^metadata: alphabet is ".*" in A, "京沪ABCDEFGHJK0123456789-" in B$'

# Two models on images.
images='synth:plates?count=12&seed=5'
expect 0 'different predictions: 0 of 12; only A is right on 0, only B on 0' "$xtrain" diff a a --data "$images" --threads 1
expect 0 'different predictions: ' "$xtrain" diff a b --data "$images" --threads 1 --differences list.tsv
count=$(sed -n 's/^different predictions: \([0-9]*\) of 12.*/\1/p' <<<"$said")
[ "$count" -gt 0 ] || fail 'other weights give the same answers' "$said"
[ "$(wc -l <list.tsv)" = $((count + 1)) ] || fail 'the list is not of as many' "$(cat list.tsv)"
[ "$(head -n 1 list.tsv)" = $'path\tlabel\tprediction_a\tconfidence_a\tprediction_b\tconfidence_b\tright' ] || fail 'the heading' "$(cat list.tsv)"
expect 0 "\"different\":$count," "$xtrain" diff a b --data "$images" --threads 1 --differences list.jsonl --json
[ "$(grep -c '^{"path":.*,"label":.*,"prediction_a":.*,"right_b":[a-z]*}$' list.jsonl)" = "$count" ] || fail 'the list' "$(cat list.jsonl)"

# The same as a page, with what changed in the weights; without pictures where they are private.
on_page() { grep -o "$1" page.html | wc -l; }
expect 0 'to look at: page.html' "$xtrain" diff a b --data "$images" --threads 1 --differences page.html
[ "$(on_page '"a_right":')" = "$count" ] && [ "$(on_page '"picture":"data:image/png;base64,')" = "$count" ] || fail 'not as many on the page'
[ "$(on_page '"steps":\[\[')" = $((2 * count)) ] || fail 'not what both saw at each step'
[ "$(on_page '"name":"container.0.weight","shape":"68x516x1x1"')" = 1 ] || fail 'no tensors on the page'
expect 0 'different predictions: 0 of 12' "$xtrain" diff a a --data "$images" --threads 1 --differences page.html
[ "$(on_page '"images":\[\]')" = 1 ] && [ "$(on_page '"tensors":\[\]')" = 1 ] || fail 'the same model differs on the page'
expect 0 '' "$xtrain" diff a b --data "$images" --threads 1 --differences page.html --no-images
[ "$(on_page '"picture"')" = 0 ] && [ "$(on_page '"a_right":')" = "$count" ] || fail 'a page without images has some'

# What cannot be.
expect 2 'diff needs A B' "$xtrain" diff a
expect 2 'c is a third' "$xtrain" diff a b c
expect 2 'give --data DIR with labelled ones' "$xtrain" diff a b --differences list.tsv
expect 2 'the extension selects the format: .html, .tsv or .jsonl' "$xtrain" diff a b --data "$images" --differences list.txt
expect 1 'there is no folder nowhere' "$xtrain" diff a b --data "$images" --differences nowhere/list.tsv
head -c 90000 b/last.safetensors >cut.safetensors
expect 3 'it was cut short' "$xtrain" diff a cut.safetensors --data "$images" --threads 1
"$xtrain" --model resnet18 --data 'synth:shapes?count=4' --image-size 32 --batch 2 --threads 1 --steps 1 --out classes --quiet >/dev/null
for two in 'a classes' 'classes a'; do
  # shellcheck disable=SC2086
  expect 2 'a/last.safetensors reads plates and classes/last.safetensors classifies images' "$xtrain" diff $two --data "$images" --threads 1
done
expect 3 'is a checkpoint' "$xtrain" diff a/state-*.safetensors b
expect 3 'cannot open' "$xtrain" diff a nowhere
