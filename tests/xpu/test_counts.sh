#!/usr/bin/env bash
# What a training step asks of the driver, counted by a layer on the double that computes: kernels and copies launched,
# waits of the thread that trains, bytes transferred. The limits are the counts when this was last checked: a change
# that asks for more is to be seen; one that asks for less lowers them. XTRAIN_TEST_ALL=1: of ResNet-50 too. Run through
# double.sh.
. tests/xpu/common.sh
needs_double
export OPENCL_LAYERS=$OPENCL_LAYERS:$build/tests/xpu/count_layer.so

# What two steps more ask for, halved: "launches 240" and the like. Steps 5 to 8 are profiled, with waits of their own.
count() { # network, options...
  for steps in 2 4; do
    XT_COUNT_FILE=$work/$steps "$xtrain" --model "$@" --lr 1e-4 --steps $steps --xpu --out "$work/$1-$steps" \
      --no-device-check >"$work/said" 2>&1 || fail "$steps steps of $*"
  done
  grep -Eq 'submitted to the device in each step: [0-9]+ primitives, [0-9.]+ waits' "$work/said" || fail 'a run says so too'
  join <(sort "$work/2") <(sort "$work/4") | awk '{ print $1, ($3 - $2) / 2 }' | sort -k 2,2nr >"$work/counts"
}

# Of the device's own memory nothing is counted; the last batches may be uploaded or not when a run ends.
most() { # network, of what, how many
  local is
  is=$(awk -v what="$2" '$1 == what { print $2 }' "$work/counts")
  awk -v is="$is" -v most="$3" 'BEGIN { exit !(is != "" && is <= most) }' || {
    cat "$work/counts"
    fail "a step of $1: $2 ${is:-not counted}, more than $3"
  }
}

said=
check() { # network, launches, copies, waits, bytes up and down, bytes that kernels may reach on the host
  local network=$1 what
  shift
  for what in launches copies waits up down reached; do
    most "$network" $what "$1"
    shift
  done
  said+="$network $(awk '/^(launches|copies|waits|up|down) / { printf "%s%d %s", sep, $2, $1; sep = ", " }' "$work/counts"); "
}

count lprnet --data 'synth:plates?count=80&seed=3' --batch 4
# up: the images, 27072 bytes, labels and scalars; half a batch more. down: four losses and the norm.
check lprnet 141 9 1 41100 100 0
# A start reads nothing back, and reading writes nothing: down are the weights, statistics and the optimizer's two arrays of
# the checkpoint, 5.41 MB; up weights, zeroed gradients and the optimizer's arrays, 7.2 MB, and images.
awk '$1 == "down" && $2 > 5500000 || $1 == "up" && $2 > 7500000 { print "two steps: " $0; bad = 1 } END { exit bad }' "$work/2" ||
  fail 'a start copies more than it needs'
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  count resnet50 --data 'synth:shapes?count=80&seed=3' --classes 10 --image-size 64 --batch 4
  check resnet50 404 6 1 74000 100 0
fi
echo "a step: ${said%; }"
