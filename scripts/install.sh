#!/usr/bin/env bash
# Installs the program under a prefix, or takes it away again.
#
#   install.sh PROGRAM PREFIX      PREFIX with DESTDIR before it
#   install.sh --remove PREFIX     what the installation there recorded in share/xtrain/installed, and nothing else
#
# bin/xtrain, lib/xtrain/libdnnl.so.3 (where oneDNN is not the system's), lib/xtrain/libxtrain_mpi.so and libxtrain_mpich.so (where MPI is) and
# libxtrain_guard.so (for an XPU), lib/xtrain-xpu (oneDNN's GPU build and what it loads, where `make deps XPU=1` brought it;
# not with XPU=0), lib/libxtrain.so.1 with include/xtrain.h and lib/pkgconfig/xtrain.pc (where it was built beside the
# program), share/xtrain/configs, manual pages and completions, which the program writes itself.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$1" = --remove ]; then
  prefix=${2%/}
  installed=$prefix/share/xtrain/installed
  if [ ! -f "$installed" ]; then
    echo "nothing was removed: $installed, which an installation writes, is not there" >&2
    exit 1
  fi
  count=0
  while IFS= read -r file; do
    case /$file/ in */../*) continue ;; esac
    if [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; then
      rm -f "$prefix/$file"
      echo "removed $prefix/$file"
      count=$((count + 1))
    fi
  done <"$installed"
  rm -f "$installed"
  for folder in lib/xtrain lib/xtrain-xpu share/xtrain share/doc/xtrain; do
    [ ! -d "$prefix/$folder" ] || find "$prefix/$folder" -depth -type d -empty -delete
    [ ! -d "$prefix/$folder" ] || echo "left $prefix/$folder: it holds what was not installed"
  done
  echo "removed $count files of xtrain from $prefix"
  exit
fi

program=$1
prefix=${2%/}
installed=
put() {
  install -D -m "$1" "$2" "$prefix/$3"
  installed+=$3$'\n'
}
# Written by the program into a file first, so that a program that fails leaves no empty page behind.
written=$(mktemp -d)
trap 'rm -rf "$written"' EXIT

put 755 "$program" bin/xtrain
[ ! -e deps/dnnl/lib/libdnnl.so.3 ] || put 755 "$(realpath deps/dnnl/lib/libdnnl.so.3)" lib/xtrain/libdnnl.so.3
for plugin in libxtrain_mpi.so libxtrain_mpich.so libxtrain_guard.so; do
  file=$(dirname "$program")/$plugin
  [ ! -e "$file" ] || put 755 "$file" "lib/xtrain/$plugin"
done
# Intel's OpenCL runtime for CPUs, which only tests use, stays behind; links stay links.
xpu=deps/xpu
[ "${XPU:-}" != 0 ] || xpu=none
if [ -e $xpu/licences ]; then
  install -d -m 755 "$prefix/lib/xtrain-xpu"
  for file in $xpu/lib/lib*.so*; do
    case ${file##*/} in libintelocl* | libcommon_clang* | libocl_svml*) continue ;; esac
    cp -dp "$file" "$prefix/lib/xtrain-xpu/"
    installed+=lib/xtrain-xpu/${file##*/}$'\n'
  done
fi
library=$(dirname "$program")/libxtrain.so.1
if [ -e "$library" ]; then
  put 755 "$library" lib/libxtrain.so.1
  ln -sfn libxtrain.so.1 "$prefix/lib/libxtrain.so"
  installed+=lib/libxtrain.so$'\n'
  put 644 infer/session/xtrain.h include/xtrain.h
  printf '%s\n' 'prefix=${pcfiledir}/../..' '' 'Name: xtrain' 'Description: Networks that xtrain trained: pictures in, answers out' \
    "Version: $("$program" --version | sed -n '1s/^xtrain \([0-9.]*\).*/\1/p')" 'Libs: -L${prefix}/lib -lxtrain' \
    'Cflags: -I${prefix}/include' >"$written/xtrain.pc"
  put 644 "$written/xtrain.pc" lib/pkgconfig/xtrain.pc
fi
for config in configs/*.y*ml; do
  [ ! -e "$config" ] || put 644 "$config" "share/xtrain/$config"
done
for script in configs/*.sh; do
  put 755 "$script" "share/xtrain/$script"
done
for licence in LICENSE assets/*LICENSE* assets/*/*LICENSE* deps/dnnl/share/doc/onednn/* $xpu/licences/*; do
  [ ! -f "$licence" ] || put 644 "$licence" "share/xtrain/licences/$(tr / - <<<"$licence")"
done
for page in README.md LICENSE docs/*.md docs/notes/*.md docs/images/*; do
  put 644 "$page" "share/doc/xtrain/$page"
done
"$program" man >"$written/xtrain.1"
put 644 "$written/xtrain.1" share/man/man1/xtrain.1
sed -nE '/^[.]SH COMMANDS/,/^[.]SH OPTIONS/s/^[.]B xtrain ((bench|data) [a-z]+|[a-z]+).*/\1/p' "$written/xtrain.1" >"$written/commands"
while read -r command; do
  # shellcheck disable=SC2086
  "$program" man $command </dev/null >"$written/page"
  put 644 "$written/page" "share/man/man1/xtrain-${command// /-}.1"
done <"$written/commands"
"$program" completion bash >"$written/bash"
"$program" completion zsh >"$written/zsh"
"$program" completion fish >"$written/fish"
put 644 "$written/bash" share/bash-completion/completions/xtrain
put 644 "$written/zsh" share/zsh/site-functions/_xtrain
put 644 "$written/fish" share/fish/vendor_completions.d/xtrain.fish
printf %s "$installed" >"$written/installed"
put 644 "$written/installed" share/xtrain/installed
echo "installed xtrain in $prefix: run $prefix/bin/xtrain"
case $prefix in
  /usr | /usr/local) ;;
  *) [ ! -e "$library" ] || echo "libxtrain: PKG_CONFIG_PATH=$prefix/lib/pkgconfig to build programs with it, LD_LIBRARY_PATH=$prefix/lib to run them" ;;
esac
