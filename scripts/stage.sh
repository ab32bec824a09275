#!/usr/bin/env bash
# Makes a folder that runs from wherever it lies, without root, network or packages: what `make install` installs,
# stripped, and in lib/xtrain the libraries that all of it loads. Only glibc is the machine's own.
#
#   stage.sh PROGRAM FOLDER [LIBRARIES]    LIBRARIES: a pattern of others that the machine has ("libz|libstdc[+][+]")
#
# Prints the version of glibc that it needs. The result is proved: its program is run with an empty environment.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 folder=$2
stop() {
  echo "stage: $*" >&2
  exit 1
}
machines="^(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux[^ ]*${3:+|$3})[.]so"

scripts/install.sh "$program" "$folder" >/dev/null
mkdir -p "$folder/lib/xtrain"

# The system's oneDNN where none was fetched.
if [ ! -e "$folder/lib/xtrain/libdnnl.so.3" ]; then
  system=$(/sbin/ldconfig -p | awk '$1 ~ /^libdnnl[.]so[.]3/ { print $NF; exit }')
  [ -n "$system" ] || stop 'no libdnnl.so.3 was found: run "make deps"'
  install -m 755 "$(realpath "$system")" "$folder/lib/xtrain/libdnnl.so.3"
fi

for binary in bin/xtrain lib/libxtrain.so.1 lib/xtrain/libdnnl.so.3; do
  [ ! -e "$folder/$binary" ] || strip "$folder/$binary"
done

# serve loads this one, where it is; the folder's own is found beside the others.
http=$(/sbin/ldconfig -p | awk '$1 ~ /^libmicrohttpd[.]so[.]12/ { print $NF; exit }')
[ -z "$http" ] || install -m 755 "$(realpath "$http")" "$folder/lib/xtrain/libmicrohttpd.so.12"

# What these load, all the way down, but for glibc: that one belongs to the kernel and the machine.
needed() { ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'; }
{
  needed "$folder/bin/xtrain"
  for library in "$folder"/lib/xtrain/*.so.*; do needed "$library"; done
  [ -z "$http" ] || echo "libmicrohttpd.so.12 $http"
} | sort -u | grep -vE "$machines" |
  while read -r soname path; do
    [ -e "$folder/lib/xtrain/$soname" ] || install -m 755 "$path" "$folder/lib/xtrain/$soname"
    # Its licence lies with its Debian package.
    file=$(realpath "$path")
    package=$(dpkg -S "$file" "${file#/usr}" 2>/dev/null | head -n 1 | cut -d: -f1 || true)
    if [ -n "$package" ] && [ -f "/usr/share/doc/$package/copyright" ]; then
      install -D -m 644 "/usr/share/doc/$package/copyright" "$folder/share/xtrain/licences/$package"
    fi
  done

strangers=$(env -i LD_TRACE_LOADED_OBJECTS=1 "$folder/bin/xtrain" 2>&1 | sed 's/^[[:space:]]*//' |
  grep -vE "$folder|linux-vdso|ld-linux|$machines" || true)
[ -z "$strangers" ] || stop "these come from elsewhere: $strangers"
said=$(cd / && env -i "$folder/bin/xtrain" --version) || stop "the program does not run: $said"

# objdump fails on the odd .so that is no program but a linker's text; the others count.
{ find "$folder" -type f \( -name '*.so*' -o -name xtrain -path '*/bin/*' \) -exec objdump -T {} + 2>/dev/null || true; } |
  grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1 | cut -d_ -f2
