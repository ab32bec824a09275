#!/usr/bin/env bash
# An export is written whole or not at all, and what an import takes is what was exported. Files stand for kernels.
. tests/cli/common.sh
umask 077
export XTRAIN_CACHE_DIR=$tree/cache
kernels=$XTRAIN_CACHE_DIR/kernels/0123456789abcdef
mkdir -p "$kernels"
head -c 300000 /dev/urandom >"$kernels/a.cl_cache"
printf '%s 300000 a.cl_cache\n' "$(sha256sum <"$kernels/a.cl_cache" | cut -c1-64)" >"$kernels/index.txt"
cd "$tree"

echo before >kernels.tar.gz
expect 1 'cannot write kernels.tar.gz: File too large' bash -c "ulimit -f 100; trap '' XFSZ; exec '$xtrain' cache export kernels.tar.gz"
[ "$(cat kernels.tar.gz)" = before ] || fail 'an export that failed took the place of the one before'
expect 0 'wrote 1 kernel to kernels.tar.gz' "$xtrain" cache export kernels.tar.gz
expect 0 '"written":1,"path":"kernels.tar.gz"' "$xtrain" cache export kernels.tar.gz --json
[ "$(ls)" = $'cache\nkernels.tar.gz' ] || fail 'an export left something beside it' "$(ls)"

mv cache exported
expect 0 'a.cl_cache' tar -tzf kernels.tar.gz
expect 0 '"taken":1,"refused":0' "$xtrain" cache import kernels.tar.gz --json
cmp "exported/kernels/0123456789abcdef/a.cl_cache" "$kernels/a.cl_cache" || fail 'the kernel came back as another'

# Signed, and taken from its owner alone.
if command -v ssh-keygen >/dev/null; then
  ssh-keygen -q -t ed25519 -N '' -f mine && ssh-keygen -q -t ed25519 -N '' -f theirs
  expect 0 'wrote 1 kernel' "$xtrain" cache export signed.tar.gz --sign mine
  expect 0 'took 1 kernel,' "$xtrain" cache import signed.tar.gz --key mine.pub
  expect 3 'the signature of signed.tar.gz does not hold' "$xtrain" cache import signed.tar.gz --key theirs.pub
  expect 3 'kernels.tar.gz is not signed' "$xtrain" cache import kernels.tar.gz --key mine.pub
fi

# Only what came with the archive is recorded: what somebody else laid into the folder stays a stranger's.
rm "$kernels/index.txt"
echo code >"$kernels/stranger_cache"
expect 0 'took 1 kernel,' "$xtrain" cache import kernels.tar.gz
! grep -q stranger "$kernels/index.txt" || fail 'an import recorded what it did not bring' "$(cat "$kernels/index.txt")"
expect 1 'stranger_cache: it was not recorded' "$xtrain" cache verify
rm "$kernels/stranger_cache"
expect 0 '1 kernel matches its record' "$xtrain" cache verify

# In a driver's folders, of which nothing is left behind.
mkdir -p "$kernels/a/0"
mv "$kernels/a.cl_cache" "$kernels/a/0/a0.cl_cache"
sed -i 's|a.cl_cache|a/0/a0.cl_cache|' "$kernels/index.txt"
expect 0 'wrote 1 kernel to nested.tar.gz' "$xtrain" cache export nested.tar.gz
expect 0 'removed 1 kernel' "$xtrain" cache clear
[ ! -e "$kernels" ] || fail 'clear left folders' "$(find "$kernels")"
expect 0 'took 1 kernel,' "$xtrain" cache import nested.tar.gz
expect 0 '1 kernel matches its record' "$xtrain" cache verify
expect 0 'removed 1 kernel' "$xtrain" cache clear

# One that exists already, as another: the new one counts.
mkdir -p "$kernels"
echo other >"$kernels/a.cl_cache"
expect 0 'took 1 kernel,' "$xtrain" cache import kernels.tar.gz
expect 0 '1 kernel matches its record' "$xtrain" cache verify

# pack INDEX-LINE FILE...: an archive of other.tar.gz
key=kernels/fedcba9876543210
pack() { (cd "$tree/made" && tar -czf "$tree/other.tar.gz" $key/index.txt "$@"); }
mkdir -p made/$key
line() { printf '%s %s %s\n' "$(sha256sum <"made/$key/$1" | cut -c1-64)" "$(stat -c %s "made/$key/$1")" "$1"; }

# Much from little, in one file and in many.
truncate -s 200M "made/$key/large_cache"
line large_cache >"made/$key/index.txt"
pack $key/large_cache
expect 3 'it expands to more than any cache of kernels' "$xtrain" cache import other.tar.gz
[ ! -e "$XTRAIN_CACHE_DIR/$key/large_cache" ] || fail 'a bomb was unpacked'
truncate -s 300M "made/$key/large_cache"
pack $key/large_cache
expect 3 'a size that no kernel has' "$xtrain" cache import other.tar.gz
rm "made/$key/large_cache"
for i in {1..40}; do truncate -s 1M "made/$key/${i}_cache" && line "${i}_cache"; done >"made/$key/index.txt"
pack $(cd made && echo $key/*_cache)
expect 3 'it expands to more than any cache of kernels' "$xtrain" cache import other.tar.gz
mkfifo fifo
expect 3 'fifo' timeout 20 "$xtrain" cache import fifo

# The same name twice; an index as long as may be, in no time.
rm -r "made/$key" && mkdir "made/$key"
echo code >"made/$key/a_cache"
line a_cache >"made/$key/index.txt"
pack $key/a_cache $key/a_cache --hard-dereference
expect 3 'it comes twice' "$xtrain" cache import other.tar.gz
awk 'BEGIN { for (i = 0; i < 120000; i++) printf "%064x 5 kernel-%d_cache\n", i, i }' >>"made/$key/index.txt"
pack $key/a_cache
expect 0 'took 1 kernel,' timeout 20 "$xtrain" cache import other.tar.gz

# Folders that others can write, from the base down, are refused as runs refuse them.
chmod 777 cache
expect 3 'others can write it' "$xtrain" cache import kernels.tar.gz
expect 3 'others can write it' "$xtrain" cache verify
chmod 700 cache
if [ "$(id -u)" = 0 ]; then
  chown 12345 cache
  expect 3 'it belongs to another user' "$xtrain" cache import kernels.tar.gz
fi
