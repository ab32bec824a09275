#!/usr/bin/env bash
# xtrain warmup on Intel's real driver in capture mode, as an Arc A770: both networks, training in f32, bf16 and fp16,
# evaluation and prediction; a training start after it compiles nothing. XTRAIN_TEST_ALL=1: ResNet-50 in each type and for
# each purpose; else its training in bf16.
. tests/xpu/common.sh
plates=(--model lprnet --data 'synth:plates?count=8&seed=3')
shapes=(--model resnet50 --data 'synth:shapes?count=20&seed=1' --classes 10)

warmup() { # types, purposes, the network's options
  keep_kernels_in "$build/capture-cache"
  capture "$xtrain" warmup "${@:3}" --xpu --batch 2 --types "$1" --for "$2"
  [ "$code" = 0 ] || fail "warmup for $2 in $1: ${*:3}"
  for type in ${1//,/ }; do
    for purpose in ${2//,/ }; do
      grep -Eq "^$purpose +$type +[0-9]+ kernels? +compiled" "$work/said" || fail "no line for $purpose in $type"
    done
  done
}
# With a copy of what warmup left, so that nothing but warmup and --dry-run ever fills that.
start() { # --amp, the network's options
  rm -rf "$work/run" "$work/cache"
  cp -r "$build/capture-cache" "$work/cache"
  keep_kernels_in "$work/cache"
  local before
  before=$(find "$work/cache" -name '*_cache' | sort)
  capture "$xtrain" "${@:2}" --xpu --batch 2 --steps 1 --amp "$1" --out "$work/run" --no-device-check --quiet
  [ "$code" = 0 ] || fail "a training start, --amp $1: ${*:2}"
  find "$work/cache" -name '*_cache' | sort | diff <(echo "$before") - || fail "it compiles after warmup, --amp $1: ${*:2}"
}
# With the check before a run, which ends it: nothing is computed there.
checked_start() { # --amp
  keep_kernels_in "$work/cache"
  local before
  before=$(find "$work/cache" -name '*_cache' | sort)
  capture "$xtrain" "${plates[@]}" --xpu --batch 2 --steps 1 --amp "$1" --out "$work/run" --quiet
  [ "$code" = 4 ] && grep -q 'computes wrong results, so it is not used' "$work/said" || fail "the check, --amp $1"
  find "$work/cache" -name '*_cache' | sort | diff <(echo "$before") - || fail "the check compiles after warmup, --amp $1"
}
warmup f32,bf16,fp16 train,eval,predict "${plates[@]}"
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  warmup f32,bf16,fp16 train "${shapes[@]}"
  warmup bf16 eval,predict "${shapes[@]}"
else
  warmup bf16 train "${shapes[@]}"
fi
for amp in off bf16 fp16; do start $amp "${plates[@]}" --val 'synth:plates?count=2&seed=4'; done
for amp in off bf16 fp16; do checked_start $amp; done
start bf16 "${shapes[@]}"
echo "$(find "$work/cache" -name '*_cache' | wc -l) kernels of both networks; a training start compiles none"
