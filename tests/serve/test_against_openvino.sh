#!/usr/bin/env bash
# scripts/against-openvino.py: both servers answer alike, and each is loaded. XTRAIN_TEST_ALL=1: int8 too, and
# scripts/against-runtimes.py with all runtimes in one process.
. tests/cli/common.sh
python=${XTRAIN_PYTHON:-$PWD/deps/python/bin/python}
"$python" -c 'import numpy, openvino, PIL' 2>/dev/null ||
  { echo 'skipped: no Python with openvino; "make deps-check" brings one'; exit 77; }
shared=${XTRAIN_SHARED:-../shared}
[ -d "$shared/data/plates" ] || { echo 'skipped: no shared data'; exit 77; }
mkdir "$tree/plates"
find "$shared/data/plates/val/" -name '*.jpg' | sort | sed -n 1,20p | while read -r file; do cp "$file" "$tree/plates/"; done
against() { # LEAST OPTION...: of 20 answers at least LEAST are the same
  local least=$1 same
  shift
  expect 0 '| 2 | ' "$python" scripts/against-openvino.py "$shared/data/weights/lprnet_sirius.pth" "$tree/plates" --model lprnet \
    --xtrain "$xtrain" --turns 1 --seconds 0.2 --clients 2 "$@"
  same=$(sed -n 's/ of 20 answers are the same$//p' <<<"$said")
  [ "${same:-0}" -ge "$least" ] || fail "fewer than $least answers alike" "$said"
}
against 20
[ -z "${XTRAIN_TEST_ALL:-}" ] || against 19 --amp int8 --calibrate "$tree/plates"
[ -n "${XTRAIN_TEST_ALL:-}" ] && "$python" -c 'import onnxruntime' 2>/dev/null || exit 0
expect 0 'each in turn  ' "$python" scripts/against-runtimes.py "$shared/data/weights/lprnet_sirius.pth" "$tree/plates" --shared \
  --model-name lprnet --xtrain "$xtrain" --turns 1 --seconds 0.1
