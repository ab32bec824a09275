#!/usr/bin/env bash
# xtrain bench loader, data check and data split: that they say what they are for.
. tests/cli/common.sh

loader=(bench loader --model resnet50 --image-size 32 --workers 1 --batch 8 --data 'synth:shapes?count=64&size=32')
expect 0 '"decode_only_images_per_s":' "$xtrain" "${loader[@]}" --json --fit crop --flip --jitter 0.4
grep -q '"efficiency":' <<<"$said" || fail 'the loader is not compared with decoding' "$said"
expect 0 'room for 64 of 64' "$xtrain" "${loader[@]}" --cache ram
expect 2 'use --image-cache ram' "$xtrain" "${loader[@]}" --cache disk
expect 2 'cannot be cached' "$xtrain" "${loader[@]}" --cache ram --fit crop
expect 2 'at least 1 worker and 2 batch slots' "$xtrain" "${loader[@]}" --slots 1

(cd "$tree" && "$xtrain" data check 'synth:shapes?count=40' >/dev/null)
[ -z "$(ls "$tree")" ] || fail 'data check writes an unrequested file' "$(ls "$tree")"
check=(data check --sheet "$tree/sheet.png")
expect 0 '40 synthetic shapes of 10 kinds' "$xtrain" "${check[@]}" 'synth:shapes?count=40'
[ -s "$tree/sheet.png" ] || fail 'no contact sheet was written'
expect 0 '"duplicates_across":40' "$xtrain" "${check[@]}" --json 'synth:shapes?count=40' --against 'synth:shapes?count=60'
expect 0 'symbols: I O' "$xtrain" "${check[@]}" 'synth:plates?count=300'
expect 3 'cannot open the data' "$xtrain" "${check[@]}" "$tree/none"

# Millions of images take hours; a request to stop is obeyed at once, also while --against is read.
stops 130 'interrupted after ' INT "$xtrain" "${check[@]}" 'synth:plates?count=3000000'
grep -qF ' of 3000000 images' <<<"$said" || fail 'how far it came is not said' "$said"
stops 75 'stopped after ' TERM "$xtrain" "${check[@]}" --model lprnet 'synth:plates?count=4' --against 'synth:plates?count=3000000'
stops 75 'stopped before ' TERM "$xtrain" bench loader --model resnet50 --data 'synth:shapes?count=64' --workers 1

pack=(data pack 'synth:plates?count=30')
expect 2 'data pack takes two arguments' "$xtrain" "${pack[@]}" "$tree/p" more
expect 0 "30 images (0.1 MB) in $tree/p/a-000000.tar" "$xtrain" "${pack[@]}" "$tree/p/a"
[ "$(tar tf "$tree/p/a-000000.tar" | sed 's/.*\.//' | sort | uniq -c | tr -s ' \n' ' ')" = ' 30 png 30 txt ' ] ||
  fail 'the shard does not hold 30 images and labels' "$(tar tf "$tree/p/a-000000.tar")"
expect 0 "\"path\":\"$tree/p/json\",\"images\":30,\"bad_images\":0," "$xtrain" "${pack[@]}" "$tree/p/json" --json
expect 1 'a-000000.tar exists already' "$xtrain" "${pack[@]}" "$tree/p/a"
expect 2 'use --image-cache ram' "$xtrain" "${pack[@]}" "$tree/p/b" --as pixels
expect 2 'give both' "$xtrain" "${loader[@]}" --cache ram --cache-file "$tree/p/b"

