#!/usr/bin/env bash
# The networks in bf16, and LPRNet by AVX2, against the shared reference numbers (`make test` runs them in float32 by the
# machine's instructions), and what of those follows from the file's seed.
set -euo pipefail
cd "$(dirname "$0")/../.."

golden=${BUILD:-build}/tests/golden
numbers=${XTRAIN_SHARED:-../shared}/golden
if [ ! -d "$numbers" ]; then
  echo 'skipped: no shared data'
  exit 77
fi
[ -x "$golden" ] || { echo "$golden was not built"; exit 1; }
case $golden in
  /*) export XTRAIN_DNNL=${XTRAIN_DNNL:-$PWD/deps/dnnl/lib/libdnnl.so.3} ;;
esac
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
# The seed by another name and, with XTRAIN_TEST_ALL=1, by another number: both as long as before.
for change in 's/"seed"/"sEED"/' ${XTRAIN_TEST_ALL:+'s/"seed":"1"/"seed":"2"/'}; do
  LC_ALL=C sed "$change" "$numbers/resnet50.safetensors" >"$work/resnet50.safetensors"
  if "$golden" --model resnet50 "$work" >"$work/said" 2>&1; then echo 'golden takes another seed'; exit 1; fi
  case $change in
    *2*) grep -q '^WRONG  eval.logits' "$work/said" ;;
    *) grep -q 'resnet50.safetensors: its metadata has no integer "seed"' "$work/said" ;;
  esac || { cat "$work/said"; exit 1; }
done
. tests/cpu.sh
if cpu_has bf16; then
  said=$(ONEDNN_MAX_CPU_ISA=AVX2 "$golden" --model lprnet "$numbers") || { echo "$said"; exit 1; }
fi
refuses() { if "$golden" "$@" >/dev/null 2>&1; then echo "golden $* succeeds"; exit 1; fi; }
refuses --amp f64 "$numbers"
refuses --amp bf16 /nowhere
refuses --model lenet "$numbers"
if ! grep -qw avx512_bf16 /proc/cpuinfo; then
  echo 'skipped: this CPU has no bf16'
  exit 77
fi
said=$("$golden" --amp bf16 "$numbers") || { echo "$said"; exit 1; }
echo "$said"
# The check fails when it compares nothing.
grep -q 'sample.train.grad.\* as one vector' <<<"$said"
grep -q '^[1-9][0-9]* passed, 0 failed$' <<<"$said"
