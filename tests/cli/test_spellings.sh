#!/usr/bin/env bash
# What is understood though help spells it otherwise, and what a misspelt option is told.
. tests/cli/common.sh
cd "$tree"
config=("$xtrain" --model lprnet --print-config)

# Every name of a number type, wherever types are given; one word for them, --amp.
for name in off f32 fp32 float32 FLOAT; do expect 0 'amp: f32 ' "${config[@]}" --amp $name; done
for name in bf16 bfloat16; do expect 0 'amp: bf16 ' "${config[@]}" --amp $name; done
for name in fp16 f16 half float16; do expect 0 'amp: fp16 ' "${config[@]}" --amp $name; done
while read -r line; do
  # shellcheck disable=SC2086
  expect 0 '' "$xtrain" $line --parse-only
done <<'LINES'
warmup --model lprnet --amp float32,bfloat16
warmup --model lprnet --types f32,bf16
export w.pth m.onnx --amp half
export w.pth --out m.onnx --type float32
eval w.pth --amp fp32,bf16,int8
eval w.pth --compare f32,int8
bench infer --model lprnet --amp bf16
report runs/a --out page.html
report runs/a --page page.html
data check --data plates
data pack --data plates --out packed
data split --data plates --out lists
LINES

# Of an option given twice the last one holds.
expect 0 'batch: 4 ' "${config[@]}" --batch 3 --batch 4
expect 0 'augment: false ' "${config[@]}" --augment --no-augment
expect 0 '--seed is given more than once; the last one holds' "$xtrain" data check 'synth:plates?count=2' --seed 1 --seed 2 -v

# What is suggested is an option of that command.
expect 2 '; `xtrain devices --help` lists them' "$xtrain" devices --epoch 3
expect 2 '; `xtrain compare --help` lists them' "$xtrain" compare a b --learning-rate 3
expect 2 'did you mean --batch?' "$xtrain" eval w.pth --bach 3

expect 0 'xtrain ' "$xtrain" version
expect 0 'xtrain ' "$xtrain" -V
for command in '' train eval 'data check' 'bench step' data bench help version cache; do
  # shellcheck disable=SC2086
  expect 0 'Usage: xtrain' "$xtrain" $command -h
done
