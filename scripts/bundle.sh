#!/usr/bin/env bash
# Makes dist/xtrain-VERSION-linux-ARCH.tar.gz: program, libraries, configs and licences in one folder that runs from
# wherever it is unpacked, without root, network or packages. Only glibc is the machine's own.
#
#   bundle.sh PROGRAM VERSION
#
# The result is proved before it is kept: unpacked in an empty folder and run there with an empty environment.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
name=xtrain-$2-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$work/$name

scripts/install.sh "$program" "$folder" >/dev/null
mkdir -p "$folder/lib/xtrain"
strip "$folder/bin/xtrain"
[ ! -e "$folder/lib/libxtrain.so.1" ] || strip "$folder/lib/libxtrain.so.1"

# The system's oneDNN where none was fetched.
if [ ! -e "$folder/lib/xtrain/libdnnl.so.3" ]; then
  system=$(/sbin/ldconfig -p | awk '$1 ~ /^libdnnl[.]so[.]3/ { print $NF; exit }')
  [ -n "$system" ] || { echo 'bundle: no libdnnl.so.3 was found: run "make deps"' >&2; exit 1; }
  install -m 755 "$(realpath "$system")" "$folder/lib/xtrain/libdnnl.so.3"
fi

# serve loads this one, where it is; the bundle's own is found beside the others.
http=$(/sbin/ldconfig -p | awk '$1 ~ /^libmicrohttpd[.]so[.]12/ { print $NF; exit }')
[ -z "$http" ] || install -m 755 "$(realpath "$http")" "$folder/lib/xtrain/libmicrohttpd.so.12"

# What these load, all the way down, but for glibc: that one belongs to the kernel and the machine.
needed() { ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'; }
{ needed "$folder/bin/xtrain"; for library in "$folder"/lib/xtrain/*.so.*; do needed "$library"; done
  [ -z "$http" ] || echo "libmicrohttpd.so.12 $http"; } | sort -u |
  grep -vE '^(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux[^ ]*)\.so' |
  while read -r soname path; do
    [ -e "$folder/lib/xtrain/$soname" ] || install -m 755 "$path" "$folder/lib/xtrain/$soname"
    # Its licence lies with its Debian package.
    file=$(realpath "$path")
    package=$(dpkg -S "$file" "${file#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1 || true)
    if [ -n "$package" ] && [ -f "/usr/share/doc/$package/copyright" ]; then
      install -D -m 644 "/usr/share/doc/$package/copyright" "$folder/share/xtrain/licences/$package"
    fi
  done

install -m 644 README.md LICENSE "$folder/"
# objdump fails on the odd .so that is no program but a linker's text; the others count.
glibc=$({ find "$folder" -type f \( -name '*.so*' -o -name xtrain -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null || true; } |
  grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1 | cut -d_ -f2)

mkdir -p dist
tar -C "$work" --owner=0 --group=0 --sort=name -czf "dist/$name.tar.gz.part" "$name"

# The proof.
mkdir "$work/proof"
tar -C "$work/proof" -xzf "dist/$name.tar.gz.part"
moved=$work/proof/$name
strangers=$(env -i LD_TRACE_LOADED_OBJECTS=1 "$moved/bin/xtrain" 2>&1 |
  grep -vE "$moved|linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|resolv|util)\.so" || true)
[ -z "$strangers" ] || { echo "bundle: these come from outside the bundle: $strangers" >&2; exit 1; }
said=$(cd / && env -i "$moved/bin/xtrain" --version) || { echo "bundle: the unpacked program does not run: $said" >&2; exit 1; }
mv "dist/$name.tar.gz.part" "dist/$name.tar.gz"
echo "dist/$name.tar.gz: $(du -h "dist/$name.tar.gz" | cut -f1), for any Linux with glibc $glibc or later. Unpacked, it says:"
sed 's/^/  /; s|'"$moved"'|.|g' <<<"$said"
