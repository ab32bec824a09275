#!/usr/bin/env bash
# The kernel cache from end to end, on the double that computes: a cold start compiles, a warm one does not; attacks on
# the cache are recompiled, never used; export and import carry it. Run through double.sh.
. tests/xpu/common.sh
needs_double
keep_kernels_in "$work/cache"
export XT_LAYER_LOG=$work/log

# Computes one convolution (tests/convolution.c) and counts what the "driver" compiled and took from its cache.
convolution=$build/tests/convolution
run() {
  : >"$XT_LAYER_LOG"
  "$convolution" >"$work/said" 2>&1 || fail 'a convolution'
  compiled=$(grep -c '^compiled' "$XT_LAYER_LOG" || true)
  cached=$(grep -c '^cached' "$XT_LAYER_LOG" || true)
}
expect() { [ "$compiled" = "$1" ] && [ "$cached" = "$2" ] || fail "$3: compiled $compiled, cached $cached"; }

run
cold=$compiled
[ "$cold" -ge 1 ] || fail 'a cold start compiles'
expect "$cold" 0 'cold'
run
expect 0 "$cold" 'warm'
"$xtrain" cache verify >"$work/verify" || fail 'verify'
"$xtrain" cache list >"$work/said" && grep -q 'this machine' "$work/said" || fail 'list'
"$xtrain" cache list --json >"$work/said" && grep -q '"onednn":.*"3\.' "$work/said" || fail 'list --json'

folder=$(dirname "$(ls "$work"/cache/kernels/*/index.txt)")
kernel=$(ls "$folder"/*_cache | sed -n 1p)
attack() { # what, and a command that does it; one kernel is compiled again
  local what=$1
  shift
  "$@"
  "$xtrain" cache verify >/dev/null 2>&1 && fail "verify does not see: $what"
  run
  expect 1 $((cold - 1)) "$what"
  run
  expect 0 "$cold" "after: $what"
}
attack truncated truncate -s -10 "$kernel"
flip() { printf 'X' | dd of="$kernel" bs=1 seek=100 conv=notrunc status=none; }
attack 'bit-flipped' flip
attack 'world-writable' chmod 666 "$kernel"
relink() { mv "$kernel" "$work/moved"; ln -s "$work/moved" "$kernel"; }
attack symlink relink

chmod 777 "$folder"
run
expect "$cold" 0 'a folder that others can write'
chmod 700 "$folder"

# Another driver: another folder.
cp "$OPENCL_LAYERS" "$work/driver2.so"
echo >>"$work/driver2.so"
OPENCL_LAYERS=$work/driver2.so run
expect "$cold" 0 'another driver'
[ "$(ls -d "$work"/cache/kernels/* | wc -l)" = 2 ] || fail 'another driver has another folder'

# Read-only, as in a container image; root writes anywhere, so this is tested only without root.
if [ "$(id -u)" != 0 ]; then
  chmod -R a-w "$work/cache"
  run
  expect 0 "$cold" 'read-only'
  chmod -R u+w "$work/cache"
fi

"$xtrain" cache export "$work/kernels.tar.gz" >/dev/null
"$xtrain" cache clear >/dev/null
[ -z "$(find "$work/cache" -name '*_cache')" ] || fail clear
run
expect "$cold" 0 'after clear'
"$xtrain" cache clear >/dev/null
"$xtrain" cache import "$work/kernels.tar.gz" >"$work/said" 2>&1 && grep -q 'trusts the author of' "$work/said" ||
  fail 'import says what it trusts'
run
expect 0 "$cold" 'imported'

# An archive that was tampered with: the kernel is refused.
mkdir "$work/tampered"
tar -C "$work/tampered" -xzf "$work/kernels.tar.gz"
for file in "$work"/tampered/kernels/*/*_cache; do printf 'X' | dd of="$file" bs=1 seek=50 conv=notrunc status=none; done
(cd "$work/tampered" && tar -czf "$work/bad.tar.gz" kernels/*/index.txt kernels/*/*_cache)
"$xtrain" cache clear >/dev/null
"$xtrain" cache import "$work/bad.tar.gz" >"$work/said" 2>&1 && fail 'a tampered archive is taken'
[ -z "$(find "$work/cache" -name '*_cache')" ] || fail 'a tampered kernel was taken'
# One that climbs out of the folder.
mkdir -p "$work/climb/kernels"
echo code >"$work/climb/evil_cache"
(cd "$work/climb/kernels" && tar -czPf "$work/climb.tar.gz" ../evil_cache)
"$xtrain" cache import "$work/climb.tar.gz" >/dev/null 2>&1 && fail 'an archive with .. is taken'

run
"$xtrain" cache prune --max-size 1 >/dev/null || fail prune
"$xtrain" cache prune >/dev/null 2>&1 && fail 'prune without a limit'
# Two processes warm one cache at once.
"$xtrain" cache clear >/dev/null
"$convolution" & first=$!
"$convolution" || fail 'the second of two at once'
wait "$first" || fail 'the first of two at once'
"$xtrain" cache verify >/dev/null || fail 'verify after two at once'
run
expect 0 "$cold" 'after two at once'
echo "cold: $cold compiled; warm: none"
