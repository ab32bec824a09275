#!/usr/bin/env bash
# Whole training steps as GPUs that are not here, on Intel's current OpenCL driver in capture mode: LPRNet and ResNet-50
# in bf16, batch 2. Kernels, launches, copies, waits and bytes are real, and are held against launches.txt; numbers are
# never made. The first time kernels are compiled into build/capture-cache. XTRAIN_TEST_ALL=1: six GPUs, each type, the
# shapes of the kernels' self-test, and inference in int8; GPUS="b580 ..." takes other GPUs, TYPES="off ..." other types.
#
#   UPDATE=1 tests/xpu/test_capture_gpus.sh     writes the limits anew
. tests/xpu/common.sh
limits=$PWD/tests/xpu/launches.txt
columns=(launches reorders zero_out copies waits up down)
keep_kernels_in "$build/capture-cache"

network() { # name
  case $1 in
    lprnet) options=(--model lprnet --data 'synth:plates?count=80&seed=3') ;;
    *) options=(--model "$1" --data 'synth:shapes?count=80&seed=3' --classes 10 --image-size 64) ;;
  esac
}

steps() { # network, type, how many
  network "$1"
  rm -rf "$work/run"
  XT_COUNT_FILE=$work/$3 capture "$xtrain" --xpu --batch 2 --amp "$2" --steps "$3" --no-device-check --quiet \
    --out "$work/run" "${options[@]}"
  [ "$code" = 0 ] || fail "$3 steps of $1, --amp $2, as $XT_CAPTURE_GPU"
}

# What a step more asks for, "launches 240" and the like.
count() { # network, type
  steps "$1" "$2" 1
  steps "$1" "$2" 3
  join <(sort "$work/1") <(sort "$work/3") | awk '
    { is[$1] = ($3 - $2) / 2 }
    $1 ~ /^kernel:.*reorder/ { is["reorders"] += is[$1] }
    END { is["zero_out"] += is["kernel:zero_out"]; is["reorders"] += 0; for (what in is) print what, is[what] }' >"$work/counts"
}
row() { # network, type
  awk -v columns="${columns[*]}" -v row="$XT_CAPTURE_GPU $1 $2" '
    { is[$1] = $2 }
    END { n = split(columns, name, " "); for (i = 1; i <= n; i++) row = row " " is[name[i]]; print row }' "$work/counts"
}
hold() { # network, type
  row "$1" "$2" >>"$work/rows"
  # A reference kernel that launches.txt gives no reason for.
  awk -v network="$1" 'NR == FNR { if ($1 == "ref") known[$2 " " $3] = 1; next }
    $1 ~ /^kernel:ref_/ && $2 > 0 && !((network " " substr($1, 8)) in known) { print; bad = 1 }
    END { exit bad }' "$limits" "$work/counts" || fail "a reference kernel without a reason: $1, $2, as $XT_CAPTURE_GPU"
}

# Uploads are for the engine that copies alone.
copies() {
  network lprnet
  capture "$xtrain" --xpu --batch 2 --amp bf16 --dry-run "${options[@]}"
  grep -Eq '^images up .* copy queue bcs, pinned' "$work/said" || fail "no engine for copies as $XT_CAPTURE_GPU"
}

# Those of Arc cards, Xe2 and Xe with matrix engines; then Xe without, and others.
gpus='b580 a770'
[ -z "${XTRAIN_TEST_ALL:-}${UPDATE:-}" ] || gpus+=' mtl lnl ptl pvc'
for XT_CAPTURE_GPU in ${GPUS:-$gpus}; do
  export XT_CAPTURE_GPU
  case $XT_CAPTURE_GPU in b580 | a770) copies ;; esac
  for type in ${TYPES:-bf16} ${XTRAIN_TEST_ALL:+off fp16}; do
    for net in lprnet resnet50 ${XTRAIN_TEST_ALL:+resnet18 mobilenet_v3_small}; do
      count $net $type
      hold $net $type
    done
  done
  if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
    for net in lprnet resnet50; do
      network $net
      capture "$xtrain" warmup --xpu --for predict --types int8 --batch 2 "${options[@]}"
      [ "$code" = 0 ] || fail "$net in int8, as $XT_CAPTURE_GPU"
    done
    # It compares, and nothing is computed: exit code 1, after every shape.
    capture "$xtrain" selftest --xpu --small
    [ "$code" = 1 ] || fail "the kernels' self-test, as $XT_CAPTURE_GPU"
  fi
done

if [ -n "${UPDATE:-}" ]; then
  awk 'NR == FNR { new[$1, $2, $3] = 1; next } /^(#|ref)/ || !(($1, $2, $3) in new)' "$work/rows" "$limits" >"$work/limits"
  cat "$work/limits" "$work/rows" >"$limits"
fi
# What launches.txt has no row for is shown alone. The last batches may be uploaded or not when a run ends.
awk -v columns="${columns[*]}" '
  BEGIN { split(columns, name, " "); slack["copies"] = 1; slack["up"] = 25000 }
  NR == FNR { for (i = 4; i <= NF; i++) most[$1 " " $2 " " $3, i] = $i; next }
  { for (i = 4; i <= NF; i++)
      if (($1 " " $2 " " $3, i) in most && $i > most[$1 " " $2 " " $3, i] + slack[name[i - 3]]) {
        print "FAILED: a step of " $2 " in " $3 " as " $1 ": " name[i - 3] " " $i ", more than " most[$1 " " $2 " " $3, i]
        bad = 1
      }
  }
  END { exit bad }' "$limits" "$work/rows"
echo "whole steps: $(awk '{ printf "%s%s %s %s launches", sep, $1, $2, $4; sep = ", " }' "$work/rows")"
