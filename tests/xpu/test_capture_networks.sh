#!/usr/bin/env bash
# Both networks on Intel's real driver in capture mode, as an Arc A770: every primitive exists and compiles in each type,
# in int8 for inference, by the kernels in implementations-a770.txt, so that a change that sends a layer to a reference
# kernel is seen; one training step goes through from the upload to the logits; a second start finds every kernel in the
# driver's cache. In bf16 and, XTRAIN_TEST_ALL=1, every other type.
#
#   UPDATE=1 tests/xpu/test_capture_networks.sh     writes the table anew
. tests/xpu/common.sh
table=$PWD/tests/xpu/implementations-a770.txt
all=${XTRAIN_TEST_ALL:-}${UPDATE:-}

# One line for each op: network, type, op, kind and the kernels forward and backward.
placement() { # network, type
  sed -nE "s/^([^ ]+) +([a-z]+)( [a-z]+)? +xpu:?[0-9]* +[a-z0-9]+ +[0-9.]+ MB +nhwc +([^ ]+) +([^ ]+)\$/$1 $2 \1 \2\3 \4 \5/p" "$work/said"
}

keep_kernels_in "$build/capture-cache"
: >"$work/table"
for amp in ${all:+off} bf16 ${all:+fp16}; do
  capture "$xtrain" --xpu --dry-run --model lprnet --batch 2 --amp $amp
  [ "$code" = 0 ] || fail "lprnet, --amp $amp"
  placement lprnet $amp >>"$work/table"
  capture "$xtrain" --xpu --dry-run --model resnet50 --data 'synth:shapes?count=20&seed=1' --classes 10 --batch 2 --amp $amp
  [ "$code" = 0 ] || fail "resnet50, --amp $amp"
  placement resnet50 $amp >>"$work/table"
done
# int8 is for inference; its ranges are made up, since nothing is computed here.
warm() { # network, settings...
  capture "$xtrain" warmup --xpu --for predict --types int8 --batch 2 --verbose --model "$@"
  [ "$code" = 0 ] || fail "$1 in int8"
  placement "$1" int8 >>"$work/table"
}
[ -z "$all" ] || { warm lprnet; warm resnet50 --classes 10; }
[ -z "${UPDATE:-}" ] || cp "$work/table" "$table"
expected() { if [ -n "$all" ]; then cat "$table"; else grep -E '^(lprnet|resnet50) bf16 ' "$table"; fi; }
diff <(expected) "$work/table" || { echo 'FAILED: other kernels than those in implementations-a770.txt (< there, > now)'; exit 1; }

# Captured, never computed. No kernel may have a pointer without a place, which capture.sh looks for.
keep_kernels_in "$work/cache"
export XT_CAPTURE_FOLDER=$work/captured
mkdir "$XT_CAPTURE_FOLDER"
step() {
  rm -rf "$work/run"
  capture "$xtrain" --xpu --model lprnet --batch 1 --steps 1 --data 'synth:plates?count=8&seed=3' \
    --val 'synth:plates?count=2&seed=4' --out "$work/run" --no-device-check --quiet
  [ "$code" = 0 ] || fail 'a step from the upload to the logits'
}
kernels() { find "$work/cache" -name '*_cache' -printf '%f %T@\n' | sort; }
step
first=$(kernels)
[ -n "$first" ] || fail 'the driver keeps what it compiled'
checked=$(grep -c '^kernel .*: [1-9]' "$XT_CAPTURE_FOLDER/kernels.log")
[ "$checked" -ge 80 ] || fail "only $checked kernels were checked"
step
[ "$(kernels)" = "$first" ] || fail 'a second start compiles nothing'
echo "$(wc -l <"$table") ops by the kernels that are on record; $(wc -l <<<"$first") kernels, a second start compiled none"
