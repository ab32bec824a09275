#!/usr/bin/env bash
# Nothing is allocated for a JPEG or a step once a run is under way: a run of more steps over the same images makes no more
# allocations than a shorter one. (libjpeg's own are not counted; docs/notes/performance.md says what they are.)
. tests/cli/common.sh
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -O1 -o "$tree/alloc.so" tests/faults/alloc.c
mkdir "$tree/data"
for i in 0 1 2 3 4; do cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/data/京A1234${i}_1.jpg"; done
cp tests/fuzz/corpus/image/ycc_420.jpg "$tree/data/沪B12345_1.jpg"
mkdir "$tree/pictures"
for i in 0 1 2 3; do
  cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/pictures/025-95_113-2&2_20&12-20&12_2&12_2&2_20&2-0_0_22_27_27_33_1$i-37-15.jpg"
done
cd "$tree"

allocations() { # STEPS OPTION...
  local steps=$1
  shift
  LD_PRELOAD="$tree/alloc.so" "$xtrain" --model lprnet --data "$data" --batch 2 --threads 1 --steps "$steps" \
    --log-every 1000 --save-every 1000 --eval-every 0 --quiet --out "$steps-$#" "$@" 2>&1 | sed -n 's/^allocations: //p'
}

data=data
for options in '' '--augment --workers 2' '--cache off' '--cache ram' '--cache disk' ccpd '--cache off ccpd'; do
  [ "${options%ccpd}" = "$options" ] || data=ccpd:pictures options=${options%ccpd}
  # shellcheck disable=SC2086
  short=$(allocations 12 $options) long=$(allocations 36 $options)
  # Buffers may still grow once or twice: in which order images come to which thread is chance.
  echo "$data ${options:-plain}: $short allocations, $long"
  [ "${short:-0}" -gt 500 ] && [ $((long - short)) -lt 6 ] || fail "with '$options' 12 steps allocate $short times, 36 steps $long times"
  rm -rf ./*-*
done
