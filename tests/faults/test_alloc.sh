#!/usr/bin/env bash
# The n-th allocation fails: a clean error each time (exit code 5, one sentence), or the program does without; never a
# crash or a hang. A step through the numbers, or with XTRAIN_TEST_ALL=1 all of them.
. tests/cli/common.sh
${CC:-cc} -D_GNU_SOURCE -shared -fPIC -O1 -o "$tree/alloc.so" tests/faults/alloc.c
mkdir "$tree/data"
cp tests/fuzz/corpus/image/ycc_444.jpg "$tree/data/京A12345_1.jpg"
cp tests/fuzz/corpus/image/rgba.png "$tree/data/沪B12345_1.png"
cd "$tree"
"$xtrain" --model lprnet --data data --batch 1 --steps 2 --threads 1 --out w --quiet

# Ends with a status and a sentence that are allowed. Each number starts from the same files.
attempt() { # NUMBER NAME COMMAND...
  local n=$1 name=$2 code=0
  shift 2
  rm -rf out && cp -r w go
  timeout 30 env LD_PRELOAD="$tree/alloc.so" XTRAIN_FAIL_AT="$n" "$@" >said 2>&1 || code=$?
  rm -rf go
  case $code in
    0) ;;
    5) grep -q '^xtrain: error: ' said || fail "$name, allocation $n: no sentence" "$(cat said)" ;;
    *) fail "$name, allocation $n failed, and it ended with code $code" "$(tail -5 said)" ;;
  esac
}

every() { # NAME PARTS COMMAND...: spread over so many numbers, or all
  local name=$1 parts=$2 count n step
  shift 2
  rm -rf out && cp -r w go
  env LD_PRELOAD="$tree/alloc.so" "$@" >said 2>&1 || fail "$name: it fails by itself" "$(cat said)"
  rm -rf go
  count=$(sed -n 's/^allocations: //p' said)
  [ "${count:-0}" -gt 20 ] || fail "$name: allocations were not counted" "$(cat said)"
  step=$((count / parts + 1))
  [ -z "${XTRAIN_TEST_ALL:-}" ] || step=1
  # Another beginning on another day, so that in time all numbers are met.
  for ((n = 1 + $(date +%j) % step; n <= count; n += step)); do attempt "$n" "$name" "$@"; done
  echo "$name: every ${step}th of $count allocations"
}

cat >run.yaml <<'YAML'
batch: 1
threads: 1
val: data
YAML
every train 12 "$xtrain" --model lprnet --config run.yaml --data data --steps 2 --save-every 1 --json --out out
every resume 8 "$xtrain" --model lprnet --data data --batch 1 --threads 1 --steps 3 --resume go
every eval 6 "$xtrain" eval --init w/last.safetensors --data data --threads 1 --json
every predict 6 "$xtrain" predict w/last.safetensors --threads 1 --json data
