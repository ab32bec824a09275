#!/usr/bin/env bash
# Images and their cache during a run: a file that disappears, one that cannot be read, a full disk under the cache,
# a cache that shrinks. Each is named and counted; the run continues with up to 1 % bad images, and no more.
. tests/cli/common.sh
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -O1 -o "$tree/io.so" tests/faults/io.c
mkdir "$tree/data"
for ((i = 10000; i < 10110; i++)); do cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/data/京A${i}_1.jpg"; done
cd "$tree"
train=("$xtrain" --model lprnet --data data --batch 5 --threads 1 --log-every 1 --save-every 1000)

# Runs the command after it in the background until it has made a step of its first epoch, then what is given, then its end.
while_it_runs() { # FOLDER ACTION
  "${train[@]}" --steps 40 --slots 2 --out "$1" "${@:3}" >said 2>&1 &
  for ((t = 0; t < 300; t++)); do [ -s "$1/metrics.jsonl" ] && break; sleep 0.05; done
  eval "$2"
  code=0
  wait $! || code=$?
}

while_it_runs gone 'mv data/京A10003_1.jpg away.jpg' --cache off
[ $code = 0 ] && grep -q '京A10003_1.jpg.*No such file' gone/bad_images.txt || fail "without a file it ended with $code" "$(cat said)"
mv away.jpg data/京A10003_1.jpg
while_it_runs many 'mkdir away; mv data/京A1000* away' --cache off
[ $code = 3 ] && grep -q 'of 110 samples are bad, more than the 1 %' said || fail "without ten files it ended with $code" "$(cat said)"
mv away/* data

expect 0 '' env LD_PRELOAD=./io.so XTRAIN_UNREADABLE=A10020_1 "${train[@]}" --steps 24 --out unreadable
grep -q '京A10020_1.jpg.*Input/output error' unreadable/bad_images.txt || fail 'the file is not listed' "$said"
expect 3 'Input/output error' env LD_PRELOAD=./io.so XTRAIN_UNREADABLE=A100 "${train[@]}" --steps 24 --out worse
expect 3 'strict data was requested' env LD_PRELOAD=./io.so XTRAIN_UNREADABLE=A10020_1 "${train[@]}" --steps 24 --strict-data --out strict

full=(env LD_PRELOAD=./io.so XTRAIN_DISK_ROOM=100000)
expect 0 'No space left on device): the images that are not in it yet will be decoded each time' \
  "${full[@]}" "${train[@]}" --steps 24 --cache disk --out full
[ "$(grep -c 'No space left' <<<"$said")" = 1 ] || fail 'it is not said once' "$said"
expect 1 'cannot write pixels: No space left on device' "${full[@]}" "$xtrain" data pack data pixels --as pixels --model lprnet
expect 0 '110 images' "$xtrain" data pack data pixels --as pixels --model lprnet

# The same losses as without a cache, also where its file shrinks and comes to nothing while it is read.
"${train[@]}" --steps 40 --slots 2 --out whole --quiet
while_it_runs shrinks 'truncate -s 500000 shrinks/cache.bin; sleep 0.2; truncate -s 0 shrinks/cache.bin' --cache disk
[ $code = 0 ] || fail "with a cache that shrinks it ended with $code" "$(cat said)"
[ "$(losses whole)" = "$(losses shrinks)" ] || fail 'a cache that shrinks changes what is trained'
