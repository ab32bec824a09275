#!/usr/bin/env bash
# xtrain bench loader, data check and data split: that they say what they are for.
. tests/cli/common.sh

loader=(bench loader --model resnet50 --image-size 32 --workers 1 --batch 8 --data 'synth:shapes?count=64&size=32')
expect 0 '"decode_only_images_per_s":' "$xtrain" "${loader[@]}" --json
expect 0 '"efficiency":' "$xtrain" "${loader[@]}" --json --fit crop --flip --jitter 0.4
expect 0 'room for 64 of 64' "$xtrain" "${loader[@]}" --cache ram
expect 2 'use --cache ram' "$xtrain" "${loader[@]}" --cache disk
expect 2 'cannot be cached' "$xtrain" "${loader[@]}" --cache ram --fit crop
expect 2 'at least 1 worker and 2 batch slots' "$xtrain" "${loader[@]}" --slots 1

check=(data check --sheet "$tree/sheet.png")
expect 0 '40 made shapes of 10 kinds' "$xtrain" "${check[@]}" 'synth:shapes?count=40'
[ -s "$tree/sheet.png" ] || fail 'no contact sheet was written'
expect 0 '"duplicates_across":40' "$xtrain" "${check[@]}" --json 'synth:shapes?count=40' --against 'synth:shapes?count=60'
expect 0 'symbols: I O' "$xtrain" "${check[@]}" 'synth:plates?count=300'
expect 3 'cannot open the data' "$xtrain" "${check[@]}" "$tree/none"

# Millions of images take hours; who asks to stop is heard at once, also while --against is looked at.
stops 130 'interrupted after ' INT "$xtrain" "${check[@]}" 'synth:plates?count=3000000'
grep -qF ' of 3000000 images' <<<"$said" || fail 'how far it came is not said' "$said"
stops 75 'stopped after ' TERM "$xtrain" "${check[@]}" --model lprnet 'synth:plates?count=4' --against 'synth:plates?count=3000000'
stops 75 'stopped before ' TERM "$xtrain" bench loader --model resnet50 --data 'synth:shapes?count=64' --workers 1

pack=(data pack 'synth:plates?count=30')
expect 2 'data pack takes two words' "$xtrain" "${pack[@]}" "$tree/p" more
expect 0 "30 images (0.1 MB) in $tree/p/a-000000.tar" "$xtrain" "${pack[@]}" "$tree/p/a"
[ "$(tar tf "$tree/p/a-000000.tar" | sed 's/.*\.//' | sort | uniq -c | tr -s ' \n' ' ')" = ' 30 png 30 txt ' ] ||
  fail 'the shard does not hold 30 images and labels' "$(tar tf "$tree/p/a-000000.tar")"
expect 1 'a-000000.tar is there already' "$xtrain" "${pack[@]}" "$tree/p/a"
expect 2 'use --cache ram' "$xtrain" "${pack[@]}" "$tree/p/b" --as pixels
expect 2 'give both' "$xtrain" "${loader[@]}" --cache ram --cache-file "$tree/p/b"

plates=${XTRAIN_SHARED:-../shared}/data/plates/val
if [ -d "$plates" ]; then
  expect 2 'needs --out DIR' "$xtrain" data split "$plates"
  expect 0 "$tree/lists/val.txt" "$xtrain" data split "$plates" --out "$tree/lists" --val-part 0.2
  [ "$(cat "$tree"/lists/*.txt | sort -u | wc -l)" = "$(find "$plates" -type f | wc -l)" ] || fail 'an image is lost or twice'
  expect 0 'training takes them with --cache disk --cache-file' "$xtrain" data pack "$plates" "$tree/p/pixels" --as pixels
  expect 0 'efficiency' "$xtrain" bench loader --model lprnet --data "$plates" --cache disk --cache-file "$tree/p/pixels"
fi
