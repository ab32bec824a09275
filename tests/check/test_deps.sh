#!/usr/bin/env bash
# scripts/deps.sh: a DNNL_ROOT is checked before it is used, and without root nothing is installed but the exact line
# is printed. Works on a copy of the script, so that the tree's own deps/ stays as it is.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir "$tree/scripts" "$tree/fake"
cp scripts/deps.sh "$tree/scripts/"

# expect CODE TEXT [NAME=VALUE...]: the script in this environment ends with this code and says this.
expect() {
  local code=0 said want_code=$1 want_text=$2
  shift 2
  said=$(env "$@" "$tree/scripts/deps.sh" 2>&1) || code=$?
  if [ "$code" != "$want_code" ] || ! grep -qF -- "$want_text" <<<"$said"; then
    printf 'expected code %s and "%s", got code %s and:\n%s\n' "$want_code" "$want_text" "$code" "$said"
    exit 1
  fi
}
fake() { # NAME SCRIPT: stands before the real one
  printf '#!/bin/sh\n%s\n' "$2" >"$tree/fake/$1"
  chmod +x "$tree/fake/$1"
}
dnnl() { # MAJOR MINOR: headers of an oneDNN of this version
  mkdir -p "$tree/onednn/include/oneapi/dnnl"
  printf '#define DNNL_VERSION_MAJOR %s\n#define DNNL_VERSION_MINOR %s\n' "$1" "$2" \
    >"$tree/onednn/include/oneapi/dnnl/dnnl_version.h"
  touch "$tree/onednn/include/oneapi/dnnl/dnnl.h"
}

expect 2 'holds no oneDNN' DNNL_ROOT="$tree/none"
dnnl 2 6
expect 2 'is oneDNN 2.6; 3.2 or later is needed' DNNL_ROOT="$tree/onednn"
dnnl 3 10
expect 2 'has no lib/libdnnl.so.3' DNNL_ROOT="$tree/onednn"
mkdir "$tree/onednn/lib64"
touch "$tree/onednn/lib64/libdnnl.so.3"
expect 0 'oneDNN 3.10 from' DNNL_ROOT="$tree/onednn"
[ -e "$tree/deps/dnnl/lib/libdnnl.so.3" ] || { echo 'deps/dnnl/lib does not lead to the library'; exit 1; }
said=$(DNNL_ROOT=$tree/onednn "$tree/scripts/deps.sh" 2>&1)
[ -z "$said" ] || { echo "the second run says: $said"; exit 1; }

# A user without root on a machine without the headers.
fake gcc 'exit 1'
fake id 'echo 1000'
fake sudo 'exit 1'
fake apt-get 'echo "apt-get must not run"; exit 9'
fake apt-cache ':'
expect 2 'sudo apt-get update && sudo apt-get install -y --no-install-recommends libpng-dev libwebp-dev' \
  PATH="$tree/fake:$PATH"
