#!/usr/bin/env bash
# Classes, through the program: invalid data and weights are refused by name, before anything is trained.
. tests/cli/common.sh
images=$PWD/tests/fuzz/corpus/image
cd "$tree"
resnet=("$xtrain" --model resnet18 --batch 2 --threads 1)
run=("${resnet[@]}" --image-size 32 --steps 1 --out run)

mkdir -p two/cat two/dog one/cat empty/cat empty/dog
cp "$images/ycc_444.jpg" two/cat/1.jpg
cp "$images/rgba.png" two/dog/1.png
cp "$images/ycc_444.jpg" one/cat/1.jpg
cp "$images/ycc_444.jpg" one/cat/2.jpg
cp "$images/ycc_444.jpg" empty/cat/1.jpg

expect 3 'one has one class only (cat); a classifier needs at least two' "${run[@]}" --data one
expect 3 'the class folder empty/dog holds no image' "${run[@]}" --data empty
expect 3 'cannot open the data nowhere: ' "${run[@]}" --data nowhere

# CIFAR's binary batches: a label, then 3072 bytes of pixels.
record() { printf '%b' "\\x0$1"; head -c 3072 /dev/zero; }
mkdir short wrong
{ record 3; record 5; head -c 100 /dev/zero; } >short/data_batch_1.bin
{ record 3; record a; } >wrong/data_batch_1.bin
expect 3 'short/data_batch_1.bin has 6246 bytes, which is not a whole number of CIFAR-10'"'"'s records of 3073 bytes' \
  "${run[@]}" --data short
expect 3 'record 1 of wrong/data_batch_1.bin has the label 10, which is out of range: CIFAR-10'"'"'s go from 0 to 9' \
  "${run[@]}" --data wrong

# Lists: labels are numbers from 0 on, or names.
printf 'two/cat/1.jpg\t0\ntwo/dog/1.png\t99999\n' >large.txt
expect 3 'large.txt: the label 99999 is out of range' "${run[@]}" --data large.txt
printf 'two/cat/1.jpg\tcat\ntwo/dog/1.png\thorse\n' >other.txt
expect 3 'the class "horse" is not among the 2' "${run[@]}" --data two --val other.txt

expect 2 'resnet18 needs images of at least 32x32' "${resnet[@]}" --steps 1 --out run --data two --image-size 31
expect 2 '--classes 1: the training images are of 2 classes' "${run[@]}" --data two --classes 1
expect 2 '--freeze-until layer9: the network has no layer of that name' "${run[@]}" --data two --freeze-until layer9
expect 2 '--hue takes a number from 0 to 0.5, not "0.6"' "${run[@]}" --data two --hue 0.6
expect 2 '--mixup: lprnet reads plates, whose labels cannot be mixed' \
  "$xtrain" --model lprnet --mixup 0.2 --data 'synth:plates?count=4' --batch 2 --out run

# A state_dict of other shapes: each tensor by name.
header='{"conv1.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"fc.weight":{"dtype":"F32","shape":[2,1],"data_offsets":[24,32]}}'
{ printf '%b' "\\x$(printf '%x' ${#header})\\0\\0\\0\\0\\0\\0\\0"; printf '%s' "$header"; head -c 32 /dev/zero; } >other.safetensors
expect 3 'of another shape conv1.weight (2x3, not 64x3x7x7), missing bn1.weight' "${run[@]}" --data two --init other.safetensors
[ ! -e run ] || fail 'a run that was refused has left its folder'

# What varies images and mixes them gives the same losses whatever the number of workers.
vary=(--image-size 32 --data 'synth:shapes?count=8&seed=1&classes=2' --steps 2 --log-every 1 --flip --jitter 0.4 --hue 0.1
  --label-smoothing 0.1 --quiet)
"${resnet[@]}" "${vary[@]}" --mixup 0.4 --out a
"${resnet[@]}" "${vary[@]}" --mixup 0.4 --out b --workers 2
[ "$(losses a)" = "$(losses b)" ] || fail 'losses depend on the workers' "$(losses a)" "$(losses b)"
"${resnet[@]}" "${vary[@]}" --out c
[ "$(losses a)" != "$(losses c)" ] || fail 'mixup changes nothing' "$(losses a)"

# A run keeps the size of its images and its classes, however they were given.
going=(--data 'synth:shapes?count=8&seed=1&classes=2' --steps 3 --resume c --no-augment)
expect 2 'c/state-00000002.safetensors was made with --image-size 32; give the same' "${resnet[@]}" "${going[@]}" --image-size 40
# The run's own settings are what is not said again.
expect 0 'resuming from c/' "${resnet[@]}" --resume c
expect 2 'was made on other classes than those of --data' "${resnet[@]}" "${going[@]}" --image-size 32 --classes 3
expect 2 'is a checkpoint of resnet18, and --model is lprnet' \
  "$xtrain" --model lprnet --data 'synth:plates?count=8' --batch 2 --optim sgd --threads 1 --steps 3 --resume c
expect 0 'resuming from c/' "${resnet[@]}" "${going[@]}" --image-size 32 --classes 2