images=(tests/fuzz/corpus/image/*.jpg)

# What the labels are of shows in them; what would end training ends this, once it is all said.
cp "${images[0]}" "$tree/1.jpg"
for i in 1 2 3 4 5 6 7 8; do cp "$tree/1.jpg" "$tree/x$i.jpg"; printf 'x%d.jpg\t京A1234%d\n' $i $i; done >"$tree/plates.txt"
sed 's/京A1234[1-4]/cat/; s/京A1234[5-8]/TRUCK/' "$tree/plates.txt" >"$tree/classes.txt"
expect 0 'checked for lprnet' "$xtrain" "${check[@]}" "$tree/plates.txt"
expect 0 'checked for resnet50' "$xtrain" "${check[@]}" "$tree/classes.txt"
expect 0 'if the labels are plates, give --model lprnet' "$xtrain" "${check[@]}" "$tree/plates.txt" --model resnet50
train=(train --steps 1 --device cpu --out "$tree/run" --quiet)
mkdir -p "$tree/flat" "$tree/folders"/{cat,dog}
cp "$tree/1.jpg" "$tree/flat/京A12345.jpg"
cp "$tree/1.jpg" "$tree/flat/京A12346.jpg"
cp "$tree/1.jpg" "$tree/folders/cat/a.jpg"
cp "$tree/1.jpg" "$tree/folders/dog/0007.jpg"
expect 3 'if the labels are plates, give --model lprnet' "$xtrain" "${train[@]}" --model resnet50 --data "$tree/flat" --batch 1
expect 3 'if there is a folder for each class, give --model resnet50' "$xtrain" "${train[@]}" --model lprnet --data "$tree/folders" --batch 1
rm "$tree/folders/cat/a.jpg"
cp "$tree/1.jpg" "$tree/folders/cat/0008.jpg"
expect 0 'if there is a folder for each class, give --model resnet50' "$xtrain" "${check[@]}" --model lprnet "$tree/folders"
printf '1.jpg\t京A12345\n1.jpg\t京a\n' >"$tree/unusable.txt"
expect 3 'has the symbol a' "$xtrain" "${check[@]}" --model lprnet "$tree/unusable.txt"
grep -qF 'NO LABEL' <<<"$said" || fail 'the report is missing' "$said"
expect 3 'has the symbol a' "$xtrain" "${check[@]}" --model lprnet "$tree/plates.txt" --val "$tree/unusable.txt"
expect 0 '"duplicates_across":8' "$xtrain" "${check[@]}" "$tree/plates.txt" --val "$tree/classes.txt" --model resnet50 --json
echo no image >"$tree/x1.jpg"
expect 0 'bad          1; the first' "$xtrain" "${check[@]}" "$tree/plates.txt"
expect 3 'x1.jpg is not a JPEG, PNG or WebP' "$xtrain" "${check[@]}" "$tree/plates.txt" --strict-data
grep -q 'formats' <<<"$said" && fail 'it went on' "$said"
cp "$tree/x1.jpg" "$tree/x2.jpg"
expect 3 '2 of 8 images cannot be used' "$xtrain" "${check[@]}" "$tree/plates.txt"
grep -qF 'formats' <<<"$said" || fail 'the report is missing' "$said"

# One is one, and what was said of it is not said again.
cp "$tree/1.jpg" "$tree/x2.jpg"
sed -n '1,4p' "$tree/plates.txt" >"$tree/bad.txt"
expect 0 '1 step of 2 images' "$xtrain" train --model lprnet --device cpu --out "$tree/run1" --steps 1 --data "$tree/plates.txt" --batch 2
expect 0 '1 image could not be used and does not count' "$xtrain" train --model lprnet --device cpu --out "$tree/run2" --steps 3 \
  --eval-every 1 --data "$tree/bad.txt" --val "$tree/bad.txt" --batch 1
[ "$(grep -c 'could not be used' <<<"$said")" = 1 ] || fail 'it is said at each evaluation' "$said"
sed 's/cat$/a cat/' "$tree/classes.txt" >"$tree/blank.txt"
cp "$tree/1.jpg" "$tree/x1.jpg"
expect 0 'classes seen fewer than 5 times: TRUCK "a cat"' "$xtrain" "${check[@]}" "$tree/blank.txt"

# Evaluating on what is trained on is said.
sed -n '3,8p' "$tree/plates.txt" >"$tree/both.txt"
expect 0 "6 of the 6 images to evaluate on ($tree/both.txt) are among the training images too" \
  "$xtrain" "${train[@]}" --model lprnet --data "$tree/both.txt" --val "$tree/both.txt" --batch 2

# A file that is no image is named with -v; no message of the program tells anybody to remove anything.
removing=$(grep -rnE '"[^"]*\b(remove|delete) (it|them|this|that|the (file|folder|image|picture)s?)\b' --include='*.c' cli data infer models runs train || true)
[ -z "$removing" ] || fail "$removing"
mkdir -p "$tree/one" && echo x >"$tree/one/notes.txt"
expect 3 'notes.txt is ignored' "$xtrain" data check --model lprnet "$tree/one" -v
: >"$tree/one/car.HEIC" && cp "${images[0]}" "$tree/one/京A12345.jpg"
# One is on its side by its Exif data; nothing is written unless --sheet asks for it.
{
  head -c 2 "${images[0]}"
  printf '\xff\xe1\0\x22Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0'
  tail -c +3 "${images[0]}"
} >"$tree/one/京A54321.jpg"
expect 0 'turned       1 by their Exif orientation' env -C "$tree/one" "$xtrain" data check --model lprnet .
[ "$(ls "$tree/one" | wc -l)" = 4 ] || fail 'data check writes what was not asked for' "$(ls "$tree/one")"
expect 0 '1 picture skipped, of formats that are not read (.HEIC)' "$xtrain" data check --model lprnet "$tree/one"

# What is split can be read again, or is not split.
mkdir -p "$tree"/set/{'a dog','cat "x"'}
for i in 1 2 3 4 5 6; do cp "${images[0]}" "$tree/set/a dog/$i.jpg"; cp "${images[0]}" "$tree/set/cat \"x\"/$i ä.jpg"; done
split=(data split "$tree/set" --val-part 0.5 --out)
expect 0 "$tree/s1/val.txt" "$xtrain" "${split[@]}" "$tree/s1"
expect 0 "\"path\":\"$tree/s3\",\"train\":5,\"val\":7," "$xtrain" "${split[@]}" "$tree/s3" --json
cat "$tree"/s1/*.txt >"$tree/both.txt"
expect 0 '{"label":"a dog","count":6}' "$xtrain" "${check[@]}" --json "$tree/both.txt"
expect 0 '{"label":"cat \"x\"","count":6}' "$xtrain" "${check[@]}" --json "$tree/both.txt"
expect 1 "$tree/s1/train.txt exists" "$xtrain" "${split[@]}" "$tree/s1" --seed 5
rm "$tree/s1/train.txt"
expect 1 "$tree/s1/val.txt exists" "$xtrain" "${split[@]}" "$tree/s1" --seed 5
mv "$tree/set/a dog/1.jpg" "$tree/set/a dog/"$'1\t2.jpg'
expect 3 'a dog/1?2.jpg contains a tab' "$xtrain" "${split[@]}" "$tree/s2"
mv "$tree/set/a dog/"$'1\t2.jpg' "$tree/set/a dog/"$'1\n.jpg'
expect 3 'a dog/1?.jpg contains a tab' "$xtrain" "${split[@]}" "$tree/s2"
mv "$tree/set/a dog/"$'1\n.jpg' "$tree/set/a dog/1.jpg"
mv "$tree/set/a dog" "$tree/set/a dog "
expect 3 'the class "a dog " ends in a space' "$xtrain" "${split[@]}" "$tree/s2"
[ ! -e "$tree/s2" ] || fail 'a list was written'

plates=${XTRAIN_SHARED:-../shared}/data/plates/val
if [ -d "$plates" ]; then
  expect 2 'needs --out DIR' "$xtrain" data split "$plates"
  expect 0 "$tree/lists/val.txt" "$xtrain" data split "$plates" --out "$tree/lists" --val-part 0.2
  [ "$(cat "$tree"/lists/*.txt | sort -u | wc -l)" = "$(find "$plates" -type f | wc -l)" ] || fail 'an image is lost or twice'
  expect 0 'training takes them with --image-cache disk --image-cache-file' "$xtrain" data pack "$plates" "$tree/p/pixels" --as pixels
  expect 0 'efficiency' "$xtrain" bench loader --model lprnet --data "$plates" --cache disk --cache-file "$tree/p/pixels"
fi
