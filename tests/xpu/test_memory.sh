#!/usr/bin/env bash
# Memory that runs out under a run (fault_layer.c) is not a lost device: code 5, what the batch takes by the plan and what
# half of it would, and no restart. Run through double.sh.
. tests/xpu/common.sh
needs_faults

runs_out() { # the fault; the sentence; options
  train_under "$1" --batch 2 --no-device-check --on-device-loss resume "${@:3}"
  [ "$code" = 5 ] || fail "$1: exit code $code"
  grep -Eq "^xtrain: error: .*ran out of memory in $2" "$work/said" || fail "$1: the sentence"
  ! grep -q 'lost\|restarting' "$work/said" || fail "$1: taken for a lost device"
}
plan='.*; --batch 2 takes [0-9.]* MB of xpu:0 by the plan, --batch 1 [0-9.]* MB'
runs_out 'nodevmem 100' "$plan"
runs_out 'nohostmem 100' "$plan"
runs_out 'alloc 8' '.*--batch'

# The other meaning of the code that is a lost device.
train_under 'launch 100' --no-device-check
[ "$code" = 4 ] && grep -q 'OUT_OF_RESOURCES.*also says so where memory runs out' "$work/said" || fail 'the ambiguous code'
echo 'memory that runs out is told from a lost device'
