#!/usr/bin/env bash
# A run's folder stands for its weights and what they say, and for the images that the run evaluated on.
. tests/cli/common.sh
jpeg=$PWD/tests/fuzz/corpus/image/ycc_444.jpg
cd "$tree"
printf '%s' '-京沪ABCDEFGHJK0123456789' >few.txt
val='synth:plates?count=12&seed=5'
expect 3 'few.txt ends in 9, and the last symbol is the blank' "$xtrain" "${small[@]}" --alphabet few.txt --steps 2 --out run
"$xtrain" "${small[@]}" --alphabet few.txt --blank first --steps 2 --val "$val" --out run >/dev/null 2>&1
rm few.txt

# eval takes the folder, or weights in it, as an argument or by --init, and the run's own val.
expect 0 "evaluating on \`val\` of run/config.yaml: $val" "$xtrain" eval run
for form in run '--init run' run/best.safetensors '--model run'; do
  # shellcheck disable=SC2086
  "$xtrain" eval $form --json 2>/dev/null | sed 's/"latency_ms".*//' >said
  [ ! -e first ] || diff first said || fail "eval $form: another answer"
  mv said first
done
grep -qF "$val" first && grep -q '"images":12' first || fail 'another set' "$(cat first)"
expect 0 '3 plates read right' "$xtrain" eval run --data 'synth:plates?count=3&seed=1'
expect 2 'are both given; keep one' "$xtrain" eval run --init run
expect 2 'eval takes one file of weights' "$xtrain" eval run run

# The network, its symbols, and images for the ranges of int8 are known wherever they were to be named.
expect 0 'LPRNet, license plates: inference on random images of 94x24 in memory, 23 classes' "$xtrain" bench infer run --steps 1 --batch 1
expect 0 'LPRNet, license plates: training steps' "$xtrain" bench step run --steps 1 --batch 2
expect 0 'to the first step' "$xtrain" bench start run --batch 1
expect 2 'warmup is for XPUs' "$xtrain" warmup run --batch 1
expect 2 'and "run" is weights; give them by --init' "$xtrain" --model run
expect 0 'small shapes' "$xtrain" selftest run --small
expect 0 'gradient backbone.0.weight ' "$xtrain" selftest --step run/best.safetensors --bn batch
expect 0 '' "$xtrain" data check --model run 'synth:plates?count=4'
expect 0 'by the recipe for given weights' "$xtrain" --init run --data 'synth:plates?count=8' --steps 1 --batch 4 --out next

# A resumed run retains where its settings came from when it began; names of networks are taken in any case.
expect 0 'by the recipe for given weights' "$xtrain" --resume next --steps 2
for line in '^batch: 4 .*# command line$' '^optim: adamw .*# recipe of lprnet$' '^steps: 2 .*# command line$' '^on_nan: .*# default$'; do
  grep -q "$line" next/config.yaml || fail "no $line" "$(cat next/config.yaml)"
done

# What is held out, by the seed, is evaluated by the run and afterwards; pictures of one plate are in one part.
mkdir twice && for n in 0 1 2 3 4 5 6 7; do cp "$jpeg" twice/京A1234${n}_1.jpg && cp "$jpeg" twice/京A1234${n}_2.jpg; done
for seed in 1 2; do
  expect 0 ' of 16 images in twice' "$xtrain" --model lprnet --data twice --batch 4 --threads 1 --val-part 0.25 --seed $seed --steps 1 --out held$seed
  expect 0 'held out of ' "$xtrain" eval held$seed --show 9 --json
  grep -o '京A1234.[^"]*jpg' <<<"$said" | sort >held$seed.txt
  [ "$(sed 's/_.*//' held$seed.txt | uniq -c | awk '{ print $1 }' | sort -u)" = 2 ] || fail 'pictures of one plate are in both parts' "$(cat held$seed.txt)"
done
! cmp -s held1.txt held2.txt || fail 'the seed holds out the same'
expect 2 'holds out a part of --data, --val names other images' "$xtrain" "${small[@]}" --val-part 0.25 --val "$val" --steps 2
mkdir LPRNet && expect 0 'model: lprnet ' "$xtrain" --model LPRNet --print-config
expect 0 'model: resnet50 ' "$xtrain" --model ResNet-50 --print-config
expect 0 'int8: ranges from 4 of' "$xtrain" predict run --data "$val" --amp int8 --calibrate-images 4

# Weights that say nothing are taken for what those say that they are compared with.
command -v python3 >/dev/null || exit 0
python3 - <<'PLAIN'
import json, struct
data = open("run/best.safetensors", "rb").read()
size, = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + size])
header.pop("__metadata__")
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
open("plain.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + size:])
PLAIN
expect 0 'different predictions: 0 of 12' "$xtrain" diff plain.safetensors run --data "$val"
