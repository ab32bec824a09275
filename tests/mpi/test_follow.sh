#!/usr/bin/env bash
# Two ranks of 64 images follow one of 128 to rounding, over 20 steps: LPRNet and ResNet-50, float32 and bf16, losses and
# weights. XTRAIN_TEST_ALL=1: that; else by 16 images of LPRNet in 10 steps, and 4 of ResNet-50 in 6, in bf16 on a CPU that
# computes in it.
#
# How far rounding may lead is measured: the same run by one process, from weights of which each is one step in its last
# place up or down, is what the smallest difference there can be grows to in as many steps. Ranks add up in another order
# in each step, not at the beginning alone: 20 roundings that know nothing of each other come to sqrt(20) = 4.5 times
# one, and where they lean the same way to 20 times. So much, and no more, may two ranks be apart. That this tells a
# wrong run from a right one is tried too: batch norms over each rank's own images are not within it.
. tests/mpi/common.sh
apart=$(dirname "$xtrain")/tests/weights_apart
[ -x "$apart" ] || { echo 'skipped: tests/weights_apart was not built: run "make tests"'; exit 77; }
most=20
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  plates=(128 --steps 20) shapes=(128 --steps 20)
else
  plates=(32 --steps 10) shapes=(8 --steps 6)
fi
bf16() { cpu_has bf16 && { [ -n "${XTRAIN_TEST_ALL:-}" ] || grep -qw avx512_bf16 /proc/cpuinfo; }; }
gently=(--optim sgd --momentum 0.9 --sched constant --log-every 1 --quiet)

# Losses of B beside A's: "step |a - b| / a", the largest so far.
losses_apart() {
  paste -d ' ' <(losses "$1") <(losses "$2") | awk '
    { if (NF != 4 || $1 != $3) { print "missing"; exit }
      d = ($2 - $4) / $2; if (d < 0) d = -d; if (d > worst) worst = d; print $1, worst + 0 }'
}

# within A NUDGED B: how many times as far from A as the nudged run B is, at the worst step and the worst tensor. The
# last digit of a float32 counts as reached, and of a tensor what half of them reach: some are hardly nudged by chance.
within() {
  "$apart" "$1/last.safetensors" "$2/last.safetensors" | sort -g -k 2 >nudged
  { paste -d ' ' <(losses_apart "$1" "$2") <(losses_apart "$1" "$3")
    sed -n "$((($(wc -l <nudged) + 1) / 2))s/.* /half /p" nudged
    join <(sort nudged) <("$apart" "$1/last.safetensors" "$3/last.safetensors" | sort) | sed 's/ / x /2'
  } | awk '
    $1 == "half" { half = $2; next }
    $3 == "x" { $3 = $1 }
    NF != 4 || $1 != $3 { print "missing"; exit }
    { least = $2 > half ? $2 : half; if (least < 1.2e-7) least = 1.2e-7
      if ($4 / least > worst) { worst = $4 / least; where = $1 } n++ }
    END { printf "%.2f at %s of %d\n", worst, where, n }'
}

train() { # OUT COMMAND...
  local out=$1
  shift
  "$@" --out "$out" >said 2>&1 || fail "$out failed" "$(cat said)"
}

follow() { # NAME OPTIONS...
  local name=$1 ratio
  shift
  train "$name-one" "${one[@]}" "$@" --init "$from"
  train "$name-nudged" "${one[@]}" "$@" --init nudged.safetensors
  train "$name-two" "${two[@]}" "$@" --init "$from"
  ratio=$(within "$name-one" "$name-nudged" "$name-two")
  echo "$name: two ranks are apart $ratio times what one step in the last place grows to ($most are let pass)"
  awk -v r="${ratio%% *}" -v m="$most" 'BEGIN { exit !(r + 0 == r && r <= m) }' || fail "$name: two ranks do not follow one"
}

tells() { # NAME OPTIONS...: distinguishes errors from rounding
  local name=$1 ratio
  shift
  train "$name-wrong" "${two[@]}" "$@" --init "$from" --no-sync-bn
  ratio=$(within "$name-one" "$name-nudged" "$name-wrong")
  echo "$name: with batch norms of each rank's own, $ratio times"
  awk -v r="${ratio%% *}" -v m="$most" 'BEGIN { exit !(r > m) }' || fail "$name: the test cannot tell other norms"
}

# From weights that have learnt a little: an untrained ResNet-50 makes any difference some hundred times larger in every
# step, and what that comes to says nothing.
begin() { # OPTIONS...
  train begun "${one[@]}" "$@"
  from=begun-$2.safetensors
  mv begun/last.safetensors "$from"
  rm -r begun
  "$apart" --nudge "$from" nudged.safetensors
}

run=(--model lprnet --data 'synth:plates?count=640&seed=3' --lr 1e-3 "${gently[@]}" --batch "${plates[@]}")
begin --model lprnet --data 'synth:plates?count=640&seed=3' --batch 32 --steps 20 --quiet
follow lprnet "${run[@]}"
tells lprnet "${run[@]}"
! bf16 || follow lprnet-bf16 "${run[@]}" --amp bf16

run=(--model resnet50 --data 'synth:shapes?count=640&seed=3' --image-size 32 --lr 1e-4 "${gently[@]}"
  --batch "${shapes[@]}")
begin --model resnet50 --data 'synth:shapes?count=640&seed=3' --image-size 32 --batch 16 --optim sgd --lr 0.01 --steps 16 \
  --quiet
follow resnet50 "${run[@]}"
tells resnet50 "${run[@]}"
! bf16 || follow resnet50-bf16 "${run[@]}" --amp bf16
