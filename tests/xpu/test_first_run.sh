#!/usr/bin/env bash
# scripts/first-run.sh on the double that computes: ten commands, and one archive without anything private; and what
# verify says of a run on a GPU, right and broken. Run through double.sh.
. tests/xpu/common.sh
needs_faults
export XTRAIN=$xtrain XTRAIN_FIRST_RUN_TYPE=f32 XTRAIN_FIRST_RUN_BATCH=1 XTRAIN_FIRST_RUN_STEPS=1 XTRAIN_FIRST_RUN_IMAGES=4 TMPDIR=$work/private-folder
mkdir "$TMPDIR"

# The double's kernels are cached where the environment says, and warmup is right to refuse that: nine of ten end well.
code=0
scripts/first-run.sh "$work/sent.tar.gz" >"$work/said" 2>&1 || code=$?
[ "$code" = 1 ] && grep -q '^first-run: 1 of 10 commands did not end well' "$work/said" || fail "exit code $code"
grep -q '^06 warmup *exit code 1$' "$work/said" || fail 'which did not'
tar xzf "$work/sent.tar.gz" -C "$work"
grep -q 'the kernel cache is the one that the environment names$' "$work"/first-run/06-warmup.txt || fail 'why it did not'
[ "$(grep -c 'exit code 0$' "$work/first-run/summary.txt")" = 9 ] || fail 'the summary'
grep -q '^device check now: passed$' "$work"/first-run/*-verify.txt || fail 'verify asks the device again'
for file in config.yaml metrics.jsonl proof.json; do [ -s "$work/first-run/run/$file" ] || fail "no $file"; done
grep -q '"device_check":"passed","device_checked":"20' "$work/first-run/run/proof.json" || fail 'the verdict in the record'
grep -q '"driver":"[^"]' "$work/first-run/run/proof.json" || fail 'the driver in the record'
! grep -rlE "private-folder|$PWD|$(uname -n)|(^|[^A-Za-z])$(id -un)([^A-Za-z]|\$)" "$work/first-run" ||
  fail 'names of this machine, of its user, or paths in the archive'
[ -z "$(find "$work/first-run" ! -name '*.txt' -type f | grep -v '/run/')" ] || fail 'other files in the archive'
[ -z "$(ls "$TMPDIR")" ] || fail 'something is left behind'

# A run's GPU that computes nothing any more.
"$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --batch 1 --steps 1 --xpu --out "$work/run" --quiet >"$work/said" 2>&1 ||
  fail 'a run'
grep -aq '"device_check":"passed 20' "$work/run/last.safetensors" || fail 'the verdict in the weights'
code=0
XT_FAULT='nothing 1' XT_FAULT_KERNEL='' "$xtrain" verify "$work/run" >"$work/said" 2>&1 || code=$?
[ "$code" = 4 ] && grep -q '^device check now: failed' "$work/said" || fail "a GPU that computes nothing: exit code $code"
echo 'the first run packs what is needed and nothing private; verify asks the GPU again'
