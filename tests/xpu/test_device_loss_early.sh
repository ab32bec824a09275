#!/usr/bin/env bash
# A GPU that fails before the run's folder is open (fault_layer.c): with --on-device-loss resume the run begins again as it
# was typed, and not for ever. And one that hangs: --json ends in an object all the same. Run through double.sh.
. tests/xpu/common.sh
needs_faults

rm -f "$work/once"
XT_FAULT_ONCE=$work/once train_under 'launch 5' --on-device-loss resume
[ "$code" = 0 ] || fail "lost in the check: exit code $code"
grep -Eq '^warning: the device was lost while it was checked: xpu:0: .*; there is no checkpoint yet; restarting from the beginning \(1 of at most 5 in a row\)$' \
  "$work/said" || fail 'lost in the check: the sentence'
[ "$(losses "$work/run" | wc -l)" = 4 ] || fail 'the run is not whole'

XTRAIN_REEXEC=5,-1 train_under 'abort 5' --on-device-loss resume
[ "$code" = 4 ] && [ ! -e "$work/run" ] || fail "an abort in the check each time: exit code $code"
grep -q '^xtrain: error: the device was lost: .*its driver gave up (abort); .*; it was lost 5 times in a row without a new checkpoint$' \
  "$work/said" || fail 'an abort in the check each time: the sentence'

# The first step is not watched: this wait is in a later one.
train_under 'hang 33' --no-device-check --json --device-timeout 2
[ "$code" = 4 ] || fail "a hang: exit code $code"
grep -Eq "^\{\"schema\":\{[^}]*\},\"run\":\"$work/run\",\"steps\":4,\"step\":[0-9],\"exit_reason\":\"the device was lost: xpu:0: .*: it has not answered for [0-9]+ s, since .*, in .*; the last checkpoint is of step [0-9]; resume with: .*,\"exit_code\":4\}\$" \
  "$work/said" || fail 'a hang: the end as JSON'
echo 'lost before the folder is open: begun again, and not for ever; a hang ends in JSON too'
