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
[ "$(ls)" = $'cache\nkernels.tar.gz' ] || fail 'an export left something beside it' "$(ls)"

mv cache exported
expect 0 'a.cl_cache' tar -tzf kernels.tar.gz
expect 0 '' "$xtrain" cache import kernels.tar.gz
cmp "exported/kernels/0123456789abcdef/a.cl_cache" "$kernels/a.cl_cache" || fail 'the kernel came back as another'
