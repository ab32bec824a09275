#!/usr/bin/env bash
# xtrain try: its stages, its result, what it names as a wrong label. XTRAIN_TEST_ALL=1: 20 wrong labels among real plates.
. tests/cli/common.sh
shared=$(cd "${XTRAIN_SHARED:-../shared}" 2>/dev/null && pwd || true)
cd "$tree"

# Six plates, known by heart; then one of them has another label. In the time all steps fit, also on a busy machine.
"$xtrain" data pack 'synth:plates?count=6&seed=4' set >/dev/null
mkdir keys plates && tar -xf set-000000.tar -C keys
for key in keys/*.txt; do mv "${key%.txt}.png" "plates/$(cat "$key")_1.png"; done
"$xtrain" --model lprnet --data plates --overfit 6 --threads 1 --out known --quiet >/dev/null
file=$(ls plates | head -n 1)
mv "plates/$file" plates/京A00000_1.png

try=("$xtrain" try plates --init known --batch 2 --threads 1)
expect 0 '1 of 6 look wrong: out/page.html shows them, out/suspects.tsv lists them' "${try[@]}" --max-time 60s --out out
for text in 'images    6 images in plates, for lprnet; 0 bad, 0 duplicates' 'few       ' 'type      ' 'training  ' 'reads     ' 'wanted    ' \
  'serve     xtrain serve out/reader'; do
  grep -qF "$text" <<<"$said" || fail "it does not say $text" "$said"
done
grep -q "京A00000_1.png"$'\t'"京A00000"$'\t'"${file%_1.png}"$'\t'0 out/suspects.tsv || fail 'another suspect' "$(cat out/suspects.tsv)"
grep -q '"suspects":\[{"path":"[^"]*京A00000_1.png".*"picture":"data:image/png' out/page.html || fail 'the page shows no suspect'
[ -s out/reader/best.safetensors ] && [ "$(cat out/half-?.txt | wc -l)" = 6 ] || fail 'files are missing' "$(ls out)"
expect 0 'below a confidence' "$xtrain" eval out/reader --threads 1
browser=$(command -v chromium || true)
[ -z "$browser" ] || "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$tree/profile" --dump-dom "file://$tree/out/page.html" 2>/dev/null |
  grep -q 'data-drawn="yes"' || fail 'the page is not drawn'

# A time in which little fits, a folder of its own name, refusals, signals.
expect 0 'labels    not judged' "${try[@]}" --max-time 0.1s --no-images
expect 0 'serve     xtrain serve runs/try-plates-2/reader' "${try[@]}" --max-time 0.1s
expect 2 '--out out exists; try needs a new folder' "${try[@]}" --out out
printf 'sources:\n  - data: plates\n' >mix.yaml
expect 2 'is a mixture; try each of its sources' "$xtrain" try mix.yaml
mkdir bad && cp plates/京A00000_1.png bad/IMG-1.png
expect 3 'IMG-1' "$xtrain" try bad
cp bad/IMG-1.png bad/IMG-2.png
expect 3 '(and 1 more like it); name each image by what is written on it' "$xtrain" try bad
mkdir same && for i in 1 2 3; do cp plates/京A00000_1.png same/CAM_$i.png; done
expect 3 'all 3 images have the label CAM, such as same/CAM_1.png; name each' "$xtrain" try same --max-time 1h
cp plates/京A00000_1.png same/A1_1.png
expect 3 '4 images are too few: a part of 0.0001 for evaluation has 0 of them' "$xtrain" try same --val-part 0.0001
stops 75 'xtrain try is not resumed' TERM "${try[@]}" --max-time 1h --out stopped

# Classes: the half of each, and networks of which little is known.
mkdir -p classes/{a,b}
for i in {1..8}; do cp plates/京A00000_1.png classes/a/$i.png && cp "plates/$(ls plates | tail -n 1)" classes/b/$i.png; done
expect 0 '16 images of 2 classes in classes, for mobilenet_v3_small; 0 bad, 14 duplicates' \
  "$xtrain" try classes --model mobilenet_v3_small --image-size 32 --threads 1 --max-time 0.1s --out of-classes
[ "$(grep -c /classes/a/ of-classes/half-a.txt)" = 4 ] || fail 'a class is not halved' "$(cat of-classes/half-a.txt)"
grep -q "^clip: 5" of-classes/few/config.yaml || fail "gradients of few images are not clipped" "$(cat of-classes/few/config.yaml)"

# The same picture in two classes: right half of the time, and never sure.
mkdir -p alike/{a,b}
for i in {1..8}; do cp plates/京A00000_1.png alike/a/$i.png && cp plates/京A00000_1.png alike/b/$i.png; done
expect 0 'serve     xtrain serve of-alike/reader --reject none' \
  "$xtrain" try alike --model mobilenet_v3_small --image-size 32 --threads 1 --max-time 0.1s --seed 3 --out of-alike
grep -q ' images accepted: above no confidence are 99 % of the answers right' <<<"$said" || fail 'what is accepted' "$said"

[ -n "${XTRAIN_TEST_ALL:-}" ] || exit 0
[ -d "$shared/data/plates" ] || { echo 'skipped: no shared data'; exit 77; }
# 20 wrong labels, of each 42nd plate: one symbol that is another, or the label of another plate.
mkdir planted && number=0 last=
for path in "$shared"/data/plates/{train,val}/*; do
  number=$((number + 1)) name=$(basename "$path") label=${name%%[_.]*}
  if [ $((number % 42)) = 0 ]; then
    wrong=$last
    if [ $((number % 84)) = 0 ]; then
      k=$((number / 84 % 6 + 1)) symbol=7
      [ "${label:k:1}" != 7 ] || symbol=K
      wrong=${label:0:k}$symbol${label:k+1}
    fi
    cp "$path" "planted/${wrong}_wrong$number.jpg"
  else
    cp "$path" "planted/${label}_$number.jpg"
  fi
  last=$label
done
[ "$(ls planted | grep -c wrong)" = 20 ] || fail 'not 20 are planted'
"$xtrain" try planted --init "$shared/data/weights/lprnet_sirius.pth" --max-time 3m --out found --quiet >/dev/null
found=$(sed -n 2,31p found/suspects.tsv | grep -c _wrong || true)
echo "$found of 20 wrong labels are among the first 30"
[ "$found" -ge 15 ] || fail 'too few' "$(head -n 40 found/suspects.tsv)"
