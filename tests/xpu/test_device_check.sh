#!/usr/bin/env bash
# A GPU that computes nothing, or a kind of kernel wrongly (fault_layer.c): no run begins on it, since the run's own ops
# are compared with references first. XTRAIN_TEST_ALL=1: every fault, and by the self-test. Run through double.sh.
. tests/xpu/common.sh
needs_faults

train() { # options
  rm -rf "$work/run"
  code=0
  "$xtrain" "${network[@]}" --steps 1 --xpu --out "$work/run" "$@" >"$work/said" 2>&1 || code=$?
}
refuses() { # the fault; kernels that have it; what is wrong
  export XT_FAULT=$1 XT_FAULT_KERNEL=$2
  train
  [ "$code" = 4 ] || fail "$1 of '$2': exit code $code"
  grep -Eq "^xtrain: error: xpu:0: .* computes wrong results, so it is not used: .* $3 \(f32\).* above the bound of .*; \"xtrain selftest" \
    "$work/said" || fail "$1 of '$2': the sentence"
  [ ! -e "$work/run" ] || fail "$1 of '$2': a run was begun"
  if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
    code=0
    "$xtrain" selftest --xpu --small --amp f32 --quiet >"$work/said" 2>&1 || code=$?
    [ "$code" = 1 ] && grep -Eq '^xtrain: error: .* above the bound of ' "$work/said" || fail "$1 of '$2': the self-test, exit code $code"
  fi
  unset XT_FAULT XT_FAULT_KERNEL
}
# What shows in a whole step alone: each op is well, also where a run of the self-test ends with it.
refuses_step() { # the fault; what is wrong, beside what; options of the fault
  export XT_FAULT=$1 "${@:3}"
  train
  unset XT_FAULT XT_FAULT_KERNEL XT_FAULT_BYTES
  [ "$code" = 4 ] || fail "$1 in a whole step: exit code $code"
  grep -Eq "^xtrain: error: xpu:0: .* computes wrong results, so it is not used: in a whole step $2" "$work/said" ||
    fail "$1 in a whole step: the sentence"
  [ ! -e "$work/run" ] || fail "$1 in a whole step: a run was begun"
}
network=("${small[@]/distilled/grey}")
refuses 'turn 1' pool 'max pool 4: output'
refuses 'hole 1' bwd_weights '[a-z.0-9 ]+: gradient of the weights(, summed over channels)?'
refuses 'group 1' conv '[a-z.0-9 ]+: .*'
network=(--model lprnet --batch 1 --data 'synth:plates?count=8&seed=3')
# The sums of two gradients, in the memory of one.
refuses 'twice 1' binary '[a-z.0-9 ]+: gradient of .*'
refuses_step 'deep 70' 'the norm of the gradient of backbone.0.weight .* above the bound of 5.0e-02, beside the CPU.s'
refuses_step 'turn 1' 'the (loss|gradient) of its logits .* beside the host.s' XT_FAULT_KERNEL=ctc
if [ -n "${XTRAIN_TEST_ALL:-}" ]; then
  # The update's kernels are those with the weights' own array.
  refuses_step 'turn 1' 'the update of .* beside the host.s' XT_FAULT_KERNEL=binary XT_FAULT_BYTES=1802240
  refuses_step 'deep 40' 'the loss .* beside the CPU.s'
  refuses 'nothing 1' '' '.*'
  refuses 'nothing 1' pooling '[a-z.0-9 ]+: .*'
  refuses 'swap 1' reorder '.*'
  refuses 'stale 1' conv '[a-z.0-9 ]+: .*'
  refuses 'flush 1' bwd_weights '[a-z.0-9 ]+: gradient of the weights, where a NaN is lost'
fi

network=("${small[@]}")
# Where the CPU's step cannot run, no pass is recorded or said.
TMPDIR=$work/nowhere train
[ "$code" = 0 ] && grep -q '^warning: a whole step of xpu:0: .* is not compared with the CPU.s (--check-device): cannot create' "$work/said" &&
  ! grep -q 'for a whole step' "$work/said" && ! grep -q '"device_check":"passed' "$work/run/proof.json" || fail "a step that was not compared: exit code $code"

# A pass is shown with its cost, and changes nothing of the run.
train --steps 2 --check-device every --save-every 1 --log-every 1 --lr 1e-3 --sched constant
[ "$code" = 0 ] && grep -Eq 'xpu:0: .* computes this network.s ops as references in double precision do: [0-9]+ passes of ops in [0-9.]+ s, [0-9.]+ of them for a whole step beside the CPU.s' "$work/said" ||
  fail "a device that is well: exit code $code"
grep -q '"device_check":"passed"' "$work/run/proof.json" || fail 'the record'
grep -q '"deterministic":"by oneDNN.s attribute"' "$work/run/proof.json" || fail 'the record says whether bits repeat'
losses "$work/run" >"$work/checked"
train --steps 2 --check-device never --deterministic --save-every 1 --log-every 1 --lr 1e-3 --sched constant
losses "$work/run" | cmp -s - "$work/checked" || fail 'the check changes the run'
grep -q '"device_check":"not asked"' "$work/run/proof.json" || fail 'the record of a run without it'
XT_FAULT='nothing 1' train --no-device-check
[ "$code" != 4 ] || fail '--no-device-check checks all the same'

# A GPU that goes wrong during the run: found at the checkpoint, which is not saved.
XT_FAULT='turn 14' XT_FAULT_KERNEL=pooling train --check-device every --save-every 1 --steps 2
[ "$code" = 4 ] && grep -q 'error: at step 1, which is not saved: .* above the bound of .*; nothing that this run has computed is to be trusted' "$work/said" ||
  fail "a device that goes wrong: exit code $code"
[ -z "$(find "$work/run" -name 'state-*')" ] || fail 'its checkpoint'
echo 'no run begins on a device that computes nothing, or one kind of op wrongly'
