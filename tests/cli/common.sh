# What the scripts that run the program share; sourced by them from the root of the tree.
set -euo pipefail
xtrain=${XTRAIN:-${BUILD:-build}/xtrain}
[ -x "$xtrain" ] || { echo "$xtrain was not built"; exit 1; }
case $xtrain in /*) ;; *) xtrain=$PWD/$xtrain ;; esac
dnnl=$PWD/deps/dnnl/lib/libdnnl.so.3
[ ! -e "$dnnl" ] || export XTRAIN_DNNL=${XTRAIN_DNNL:-$dnnl}
tree=$(mktemp -d "${TMPDIR:-/tmp}/xtrain-test-XXXXXX")
trap 'rm -rf "$tree"' EXIT

# The beginning of a run that takes a second or two.
small=(--model lprnet --data 'synth:plates?count=24&seed=3' --batch 4)

fail() {
  printf '%s\n' "$@"
  exit 1
}

# expect CODE TEXT COMMAND...: ends with this code and says this on either output, kept in $said.
expect() {
  local want_code=$1 want_text=$2 code=0
  shift 2
  said=$("$@" 2>&1) || code=$?
  [ "$code" = "$want_code" ] || fail "expected exit code $want_code, got $code from: $*" "$said"
  grep -qF -- "$want_text" <<<"$said" || fail "expected \"$want_text\" from: $*" "$said"
}

# The losses of a run, "step loss" a line.
losses() {
  sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"
}

# What training wrote, without the times that differ from run to run.
record() {
  sed 's/,"images_per_s":[^,}]*,"wait":[^,}]*//' "$1/metrics.jsonl"
}
