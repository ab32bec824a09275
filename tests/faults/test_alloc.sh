#!/usr/bin/env bash
# The n-th allocation fails: a clean error each time (exit code 5, one sentence), or the program does without; never a
# crash or a hang. For some n of six short runs, or with XTRAIN_TEST_ALL=1 for every n.
. tests/cli/common.sh
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -O1 -o "$tree/alloc.so" tests/faults/alloc.c
mkdir "$tree/data" "$tree/ccpd"
cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/data/京A12345_1.jpg"
cp tests/fuzz/corpus/image/rgba.png "$tree/data/沪B12345_1.png"
cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/ccpd/0-0_0-1&2_14&12-13&12_2&11_1&2_14&3-0_0_0_0_0_0_0-1-1.jpg"
cd "$tree"
tar -C data -cf set.tar .
printf '%s\n' 'sources:' '- data: ccpd:ccpd' '- data: set.tar' '- data: synth:plates?count=8' >mix.yaml
printf '%s\n' 'batch: 1' 'threads: 1' 'val: ../data' >run.yaml
"$xtrain" --model lprnet --data data --batch 1 --steps 2 --threads 1 --out w --quiet

# How a run may end: well, or with one sentence. libarchive ends the process itself where some of its own allocations fail.
ended_cleanly() { # CODE
  [ "$1" = 0 ] || { [ "$1" = 5 ] && grep -q '^xtrain: error: ' said; } ||
    { [ "$1" = 1 ] && grep -q '^Fatal Internal Error in libarchive: ' said; }
}

# In a folder of its own, where OUT is free and GO a copy of the trained run.
attempt() { # NUMBER NAME COMMAND...
  local n=$1 name=$2 code=0
  shift 2
  mkdir "$name-$n"
  cd "$name-$n"
  [ "$name" != resume ] || cp -r ../w go
  XTRAIN_FAIL_AT=$n timeout 60 env LD_PRELOAD="$tree/alloc.so" "$@" >said 2>&1 || code=$?
  if ! ended_cleanly $code; then
    echo "$name, allocation $n failed, and it ended with code $code"
    tail -5 said
    exit 1
  fi
  cd ..
  [ "$n" = 0 ] || rm -rf "$name-$n"
}
export -f attempt ended_cleanly
export tree

every() { # NAME FIRST PARTS COMMAND...: evenly spaced over PARTS numbers, or all
  local name=$1 first=$2 parts=$3 count step
  shift 3
  attempt 0 "$name" "$@" || fail "$name fails without a fault"
  count=$(sed -n 's/^allocations: //p' "$name-0/said")
  [ "${count:-0}" -gt 20 ] || fail "$name: allocations were not counted" "$(cat "$name-0/said")"
  step=$(((count - first) / parts + 1))
  [ -z "${XTRAIN_TEST_ALL:-}" ] || step=1
  # Another beginning on another day, so that in time all numbers are met.
  seq $((first + 10#$(date +%j) % step)) $step "$count" |
    xargs -P "$(nproc)" -I {} bash -c 'attempt "$@"' attempt {} "$name" "$@" || fail "$name"
  echo "$name: every ${step}th of $count allocations"
}

every train 1 16 "$xtrain" --model lprnet --config ../run.yaml --data ../data --steps 1 --save-every 1 --json --out out
every resume 1 20 "$xtrain" --model lprnet --data ../data --batch 1 --threads 1 --steps 3 --resume go
every eval 1 8 "$xtrain" eval --init ../w/last.safetensors --data ../data --threads 1 --json
every predict 1 8 "$xtrain" predict ../w/last.safetensors --threads 1 --json ../data
every export 1 6 "$xtrain" export ../w/last.safetensors out.onnx --threads 1 --json
every check 1 8 "$xtrain" data check --model lprnet ../mix.yaml
