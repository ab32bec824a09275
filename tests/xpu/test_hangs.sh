#!/usr/bin/env bash
# A driver that hangs (fault_layer.c), wherever it does and whatever the command: the command ends within --device-timeout
# with code 4 and one sentence that says what hangs, since when, in which phase, and what to do. Run through double.sh.
. tests/xpu/common.sh
needs_faults

ends_at() { # the fault; what the sentence says; the command
  rm -rf "$work/run"
  code=0
  XT_FAULT=$1 timeout -s KILL 60 "$xtrain" "${@:3}" --device-timeout 2 >"$work/said" 2>&1 || code=$?
  [ "$code" = 4 ] || fail "$1: ${*:3}: exit code $code"
  grep -Eq "^xtrain: error: .*it has not answered for [0-9]+ s, since [0-9:]{8}, in $2" "$work/said" || fail "$1: ${*:3}: the sentence"
}
train=(train "${small[@]}" --steps 1 --xpu --no-device-check --out "$work/run")

# Each place.
doctor='while it is opened; "xtrain doctor" checks each step'
ends_at 'hang-device 1' "the search for GPUs, $doctor" "${train[@]}"
ends_at 'hang-context 1' ".*, $doctor" "${train[@]}"
ends_at 'hang-build 3' 'the compilation of kernel [0-9]+ \(.*: .*\); .*--device-timeout gives more time' "${train[@]}"
ends_at 'hang-launch 20' 'a launch; .*dmesg.*; the last op submitted: .*; there is no checkpoint yet' "${train[@]}"
ends_at 'hang-copy 1' 'a (launch|copy (from|to) its memory)' "${train[@]}"
ends_at 'hang 33' 'a (wait for its work|launch|copy (from|to) its memory); .*; the last op submitted: .*; resume with: ' "${train[@]}" --steps 4 --save-every 1
ends_at 'hang 40' '.*, in the device check' "${train[@]/--no-device-check/--device-check}"

# Each command.
"$xtrain" "${small[@]}" --steps 1 --quiet --out "$work/cpu" >"$work/said" 2>&1 || fail 'training on the CPU'
weights=$work/cpu/last.safetensors
ends_at 'hang 1' '' eval "${small[@]:2}" --init "$weights" --xpu --no-device-check
ends_at 'hang-device 1' '' predict "$weights" 'synth:shapes?count=4' --xpu
ends_at 'hang 1' '' serve "$weights" --xpu --no-device-check --listen 127.0.0.1:0
ends_at 'hang 1' '' bench step "${small[@]:0:4}" --xpu
ends_at 'hang-build 1' '' bench infer "${small[@]:0:4}" --xpu
ends_at 'hang-build 3' '' selftest --xpu --small

# Those that ask in child processes say it in a row.
for command in doctor devices; do
  code=0
  XT_FAULT='hang-device 1' timeout -s KILL 60 "$xtrain" $command --device-timeout 2 >"$work/said" 2>&1 || code=$?
  grep -Eq 'it has not answered for [0-9]+ s, since [0-9:]{8}, in the search for GPUs, while GPUs are listed' "$work/said" ||
    fail "$command: exit code $code"
done

# The CPU time of a process and its children.
ticks() {
  local process
  for process in "$1" $(cat "/proc/$1/task/$1/children" 2>/dev/null); do cat "/proc/$process/stat" 2>/dev/null || true; done |
    sed 's/.*) //' | awk '{ sum += $12 + $13 } END { print sum + 0 }'
}
# Returns when the process takes no more CPU time: it has come to where it hangs.
comes_to_rest() {
  local before=-1 now
  for ((i = 0; i < 60; i++)); do
    now=$(ticks "$1")
    [ "$now" != "$before" ] || return 0
    before=$now
    sleep 1.5
  done
}

# A second signal ends a command that hangs at once, and its children.
stops() { # the fault; the command
  XT_FAULT=$1 "$xtrain" "${@:2}" >"$work/said" 2>&1 &
  run=$!
  comes_to_rest "$run"
  kill -TERM "$run"
  sleep 2.1
  kill -0 "$run" || fail "$1: it ended by the first signal"
  children=$(cat "/proc/$run/task/$run/children")
  kill -TERM "$run"
  code=0
  wait "$run" || code=$?
  [ "$code" = 143 ] || fail "$1: exit code $code after a second signal"
  for child in $children; do
    for ((i = 0; i < 100; i++)); do grep -q '^State:.[^Z]' "/proc/$child/status" 2>/dev/null || break; sleep 0.1; done
    [ "$i" -lt 100 ] || fail 'its child goes on'
  done
}
stops 'hang 1' eval "${small[@]:2}" --init "$weights" --xpu --no-device-check
stops 'hang-device 1' doctor
keep_kernels_in "$work/cache"
ends_at 'hang-build 1' '' warmup "${small[@]:0:4}" --for predict --xpu
echo 'each command ends where a driver hangs, and says where; a second signal ends it at once'
