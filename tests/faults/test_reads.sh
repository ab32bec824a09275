#!/usr/bin/env bash
# A resumed run reads its checkpoint once, whatever the options.
. tests/cli/common.sh
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -O1 -o "$tree/io.so" tests/faults/io.c
cd "$tree"
train=("$xtrain" --model lprnet --data 'synth:plates?count=24&seed=3' --threads 1)
"${train[@]}" --batch 4 --steps 2 --out a --quiet
size=$(stat -c %s a/state-00000002.safetensors)

reads_once() { # OPTIONS OF RESUMING...
  rm -rf b reads && cp -r a b
  expect 0 'b/state-00000002.safetensors, step 2 of 3' \
    env LD_PRELOAD=./io.so XTRAIN_READS=reads "${train[@]}" --steps 3 "$@"
  read=$(awk '/state-00000002.safetensors$/ { sum += $1 } END { print sum + 0 }' reads)
  # A few bytes more tell what kind of file it is.
  [ "$read" -ge "$size" ] && [ "$read" -le $((size + 64)) ] || fail "of a checkpoint of $size bytes $read were read: $*"
}
reads_once --batch 4 --resume auto --out b
reads_once --batch auto --resume auto --out b
reads_once --batch auto --resume b
reads_once --batch 4 --resume b/state-00000002.safetensors
