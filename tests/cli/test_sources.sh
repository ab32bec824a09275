#!/usr/bin/env bash
# Training on, and looking at, each kind of source that --data takes beside folders and lists.
. tests/cli/common.sh
jpeg=$PWD/tests/fuzz/corpus/image/ycc_444.jpg
cd "$tree"
mkdir -p ccpd/ccpd_base ccpd/splits plates
for n in 21 22 23 24; do
  cp "$jpeg" "ccpd/ccpd_base/025-95_113-1&2_14&12-13&12_2&11_1&2_14&3-0_0_${n}_27_27_33_16-37-15.jpg"
  cp "$jpeg" "plates/京A12$n.jpg"
  printf '沪B12%s' "$n" >"plates/京A12$n.txt"
done
(cd ccpd && ls ccpd_base/* >splits/train.txt)
tar -C plates -cf x-0.tar . && cp x-0.tar x-1.tar && gzip -k x-0.tar
printf '%s\n' 'epoch: 6' 'sources:' '- data: ccpd:ccpd' '- data: x-0.tar' '  weight: 2' >mix.yaml

for data in ccpd:ccpd/splits/train.txt 'x-{0..1}.tar' mix.yaml; do
  rm -rf run
  expect 0 'last.safetensors' "$xtrain" --model lprnet --data "$data" --val "$data" --batch 2 --epochs 1 --out run
done
grep -q '3 steps an epoch' <<<"$said" || fail 'the mixture says how long an epoch is' "$said"
for data in ccpd:ccpd 'ccpd:ccpd?cut=box' ccpd:ccpd/splits/train.txt 'x-{0..1}.tar' x-0.tar.gz mix.yaml; do
  expect 0 '  bad          0' "$xtrain" data check "$data" --sheet s.png
done

# Lists of CCPD hold paths, and are read as such.
expect 0 'lists/val.txt' "$xtrain" data split ccpd:ccpd --out lists --val-part 0.5
expect 0 'of CCPD' "$xtrain" data check ccpd:lists/val.txt --sheet s.png
expect 2 'is a mixture' "$xtrain" data split mix.yaml --out lists
expect 3 'is not a file' "$xtrain" data split x-0.tar --out lists

# A shard that is cut short: one bad image, and with --strict-data the end.
truncate -s 3000 x-1.tar
expect 0 'x-1.tar is cut short' "$xtrain" data check 'x-{0..1}.tar' --sheet s.png
expect 0 '1 image could not be used' "$xtrain" eval --init run/last.safetensors --data 'x-{0..1}.tar'
expect 3 'x-1.tar is cut short' "$xtrain" --model lprnet --data 'x-{0..1}.tar' --batch 2 --epochs 2 --strict-data --out run3

# Several sets are one, classes by their names; the run's settings name them all, and a resumed run reads them.
mkdir -p a/cat a/eel b/dog b/eel
for n in 1 2 3 4; do
  for class in a/cat a/eel b/dog b/eel; do cp "$jpeg" "$class/$n.jpg"; done
done
joined=("$xtrain" --model MobileNet_V3_Small --image-size 32 --batch 4 --threads 1 --data a --data b --seed 3)
expect 0 'on 16 images of 2 sets: a, b' "${joined[@]}" --val b --val a --steps 4 --out whole
grep -q "^data: \[$tree/a, $tree/b\] .*# command line" whole/config.yaml || fail 'config.yaml does not name the sets' "$(grep ^data whole/config.yaml)"
grep -q "^val: \[$tree/b, $tree/a\]" whole/config.yaml || fail 'config.yaml does not name the sets to evaluate on' "$(grep ^val whole/config.yaml)"
expect 0 'on 16 images of 2 sets: a, b' "${joined[@]}" --val b --val a --steps 4 --save-every 2 --keep 2 --out joined
"$xtrain" --config whole/config.yaml --out configured >/dev/null 2>&1
same_weights whole/last.safetensors configured/last.safetensors || fail 'by the config file the weights differ'
rm joined/state-*4.safetensors
expect 0 'step 2 of 4' "$xtrain" --resume joined
same_weights whole/last.safetensors joined/last.safetensors || fail 'the resumed run has other weights'
expect 0 'evaluating on `val` of' "$xtrain" eval joined
expect 0 'all is as recorded' "$xtrain" verify joined
expect 0 'cat' "$xtrain" data check --model resnet50 --data a --data b
grep -q '16 images of 2 sets' <<<"$said" || fail 'data check does not join the sets' "$said"
expect 0 'eel' "$xtrain" predict joined --data a --data b
expect 0 'of 16 images of 2 sets: a, b' "${joined[@]}" --val-part 0.25 --steps 1 --out part
expect 0 'held out of' "$xtrain" eval part
expect 0 'on 24 images of 2 sets' "$xtrain" --model lprnet --data plates --data 'synth:plates?count=20' --batch 4 --steps 1 --out mixed
expect 3 'a and plates are joined, so both must hold images of classes: ' "${joined[@]:0:5}" --data a --data plates
expect 2 'plates holds plates, and a images of classes: sets of different kinds cannot be joined' "$xtrain" --model lprnet --data plates --data a
expect 2 'mix.yaml is a mixture, which names its sets itself; give it alone' "$xtrain" --model lprnet --data plates --data mix.yaml
