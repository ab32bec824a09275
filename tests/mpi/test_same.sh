#!/usr/bin/env bash
# Ranks train as one process would: the same images, norms over all of them, the mean of all gradients.
. tests/mpi/common.sh

# Rounding grows from step to step, the faster the larger the steps are: these are small.
gently=(--optim sgd --momentum 0 --sched constant --log-every 1 --quiet)
steps=(--steps 20)
plates=(--model lprnet --data 'synth:plates?count=96&seed=3' --val 'synth:plates?count=21&seed=4' --lr 2e-5 --batch 16 "${gently[@]}" "${steps[@]}")
shapes=(--model resnet50 --data 'synth:shapes?count=96&seed=3' --image-size 32 --batch 8 --optim sgd --sched constant --log-every 1 --quiet)

compare() { # name, most, options...
  local name=$1 most=$2
  shift 2
  "${one[@]}" "$@" --out "$name-one" >said 2>&1 || fail 'one process failed' "$(cat said)"
  "${two[@]}" "$@" --out "$name-two" >said 2>&1 || fail 'two ranks failed' "$(cat said)"
  follows "$name-one" "$name-two" "$most"
}

compare lprnet 2e-5 "${plates[@]}"

# An untrained ResNet-50 makes a difference of rounding some hundred times larger in every step, whatever the rate: it
# begins with weights that have learnt a little: in bf16 two ranks were off by 2.1e-2 in 6 steps after 16 of learning, by
# 8e-4 after 20 and 1.3e-4 after 32.
"${one[@]}" "${shapes[@]}" --lr 0.01 --momentum 0.9 --steps 32 --out warm >said 2>&1 || fail 'it learns nothing' "$(cat said)"
shapes+=(--init warm/last.safetensors --lr 1e-5 --momentum 0)
compare resnet 1e-3 "${shapes[@]}" "${steps[@]}"
# bf16 has 8 bits of fraction: a number that is rounded the other way differs by 1/256.
if cpu_has bf16; then
  compare lprnet-bf16 5e-3 "${plates[@]}" --amp bf16
  compare resnet-bf16 2e-2 "${shapes[@]}" --amp bf16 --steps 6
fi
compare augmented 2e-5 "${plates[@]}" --augment --jitter 0.2 --lprnet-norm batch

# Shares that are not alike, mixed images, buckets of several sizes, and gradients in bf16.
read -ra three <<<"$(ranks 3)"
mixed=(--model resnet50 --data 'synth:shapes?count=48&seed=3' --image-size 32 --init warm/last.safetensors --lr 1e-5
  --batch 11 "${gently[@]}" --steps 3 --mixup 0.4)
"${one[@]}" "${mixed[@]}" --out mixed-one >said 2>&1 || fail 'one process failed' "$(cat said)"
"${three[@]}" "${mixed[@]}" --bucket 1 --out mixed-three >said 2>&1 || fail 'three ranks failed' "$(cat said)"
follows mixed-one mixed-three 1e-3
"${two[@]}" "${mixed[@]}" --reduce-type bf16 --out mixed-bf16 >said 2>&1 || fail 'gradients in bf16 failed' "$(cat said)"
follows mixed-one mixed-bf16 1e-2

# The same ranks give the same bits.
"${two[@]}" "${plates[@]}" --out again >said 2>&1 || fail 'a second time two ranks failed' "$(cat said)"
[ "$(record lprnet-two)" = "$(record again)" ] && same_weights lprnet-two/last.safetensors again/last.safetensors ||
  fail 'the same ranks gave other bits'

# The evaluation at the end is of all images.
for run in lprnet-one lprnet-two; do
  tail -n 1 $run/metrics.jsonl | grep -q '"images":21,' || fail "not all images were evaluated" "$(tail -n 1 $run/metrics.jsonl)"
done
