#!/usr/bin/env bash
# What is understood though help spells it otherwise, and what a misspelt option is told.
. tests/cli/common.sh
configs=$PWD/configs
cd "$tree"
config=("$xtrain" --model lprnet --print-config)

# Every name of a number type, wherever types are given; one word for them, --amp.
for name in off f32 fp32 float32 FLOAT; do expect 0 'amp: f32 ' "${config[@]}" --amp $name; done
# Alone it is bf16, and the next option is that option.
expect 0 'amp: bf16 ' "${config[@]}" --amp
expect 0 'amp: bf16 ' "$xtrain" --amp --model lprnet --print-config
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

expect 0 'reduce_type: bf16 ' "${config[@]}" --reduce-type BFloat16
printf 'model: lprnet\namp: float32\n' >types.yaml
expect 0 'amp: f32 ' "$xtrain" --config types.yaml --print-config
expect 2 'takes f32 or bf16, not' "${config[@]}" --reduce-type half

# Of an option given twice the last one holds.
expect 0 'batch: 4 ' "${config[@]}" --batch 3 --batch 4
expect 0 'augment: false ' "${config[@]}" --augment --no-augment
expect 0 '--seed is given more than once; the last one holds' "$xtrain" data check 'synth:plates?count=2' --seed 1 --seed 2 -v

# What is suggested, and listed, is what that command takes.
expect 2 '; `xtrain devices --help` lists them' "$xtrain" devices --epoch 3
expect 2 '; `xtrain compare --help` lists them' "$xtrain" compare a b --learning-rate 3
expect 2 'did you mean --batch?' "$xtrain" eval w.pth --bach 3

expect 2 '--amp takes f32, bf16 or fp16, not "int9"' "$xtrain" --model lprnet --amp int9
! grep -q 'did you mean' <<<"$said" || fail 'it suggests what train does not take' "$said"
expect 2 'did you mean int8?' "$xtrain" eval w.pth --amp int9
expect 2 'no option "--compare"; use --amp' "$xtrain" predict w.pth a.jpg --compare f32
expect 2 'no option "--dtype"; use --amp' "$xtrain" export w.pth m.onnx --dtype half
expect 2 'no option "--checkpoint"; use --init' "$xtrain" eval --checkpoint w.pth
expect 2 'no option "--checkpoint"; use --resume' "$xtrain" --model lprnet --checkpoint w.pth
expect 2 'give the weights as an argument: xtrain predict WEIGHTS' "$xtrain" predict --weights w.pth a.jpg
expect 2 'not to serve; give the weights as an argument: xtrain serve WEIGHTS' "$xtrain" serve --init w.pth
printf 'printconfig: true\n' >print.yaml
expect 2 '"printconfig"; `xtrain train --help` lists them' "$xtrain" --config print.yaml
expect 2 'no command "data chek"; did you mean data check?' "$xtrain" help data chek
expect 2 'xtrain data needs a subcommand; `xtrain data --help` lists them' "$xtrain" schema data
expect 2 'no command "evla"; did you mean eval?' "$xtrain" schema evla
expect 2 'no command "resume"; did you mean train --resume?' "$xtrain" resume runs/a
expect 2 '"LPRNet" is a network, not a file of weights; --model lprnet names' "$xtrain" predict LPRNet a.jpg
expect 2 '"a.JPG" is an image, but weights are expected here' "$xtrain" predict a.JPG w.pth
expect 2 'no option "--port"; use --listen ADDRESS:PORT' "$xtrain" serve w.pth --port 80
expect 2 '--config "lprnett": there is no such file, and' "$xtrain" --config lprnett
for name in "$configs"/*.yaml; do name=$(basename "$name" .yaml); grep -q "$name" <<<"$said" || fail "it does not name $name"; done
expect 2 'no command "evla"; did you mean eval?' "$xtrain" man evla

mkdir plates
expect 2 'no command "ResNet-50"; to train that network write --model resnet50' "$xtrain" ResNet-50
expect 2 'no command "plates"; to begin with that folder of images write xtrain try "plates"' "$xtrain" plates
expect 2 'no command "bench train"; did you mean bench step?' "$xtrain" bench train

expect 0 'xtrain ' "$xtrain" version
expect 0 '{"schema":{"name":"version",' "$xtrain" --version --json
! grep -q warning <<<"$said" || fail 'its JSON is not as the schema says' "$said"
expect 0 'xtrain ' "$xtrain" -V
for command in '' train eval 'data check' 'bench step' data bench help version cache; do
  # shellcheck disable=SC2086
  expect 0 'Usage: xtrain' "$xtrain" $command -h
done
expect 0 'Usage: xtrain data check' "$xtrain" -h data check
