#!/usr/bin/env bash
# A GPU that fails under a run (fault_layer.c): whatever the driver does, the run ends with code 4 and a sentence that
# names the device, the op, the last checkpoint and the line that resumes, or the run resumes itself. Run through double.sh.
. tests/xpu/common.sh
needs_faults

train() { train_under "$1" --no-device-check "${@:2}"; }
lost() { # what is said of the fault
  [ "$code" = 4 ] || fail "$XT_FAULT: exit code $code"
  grep -Eq "^xtrain: error: the device was lost: xpu:0: .*$1.*; the last checkpoint is of step [0-9]+; resume with: .*xtrain --resume $work/run\$" \
    "$work/said" || fail "$XT_FAULT: the sentence"
}

train 'launch 100' --json && lost 'the driver says: .*OUT_OF_RESOURCES'
grep -q '"exit_reason": *"the device was lost.*"exit_code": *4}' "$work/said" || fail 'the end as JSON'
train 'abort 100' --json --quiet && lost 'its driver gave up \(abort\); the last op submitted: .*: .*'
is_json() { # the end of the reason
  grep -Eq "^\{\"schema\":\{[^}]*\},\"run\":\"$work/run\",\"steps\":4,\"step\":[0-9],\"exit_reason\":\"the device was lost: xpu:0: .*$1; the last .*,\"exit_code\":4\}\$" \
    "$work/said" || fail "$XT_FAULT: the end as JSON"
}
is_json 'its driver gave up \(abort\)'
train 'finish 31' && lost 'the driver says: .*OUT_OF_RESOURCES.*; the last op submitted: .*: .*'

# With --on-device-loss resume the run continues, to the same losses.
train none
[ "$code" = 0 ] || fail 'without a fault'
losses "$work/run" >"$work/whole"
for fault in 'launch 100' 'hang 33'; do
  rm -f "$work/once"
  XT_FAULT_ONCE=$work/once train "$fault" --on-device-loss resume --device-timeout 3
  [ "$code" = 0 ] || fail "$fault: it does not continue"
  grep -Eq 'the device was lost: xpu:0: .*; the last checkpoint is of step [0-9]+; restarting from there \(1 of at most 5 in a row\)' \
    "$work/said" || fail "$fault: it does not say that it starts again"
  losses "$work/run" | diff "$work/whole" - || fail "$fault: other losses than without"
done
grep -q '^warning: xpu:0: .* has not responded for [0-9]* s, in .*; last work submitted: .*; after 3 s the run ends' "$work/said" ||
  fail 'a device that does not answer is not spoken of before'

# One that fails each time, before there is a checkpoint, ends.
XTRAIN_REEXEC=5,-1 train 'launch 20' --on-device-loss resume
[ "$code" = 4 ] || fail "a device that never works: exit code $code"
grep -q '^xtrain: error: the device was lost: .*; there is no checkpoint yet; it was lost 5 times in a row without a new checkpoint$' \
  "$work/said" || fail 'it does not say why it gives up'
echo 'a launch, a wait, an abort and a hang end in a sentence; a run resumes itself, but not for ever'
