#!/usr/bin/env bash
# The include law sees each kind of wrong arrow, and a tree that keeps it passes.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect CODE TEXT: the check on $tree ends with this code and says this.
expect() {
  local code=0 said
  said=$(scripts/check-includes.sh "$tree" 2>&1) || code=$?
  if [ "$code" != "$1" ] || ! grep -qF -- "$2" <<<"$said"; then
    printf 'expected code %s and "%s", got code %s and:\n%s\n' "$1" "$2" "$code" "$said"
    exit 1
  fi
}
put() { # FILE LINE
  mkdir -p "$tree/$(dirname "$1")"
  printf '%s\n' "$2" >"$tree/$1"
}

put base/err.c '#include "base/err.h"'
put train/trainer.c '#include "models/graph.h"'
put models/loops/norm.c '#include "base/err.h"'
expect 0 'includes: 3 files keep the include law'

put data/jpeg.c '  #  include "device/device.h"'
expect 1 'src/data/jpeg.c:1: data/ may not include device/'
rm "$tree/data/jpeg.c"

put models/loops/norm.c '#include "train/optim.h"'
expect 1 'src/models/loops/norm.c:1: models/ may not include train/'
rm "$tree/models/loops/norm.c"

put base/log.h '#include "err.h"'
expect 1 'src/base/log.h:1: write "err.h" from src/'
rm "$tree/base/log.h"

put extra/thing.c '#include "base/err.h"'
expect 1 'the folder extra/ is not in scripts/include-law.txt'
