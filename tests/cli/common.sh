# What the scripts that run the program share; sourced by them from the root of the tree.
set -euo pipefail
xtrain=${XTRAIN:-${BUILD:-build}/xtrain}
[ -x "$xtrain" ] || { echo "$xtrain was not built"; exit 1; }
case $xtrain in /*) ;; *) xtrain=$PWD/$xtrain ;; esac
dnnl=$PWD/deps/dnnl/lib/libdnnl.so.3
[ ! -e "$dnnl" ] || export XTRAIN_DNNL=${XTRAIN_DNNL:-$dnnl}
tree=$(mktemp -d "${TMPDIR:-/tmp}/xtrain-test-XXXXXX")
trap 'rm -rf "$tree"' EXIT

. tests/cpu.sh

# The beginning of a run that takes a second or two.
small=(--model lprnet --data 'synth:plates?count=24&seed=3' --batch 4)

fail() {
  printf '%s\n' "$@"
  exit 1
}

# expect CODE TEXT COMMAND...: exits with this code and prints this on either output, stored in $said.
expect() {
  local want_code=$1 want_text=$2 code=0
  shift 2
  said=$("$@" 2>&1) || code=$?
  [ "$code" = "$want_code" ] || fail "expected exit code $want_code, got $code from: $*" "$said"
  grep -qF -- "$want_text" <<<"$said" || fail "expected \"$want_text\" from: $*" "$said"
}

# stops CODE TEXT SIGNAL COMMAND...: the command, half a second after it listens to signals, gets one.
stops() {
  local want_code=$1 want_text=$2 signal=$3 code=0
  shift 3
  "$@" <&0 >"$tree/stopped-said" 2>&1 &
  local child=$!
  until grep -qs '^SigCgt:.*[4-7c-f][0-9a-f]\{3\}$' /proc/$child/status || ! kill -0 $child 2>/dev/null; do sleep 0.02; done
  sleep 0.5
  kill -"$signal" $child || fail "it ended before the signal: $*" "$(cat "$tree/stopped-said")"
  for ((i = 0; i < 300; i++)); do kill -0 $child 2>/dev/null || break; sleep 0.1; done
  kill -KILL $child 2>/dev/null && fail "still running half a minute after SIG$signal: $*"
  wait $child || code=$?
  said=$(cat "$tree/stopped-said")
  [ "$code" = "$want_code" ] || fail "expected exit code $want_code by SIG$signal, got $code from: $*" "$said"
  grep -qF -- "$want_text" <<<"$said" || fail "expected \"$want_text\" from: $*" "$said"
}

# The losses of a run, "step loss" a line.
losses() {
  sed -n 's/^{"step":\([0-9]*\),.*"loss":\([^,]*\),.*/\1 \2/p' "$1/metrics.jsonl"
}

# Whether two files of weights have the same tensors; their metadata names their runs.
same_weights() {
  cmp <(tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1") <(tail -c +$((9 + $(od -An -tu8 -N8 "$2"))) "$2")
}

# What training wrote, without the times that differ from run to run, and the chain of lines with them.
record() {
  sed 's/,"chain":"[^"]*"//; s/,"time":[^,}]*//; s/,"images_per_s":[^,}]*,"wait":[^,}]*//; s/,"device_memory_bytes":[^,}]*,"device_busy":[^,}]*//' \
    "$1/metrics.jsonl"
}

# What the run's report found, without times: the part of the page beside the curves.
findings() {
  sed 's/.*"evaluation":{/{/' "$1/report.json"
}

# The run's events for TensorBoard but for when they were written and how fast the machine was, "step tag value" a line;
# nothing where there is no Python to read them.
events() {
  command -v python3 >/dev/null || return 0
  python3 - "$1/events.out.tfevents.xtrain" <<'EVENTS'
import hashlib, struct, sys
def fields(data):
    at = 0
    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, data[at:at + size]
        at += size
data = open(sys.argv[1], "rb").read()
while data:
    size = struct.unpack("<Q", data[:8])[0]
    event, data = dict(fields(data[12:12 + size])), data[16 + size:]
    for _, value in fields(event.get(5, b"")):
        value = dict(fields(value))
        tag = value[1].decode()
        if not any(word in tag for word in ("images_per_s", "wait", "device_")):
            print(event[2], tag, value[2].hex() if 2 in value else hashlib.sha256(value[4]).hexdigest())
EVENTS
}

# same_run WHOLE RUN WHAT: the record and all weights of two runs are the same.
same_run() {
  local file
  diff <(record "$1") <(record "$2") || fail "$3: the record differs"
  diff <(findings "$1") <(findings "$2") || fail "$3: what the report found differs"
  diff <(events "$1") <(events "$2") || fail "$3: TensorBoard's events differ"
  for file in last best ema; do
    [ ! -e "$1/$file.safetensors" ] || same_weights "$1/$file.safetensors" "$2/$file.safetensors" || fail "$3: the $file weights differ"
  done
}

# Kills at random moments until the run comes to its end; on a machine that is busy, later and later.
kill_until_done() { # RUN OPTIONS...
  local out=$1 code='' life tries=0
  kills=${kills:-0}
  shift
  until [ "$code" = 0 ]; do
    life=$((RANDOM % 1500 + 200 + 300 * tries++))
    code=0
    timeout -s KILL $((life / 1000)).$(printf %03d $((life % 1000))) "$xtrain" "$@" --out "$out" --resume auto \
      >"$tree/said" 2>&1 || code=$?
    [ "$code" = 0 ] || [ "$code" = 137 ] || fail "killed and resumed, it ended with code $code" "$(cat "$tree/said")"
    kills=$((kills + 1))
  done
}
