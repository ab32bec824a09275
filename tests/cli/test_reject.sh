#!/usr/bin/env bash
# What training finds out about the confidence is in its weights, and every command obeys it: what is rejected, by rule or
# by number; negatives. XTRAIN_TEST_ALL=1: on photographs that were not trained on, with real plates.
. tests/cli/common.sh
images=$PWD/tests/fuzz/corpus/image
shared=$(cd "${XTRAIN_SHARED:-../shared}" 2>/dev/null && pwd || true)
cd "$tree"
some='synth:plates?count=12&seed=4'
meta() { # FILE: its metadata
  head -c $((8 + $(od -An -tu8 -N8 "$1"))) "$1" | tail -c +9
}
mkdir photos
for i in {1..20}; do cp "$images/ycc_444.jpg" photos/$i.jpg; done

# At the end of training: temperature, threshold, what it does, and the negatives that were held out.
expect 0 'before temperature' "$xtrain" "${small[@]}" --threads 1 --steps 2 --val "$some" --negatives photos --reject 1 --out run
grep -qE '^negatives: of [1-9][0-9]* that were not trained on 0 are answered, and ' <<<"$said" || fail 'no negatives' "$said"
grep -qF 'rejected: what has less confidence than 1 (1); none of 12 images accepted' <<<"$said" || fail 'nothing rejected' "$said"
meta run/best.safetensors >said
for key in temperature 'reject":"1"' 'reject_rule":"1"' 'reject_evidence":"none of 12 images accepted'; do
  grep -qF "\"$key" said || fail "no $key in the weights" "$(cat said)"
done
grep -q '"reliability":{"images":12,' run/report.json || fail 'the report has no reliability'
grep -q 'all is as recorded' <<<"$("$xtrain" verify run)" || fail 'the record does not hold'

# All commands obey it, and what is given to them instead.
rejected() { # COUNT COMMAND...: so many of its lines are rejected
  local count=$1
  shift
  expect 0 '' "$@"
  [ "$(grep -c $'\t-\t.*\trejected ' <<<"$said")" = "$count" ] || fail "not $count rejected by: $*" "$said"
}
predict=("$xtrain" predict run --threads 1 --quiet)
rejected 20 "${predict[@]}" photos
rejected 0 "${predict[@]}" photos --reject none
rejected 20 "${predict[@]}" photos --reject 1
rejected 20 "$xtrain" serve run --threads 1 --stdin paths < <(ls -d photos/*)
expect 0 '"rejected":true' "${predict[@]}" photos --json
expect 2 '--reject auto:0.9 chooses a threshold on labelled images' "${predict[@]}" photos --reject auto:0.9
expect 0 'rejected: 12 below a confidence of 1 (of the weights: 1)' "$xtrain" eval run --threads 1
expect 0 '"reject_below":1,"accepted":0,"accepted_correct":0' "$xtrain" eval run --threads 1 --json
expect 0 'rejected: 12 below a confidence of 0.9 (0.9)' "$xtrain" eval run --threads 1 --reject 0.9
expect 0 'not calibrated' "$xtrain" eval run/last.safetensors --data "$some" --threads 1 --reject none
expect 0 '(keep:0.5)' "$xtrain" eval run/last.safetensors --data "$some" --threads 1 --reject keep:0.5
for type in f32 'int8 --calibrate photos'; do
  "$xtrain" export run run.onnx --type $type --quiet >/dev/null
  grep -aq 'reject_evidence.*none of 12 images accepted' run.onnx && grep -aq temperature run.onnx || fail "not in the ONNX file, $type"
done

# A run's own rule was for its training; resumed, it is there again, and weights trained from these have none of it.
expect 0 'below a confidence of 1 (1)' "$xtrain" eval run --config run/config.yaml --threads 1
expect 0 'rejected: what has less confidence than 1 (1)' "$xtrain" --resume run --steps 3 --threads 1
meta run/best.safetensors | grep -qF '"reject":"1"' || fail 'the resumed run lost its rule'
expect 0 'nothing is evaluated' "$xtrain" "${small[@]}" --threads 1 --init run/best.safetensors --steps 1 --out next
! meta next/last.safetensors | grep -q '"temperature\|"reject' || fail 'a temperature of other weights'

# Pictures of nothing are as well no class.
mkdir -p classes/{a,b} && for i in {1..8}; do cp "$images/rgba.png" classes/a/$i.png && cp "$images/cmyk_plain.jpg" classes/b/$i.jpg; done
expect 0 'negatives: of ' "$xtrain" --model resnet18 --data classes --val classes --image-size 32 --batch 4 --steps 1 --lr 1e-6 --threads 1 \
  --negatives photos --reject auto:0.5 --out of-classes
grep -qF '(auto:0.5); ' <<<"$said" || fail 'no rule' "$said"
expect 3 '--negatives: ' "$xtrain" "${small[@]}" --threads 1 --steps 1 --negatives nowhere --out none

[ -n "${XTRAIN_TEST_ALL:-}" ] || exit 0
[ -d "$shared/data/photos" ] || { echo 'skipped: no shared data'; exit 77; }
# Half of the photographs, and the plates of train; then the other half, and the plates of val.
mkdir half other && i=0
for file in "$shared"/data/photos/*; do
  i=$((i + 1))
  if [ $((i % 2)) = 0 ]; then ln -s "$file" half/; else ln -s "$file" other/; fi
done
"$xtrain" --model lprnet --init "$shared/data/weights/lprnet_sirius.pth" --data "$shared/data/plates/train" \
  --val "$shared/data/plates/val" --negatives half --negatives-part 0.2 --steps 200 --reject keep:0.98 --out reader --quiet
answered() { "$xtrain" predict reader "$@" --quiet | cut -f 2 | grep -cv '^-$' || true; }
plates=$(answered "$shared/data/plates/val") photos=$(answered other)
echo "answered: $plates of 150 plates, $photos of $(ls other | wc -l) photographs"
[ "$photos" -le 0 ] || fail 'a photograph was answered'
[ "$plates" -ge 147 ] || fail 'plates were rejected'
