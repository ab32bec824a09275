#!/usr/bin/env bash
# The binary interface of libxtrain: what programs that were linked with an earlier one rely on.
#
#   abi.sh LIBRARY FILE             compares the library with what FILE records; exit code 1 where they differ
#   abi.sh --record LIBRARY FILE    records it anew
#
# What is added at the end of the list is compatible, and is recorded in the same change. What is taken away or changed
# is not: programs would break, so that takes another soname (libxtrain.so.2) and another node of symbols.
set -euo pipefail
cd "$(dirname "$0")/.."
record=
if [ "$1" = --record ]; then record=yes && shift; fi
library=$1 file=$2
private=(--headers-dir infer/session --drop-private-types)
same=(--exported-interfaces-only --no-show-locs --no-comp-dir-path --no-corpus-path --no-elf-needed)

if ! command -v abidiff >/dev/null; then
  echo 'abi: not checked: abidiff is not here; "make deps-check" installs it'
  [ -z "$record" ] || exit 1
  exit 0
fi
if ! grep -q debug_info <<<"$(readelf -S "$library")"; then
  echo "abi: not checked: $library was built without -g, so that its types are not known"
  [ -z "$record" ] || exit 1
  exit 0
fi
now=$(mktemp)
trap 'rm -f "$now"' EXIT
abidw "${private[@]}" "${same[@]}" --out-file "$now" "$library"
if [ -n "$record" ]; then
  cp "$now" "$file"
  echo "abi: recorded in $file"
  exit
fi
# Two records: told to leave private types out, abidiff itself would take the recorded structures for such.
if ! said=$(abidiff "$file" "$now" 2>&1); then
  printf '%s\n' "$said" "abi: $library is not as $file records it. If programs that were linked before still run, record it: make abi-record"
  exit 1
fi
echo 'abi: libxtrain is as it was recorded'
