#!/usr/bin/env bash
# Ctrl-C and SIGTERM while kernels are compiled: the current kernel is finished and cached, no other is begun, and the
# program says so; where the kernel in hand never ends, a second signal does. Run through double.sh.
. tests/xpu/common.sh
needs_double
keep_kernels_in "$work/cache"
export XT_LAYER_LOG=$work/log

# Starts training with nothing compiled; its process is $run.
start() {
  : >"$work/log"
  "$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --val 'synth:plates?count=4&seed=4' --batch 1 --steps 1 \
    --xpu --out "$work/run" >"$work/said" 2>&1 &
  run=$!
}
wait_for() { # a line of the layer's log
  for _ in $(seq 1200); do
    grep -q "^$1" "$work/log" && return
    kill -0 "$run" 2>/dev/null || fail "it ended before: $1"
    sleep 0.1
  done
  fail "never: $1"
}
code_of() { code=0; wait "$run" || code=$?; }

start
wait_for compiled
kill -INT "$run"
code_of
[ "$code" = 130 ] || fail "exit code $code after an interrupt"
grep -q 'stopping after what is in hand' "$work/said" || fail 'the signal is not answered at once'
grep -q '^xtrain: interrupted before all kernels were created; those that were compiled stay in the cache' "$work/said" ||
  fail 'it does not say why it ended'
compiled=$(grep -c '^compiled' "$work/log")
[ "$compiled" -lt 20 ] || fail "$compiled kernels were compiled, the interrupt was after the first"
"$xtrain" cache verify >"$work/said" && grep -Eq "^$compiled kernels? (matches its|match their) record, 0" "$work/said" ||
  fail 'compiled kernels are not cached'
[ -z "$(ls "$work"/run/*.safetensors 2>/dev/null)" ] || fail 'a checkpoint of a run that never began'

export XT_LAYER_HANG=1
start
wait_for hanging
kill -TERM "$run"
sleep 2.5
kill -0 "$run" 2>/dev/null || fail 'the kernel in hand is not waited for'
kill -TERM "$run"
code_of
[ "$code" = 143 ] || fail "exit code $code after a second signal"
echo "stopped after $compiled kernels, which are cached; a second signal ends a compilation"
