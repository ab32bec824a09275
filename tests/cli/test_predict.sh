#!/usr/bin/env bash
# predict reads whatever eval reads, names classes, and prints no name that could command a terminal; --json ends with
# one object on one line.
. tests/cli/common.sh
images=$PWD/tests/fuzz/corpus/image
cd "$tree"
predict=("$xtrain" predict --threads 1)
"$xtrain" "${small[@]}" --threads 1 --steps 2 --val 'synth:plates?count=4&seed=4' --out run --quiet

# Folders, lists with labels and without, tars, synthetic plates, a mixture, and several of them at once.
mkdir good && cp "$images/ycc_444.jpg" good/京A12311_1.jpg && cp "$images/rgba.png" good/沪B54311_1.png
cp "$images/ycc_444.jpg" good/no-label.jpg
printf 'good/京A12311_1.jpg\t京A12311\ngood/no-label.jpg\n' >list.txt
printf '京A12311' >1.txt && cp "$images/ycc_444.jpg" 1.jpg && tar -cf shard.tar 1.jpg 1.txt
answers() { # COUNT ARGUMENT...: prints COUNT lines of predictions
  local count=$1
  shift
  expect 0 '' "${predict[@]}" --quiet run/best.safetensors "$@"
  [ "$(wc -l <<<"$said")" = "$count" ] || fail "not $count answers from: $*" "$said"
}
answers 3 good
answers 2 list.txt
answers 1 shard.tar
answers 5 'synth:plates?count=5&seed=9'
answers 5 --data list.txt good
answers 2 --data list.txt
expect 2 'xtrain predict needs WEIGHTS' "${predict[@]}" run/best.safetensors
printf 'GIF89a...............' >plate.gif
expect 3 'could not be read' "${predict[@]}" run/best.safetensors plate.gif
grep -q 'looks like a GIF; convert it first' <<<"$said" || fail 'the format is not named' "$said"
expect 3 '/etc/passwd is not an image, and not a list of images' "${predict[@]}" run/best.safetensors /etc/passwd
expect 3 'did you mean list.txt?' "${predict[@]}" run/best.safetensors lisst.txt
printf 'good/京A12311_1.jpg\nnowhere.jpg\n' >gone.txt
expect 3 '1 of 2 files could not be read' "${predict[@]}" run/best.safetensors gone.txt

# A run's folder stands for its weights; one without weights is refused.
expect 0 'taking the weights run/best.safetensors' "${predict[@]}" run good
expect 0 'taking the weights run/best.safetensors' "$xtrain" eval --init run --data 'synth:plates?count=4&seed=4'
expect 3 'good is a folder with neither best.safetensors nor last.safetensors' "${predict[@]}" good good

# Names that are commands to a terminal, or lines of their own.
mkdir odd && cp "$images/ycc_444.jpg" odd/$'a\e[2Jb\nc.jpg' && cp "$images/ycc_444.jpg" odd/$'\xbe\xa9.jpg'
: >odd/$'z\e[31m.jpg'
expect 3 'odd/z\x1B[31m.jpg is empty' "${predict[@]}" run odd
grep -qF 'odd/a\x1B[2Jb\x0Ac.jpg' <<<"$said" || fail 'the name is not escaped' "$said"
! grep -q $'\e' <<<"$said" || fail 'an escape came through' "$said"
rm odd/$'z\e[31m.jpg'
"${predict[@]}" run odd --json --quiet >json
iconv -f utf-8 -t utf-8 json >/dev/null || fail 'the JSON is not UTF-8'
expect 0 '"images":2,"answered":2,"unreadable":0,"seconds":' tail -n 1 json

# Error messages escape what weights say of themselves.
header='{"__metadata__":{"model":"a\u001b[2Jb"}}'
{ printf '%b' "\\x$(printf '%x' ${#header})\\0\\0\\0\\0\\0\\0\\0"; printf '%s' "$header"; } >meta.safetensors
expect 3 'a\x1B[2Jb' "${predict[@]}" meta.safetensors good

# eval --show N --json: the answers are in the one object.
expect 0 '"predictions":[{"path":"synth:plates #0","label":"' "$xtrain" eval --init run --data 'synth:plates?count=4&seed=4' \
  --show 2 --json --quiet --threads 1
[ "$(wc -l <<<"$said")" = 1 ] && [ "$(grep -o '"right":' <<<"$said" | wc -l)" = 2 ] || fail 'not one object with two answers' "$said"
expect 2 '--top: lprnet reads plates' "${predict[@]}" run good --top 3

# Classes have their names in the text.
mkdir -p two/cat 'two/small dog' && cp "$images/ycc_444.jpg" two/cat/ && cp "$images/rgba.png" 'two/small dog/'
"$xtrain" --model resnet18 --data two --image-size 32 --batch 2 --threads 1 --steps 1 --lr 1e-6 --out classes --quiet
expect 0 '' "${predict[@]}" --quiet classes two/cat --top 2
grep -qP '^two/cat/ycc_444.jpg\t(cat|small dog)\t[0-9.]+\t(cat|small dog) [0-9.]+\t(cat|small dog) [0-9.]+$' <<<"$said" ||
  fail 'the classes are not named' "$said"
expect 0 '' "${predict[@]}" --quiet classes two --top 1
[ "$(awk -F'\t' '{ print NF }' <<<"$said" | sort -u)" = 4 ] || fail 'not one class' "$said"

# Messages with date and time.
"$xtrain" eval --init run --data 'synth:plates?count=4&seed=4' --threads 1 --log-time 2>notes >/dev/null
grep -qE '^20[0-9-]{8}T[0-9:]{8}[+-][0-9]{4} taking' notes || fail 'no date and time' "$(cat notes)"
