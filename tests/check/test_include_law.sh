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
put train/trainer.c '#include "engine/graph.h"'
put engine/loops/norm.c '#include "base/err.h"'
expect 0 'includes: 3 files keep the include law'

put data/jpeg.c '  #  include "device/device.h"'
expect 1 'data/jpeg.c:1: data/ may not include device/'
rm "$tree/data/jpeg.c"

put engine/loops/norm.c '#include "train/optim.h"'
expect 1 'engine/loops/norm.c:1: engine/ may not include train/'
rm "$tree/engine/loops/norm.c"

put base/log.h '#include "err.h"'
expect 1 'base/log.h:1: write "err.h" from the top'
rm "$tree/base/log.h"

put cli/train.c '#include "train/trainer_internal.h"'
expect 1 'cli/train.c:1: "train/trainer_internal.h" is for train/ alone'
put train/step.c '#include "train/trainer_internal.h"'
rm "$tree/cli/train.c"
expect 0 'keep the include law'
rm "$tree/train/step.c"

put models/weights/pth.c '#include "device/device.h"'
expect 1 'models/weights/pth.c:1: models/weights/ may not include device/'
rm "$tree/models/weights/pth.c"

put base/a.c '#include "base/b.h"'
put base/b.h ''
expect 0 'includes: 4 files keep the include law'
put base/b.h '#include "base/a.h"'
expect 1 'includes: a circle of includes:'
expect 1 'base/b'
rm "$tree/base/a.c" "$tree/base/b.h"

put extra/thing.c '#include "base/err.h"'
expect 1 'extra/thing.c: no folder of scripts/include-law.txt holds it'
