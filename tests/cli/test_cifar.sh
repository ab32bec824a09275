#!/usr/bin/env bash
# CIFAR as torchvision leaves it: pickles in a folder, below the root that was given, and in the archive.
. tests/cli/common.sh
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
writer=$PWD/tests/cli/write_cifar.py
write() { python3 "$writer" "$@"; }
cd "$tree"
write root/cifar-10-batches-py 10
write cifar-100-python 100
write cifar-10-batches-bin 10.bin
mkdir packed
tar -C root -czf packed/cifar-10-python.tar.gz cifar-10-batches-py
tar -czf hundred.tar.gz cifar-100-python

# All forms of the same images train to the same weights, and the test batch is found for the evaluation.
train=("$xtrain" --model mobilenet_v3_small --image-size 32 --batch 20 --steps 1 --threads 1)
"${train[@]}" --data cifar-10-batches-bin --out binary >/dev/null 2>&1
for set in root root/cifar-10-batches-py packed packed/cifar-10-python.tar.gz; do
  expect 0 '100 images of 10 classes' "${train[@]}" --data $set --out python
  [ "$(losses binary)" = "$(losses python)" ] || fail "$set: the losses differ from those of the binary version"
  diff <(record binary | grep '"images":') <(record python | grep '"images":') || fail "$set: the evaluation differs"
  same_weights binary/last.safetensors python/last.safetensors || fail "$set: the weights differ from those of the binary version"
  rm -r python
done
expect 0 '20 images of 100 classes' "$xtrain" data check hundred.tar.gz
expect 0 'class99' "$xtrain" data check cifar-100-python
expect 0 '20 images of 10 classes' "$xtrain" data check root/cifar-10-batches-py/data_batch_3

# Folders that hold something else under those names, or two sets.
mkdir -p parts/train/cat parts/test/cat empty/cifar-10-batches-py two
expect 3 'holds the parts of a data set' "$xtrain" data check parts --model resnet50
expect 3 'empty/cifar-10-batches-py holds no CIFAR batches' "$xtrain" data check empty --model resnet50
ln -s ../root/cifar-10-batches-py ../cifar-100-python two
expect 3 'two holds CIFAR-10 and CIFAR-100; give two/cifar-10-batches-py or two/cifar-100-python' "$xtrain" data check two --model resnet50
write root/cifar-10-batches-py 10.bin
expect 3 'put each in a folder of its own' "$xtrain" data check root/cifar-10-batches-py --model resnet50

# What is damaged or hostile is named, and nothing of it is run.
bad() { write bad 10 "${@:2}"; expect 3 "$1" "$xtrain" data check bad --model resnet50; }
bad 'says that it is of 21 x 3072 bytes and has 61440' rows=21
bad 'it has 20 images, but 19 "labels"' lost=1
bad 'has the label 10, which is out of range' label=10
bad 'bad/data_batch_1: its "data" is not a matrix of bytes' dtype=f8
bad 'it wants to call os.system, which CIFAR'"'"'s batches do not need' call=1
head -c 30000 cifar-100-python/train >bad/data_batch_1
expect 3 'bad/data_batch_1: its pickle ends early' "$xtrain" data check bad --model resnet50
