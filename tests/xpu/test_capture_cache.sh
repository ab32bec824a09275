#!/usr/bin/env bash
# Attacks on the cache of Intel's real OpenCL driver (capture mode, as an Arc A770). The driver trusts what lies there, so
# xtrain takes away what does not match before the driver is loaded: what was attacked is compiled again, or the whole
# folder is refused; it is never used.
. tests/xpu/common.sh
keep_kernels_in "$work/cache"

# The inference kernels of LPRNet; exit code in $code. One thread: Intel's compiler writes other machine code where it
# compiles kernels side by side, and what comes back is to be compared.
warmup() { capture "$xtrain" warmup --model lprnet --batch 1 --for predict --types f32 --xpu --threads 1; }
expect() { # compiled, in the cache before, what
  grep -Eq "^predict +f32 +$1 kernels? +compiled, +$2 in the cache before" "$work/said" || fail "$3"
}
hashes() { (cd "$folder" && sha256sum ./*_cache); }

warmup
expect '[1-9][0-9]*' 0 'a first start compiles'
folder=$(dirname "$work"/cache/kernels/*/index.txt)
hashes >"$work/hashes"
all=$(wc -l <"$work/hashes")
[ "$all" -ge 3 ] || fail "only $all kernels"
warmup
expect 0 "$all" 'a second start compiles nothing'

# Two kernels, of which one is attacked. The other is what an attacker would put in its place.
kernel=$(cd "$folder" && ls -S ./*_cache | sed -n 1p)
other=$(cd "$folder" && ls -S ./*_cache | sed -n 2p)
attack() { # what, and the command that does it in the cache's folder
  local what=$1
  shift
  (cd "$folder" && "$@")
  "$xtrain" cache verify >"$work/said" 2>&1 && fail "verify does not see: $what"
  warmup
  expect 1 $((all - 1)) "$what: one kernel is compiled again"
  hashes | cmp -s - "$work/hashes" || fail "$what: the kernel is not what it was"
  warmup
  expect 0 "$all" "after $what"
}
flip() { printf 'X' | dd of="$kernel" bs=1 seek=500 conv=notrunc status=none; }
relink() { mv "$kernel" "$work/moved" && ln -s "$work/moved" "$kernel"; }
link_again() { ln "$kernel" "$work/hard"; }
attack truncated truncate -s -10 "$kernel"
attack emptied truncate -s 0 "$kernel"
attack 'bit-flipped' flip
attack 'another kernel in its place' cp "$other" "$kernel"
attack 'world-writable' chmod 666 "$kernel"
attack 'a symbolic link' relink
attack 'a name elsewhere, too' link_again
[ "$(id -u)" != 0 ] || attack "another user's" chown 12345 "$kernel"

# A kernel that nobody recorded is taken away too, wherever the driver would have used it.
plant() { cp "$kernel" 0123456789abcdef.cl_cache; }
(cd "$folder" && plant)
warmup
expect 0 "$all" 'a planted kernel counts'
[ ! -e "$folder/0123456789abcdef.cl_cache" ] || fail 'a planted kernel stays'

refused() { # what, why
  warmup
  [ "$code" != 0 ] || fail "$1: the folder is used"
  grep -q "kernels are not cached: the kernel cache $work/cache.* is not used: $2" "$work/said" || fail "$1: the reason"
  hashes | cmp -s - "$work/hashes" || fail "$1: the driver wrote there"
}
chmod 777 "$folder"
refused 'a world-writable folder' 'others can write it'
chmod 700 "$folder"
mv "$folder" "$work/elsewhere"
ln -s "$work/elsewhere" "$folder"
refused 'a folder that is a link' 'it is a symbolic link'
rm "$folder"
mv "$work/elsewhere" "$folder"

# Another driver: the same one in a file of another length, since drivers are distinguished by names and lengths.
driver=/usr/lib/x86_64-linux-gnu/intel-opencl/libigdrcl.so
cp "$driver" "$work/libigdrcl.so"
echo >>"$work/libigdrcl.so"
XT_CAPTURE_DRIVER=$work/libigdrcl.so warmup
expect "$all" 0 'another driver compiles its own kernels'
[ "$(ls -d "$work"/cache/kernels/* | wc -l)" = 2 ] || fail 'another driver has another folder'
warmup
expect 0 "$all" 'the first driver finds its kernels'
echo "$all kernels: each attack was compiled again or refused"
