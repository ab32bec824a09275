#!/usr/bin/env bash
# Nothing is allocated for a JPEG or a step once a run is under way: a run of more steps over the same images makes no more
# allocations than a shorter one. (libjpeg's own are not counted; docs/performance.md says what they are.)
. tests/cli/common.sh
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -O1 -o "$tree/alloc.so" tests/faults/alloc.c
mkdir "$tree/data"
for i in 0 1 2 3 4; do cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/data/京A1234${i}_1.jpg"; done
cp tests/fuzz/corpus/image/ycc_420.jpg "$tree/data/沪B12345_1.jpg"
cd "$tree"

allocations() { # STEPS OPTION...
  local steps=$1
  shift
  LD_PRELOAD="$tree/alloc.so" "$xtrain" --model lprnet --data data --batch 2 --threads 1 --steps "$steps" \
    --log-every 1000 --save-every 1000 --eval-every 0 --quiet --out "$steps-$#" "$@" 2>&1 | sed -n 's/^allocations: //p'
}

for options in '' '--augment --workers 2' '--cache ram' '--cache disk'; do
  # shellcheck disable=SC2086
  short=$(allocations 12 $options) long=$(allocations 36 $options)
  # Buffers may still grow once or twice: in which order images come to which thread is chance.
  echo "${options:-plain}: $short allocations, $long"
  [ "${short:-0}" -gt 500 ] && [ $((long - short)) -lt 6 ] || fail "with '$options' 12 steps allocate $short times, 36 steps $long times"
  rm -rf ./*-*
done
