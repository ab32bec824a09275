#!/usr/bin/env bash
# bench start on the double that computes: the first start compiles, the second compiles nothing and is 10 times quicker,
# and the user's own cache stays as it is; nor does a start compile because the heap holds other leftovers. Run through
# double.sh.
. tests/xpu/common.sh
needs_double
export XT_LAYER_LOG=$work/log TMPDIR=$work XTRAIN_CACHE_DIR=$work/mine

"$xtrain" bench start "${small[@]:0:4}" --threads 1 --xpu >"$work/said" 2>&1 || fail 'bench start'
grep -qE '^  cold +kernels: [1-9][0-9]* compiled, 0 from the cache$' "$work/said" || fail 'a cold start compiles'
grep -qE '^  warm +kernels: 0 compiled, [1-9][0-9]* from the cache$' "$work/said" || fail 'a warm start compiles nothing'
said=$(sed -n 's/^  cold *kernels: \([0-9]*\) .*/\1/p' "$work/said")
[ "$(grep -c '^compiled' "$XT_LAYER_LOG")" = "$said" ] || fail 'it is not what the driver compiled'
# In CPU time, which other work on the machine does not change.
ratio=$(sed -n 's,^  cold / warm: .* in CPU time ,,p' "$work/said")
awk -v r="$ratio" 'BEGIN { exit !(r >= 10) }' || fail "a warm start is not 10 times quicker: $ratio"
[ ! -e "$work/mine" ] || fail 'the cache of the user was touched'
[ -z "$(ls -d "$work"/xtrain-start* 2>/dev/null)" ] || fail 'something is left behind'
grep -E 'first step  |cold' "$work/said"

# oneDNN's reference layer norm is compiled with what the heap happens to hold.
keep_kernels_in "$work/heap"
for leftovers in 1 2; do
  MALLOC_PERTURB_=$leftovers XT_LAYER_LOG=$work/log.$leftovers "$xtrain" bench infer "${small[@]:0:4}" --steps 1 --amp f32 \
    --xpu >"$work/said" 2>&1 || fail 'bench infer'
done
grep -q '^cached' "$work/log.2" || fail 'its kernels come from the cache'
[ "$(grep -c '^compiled' "$work/log.2")" = 0 ] || fail 'a start with other leftovers on the heap compiles'
