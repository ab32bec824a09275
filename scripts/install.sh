#!/usr/bin/env bash
# Installs the program under a prefix, or takes it away again.
#
#   install.sh PROGRAM PREFIX      PREFIX with DESTDIR before it
#   install.sh --remove PREFIX
#
# bin/xtrain, lib/xtrain/libdnnl.so.3 (where oneDNN is not the system's), lib/xtrain-xpu (oneDNN's GPU build and what it
# loads, where `make deps XPU=1` brought it), share/xtrain/configs, manual page and completions, which the program writes
# itself.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$1" = --remove ]; then
  prefix=${2%/}
  rm -f "$prefix/bin/xtrain" "$prefix/share/man/man1/xtrain.1" "$prefix/share/bash-completion/completions/xtrain" \
    "$prefix/share/zsh/site-functions/_xtrain" "$prefix/share/fish/vendor_completions.d/xtrain.fish"
  rm -rf "$prefix/lib/xtrain" "$prefix/lib/xtrain-xpu" "$prefix/share/xtrain"
  echo "removed xtrain from $prefix"
  exit
fi

program=$1
prefix=${2%/}
put() { install -D -m "$1" "$2" "$prefix/$3"; }
# Written by the program into a file first, so that a program that fails leaves no empty page behind.
written=$(mktemp -d)
trap 'rm -rf "$written"' EXIT

put 755 "$program" bin/xtrain
[ ! -e deps/dnnl/lib/libdnnl.so.3 ] || put 755 "$(realpath deps/dnnl/lib/libdnnl.so.3)" lib/xtrain/libdnnl.so.3
# Intel's OpenCL runtime for CPUs, which only tests use, stays behind; links stay links.
if [ -e deps/xpu/licences ]; then
  install -d -m 755 "$prefix/lib/xtrain-xpu"
  for file in deps/xpu/lib/lib*.so*; do
    case ${file##*/} in libintelocl* | libcommon_clang* | libocl_svml*) continue ;; esac
    cp -dp "$file" "$prefix/lib/xtrain-xpu/"
  done
fi
for config in configs/*.y*ml; do
  [ ! -e "$config" ] || put 644 "$config" "share/xtrain/$config"
done
for licence in LICENSE assets/*LICENSE* assets/*/*LICENSE* deps/dnnl/share/doc/onednn/* deps/xpu/licences/*; do
  [ ! -f "$licence" ] || put 644 "$licence" "share/xtrain/licences/$(tr / - <<<"$licence")"
done
"$program" man >"$written/xtrain.1"
put 644 "$written/xtrain.1" share/man/man1/xtrain.1
"$program" completion bash >"$written/bash"
"$program" completion zsh >"$written/zsh"
"$program" completion fish >"$written/fish"
put 644 "$written/bash" share/bash-completion/completions/xtrain
put 644 "$written/zsh" share/zsh/site-functions/_xtrain
put 644 "$written/fish" share/fish/vendor_completions.d/xtrain.fish
echo "installed xtrain in $prefix: run $prefix/bin/xtrain"
