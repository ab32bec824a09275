#!/usr/bin/env bash
# Each signal that asks to stop, those that must not end the program, and standard streams that block or are not there.
. tests/cli/common.sh
cd "$tree"
train=("$xtrain" "${small[@]}" --threads 1)
long=("${train[@]}" --steps 100000)

for signal in TERM HUP USR1 XCPU; do
  stops 75 'stopped at step' $signal "${long[@]}" --out $signal
  [ -s $signal/last.safetensors ] || fail "by SIG$signal nothing was saved" "$(ls $signal)"
  ! grep -q 'error:' <<<"$said" || fail 'stopping as asked is called an error' "$said"
done
stops 130 'interrupted at step' INT "${long[@]}" --out INT
! grep -q 'error:' <<<"$said" || fail 'stopping as asked is called an error' "$said"
stops 75 'stopped after ' TERM "$xtrain" eval --init TERM/last.safetensors --data 'synth:plates?count=1000000' --threads 1
stops 75 'stopped while measuring the ranges for int8' TERM "$xtrain" predict TERM/last.safetensors --amp int8 \
  --calibrate 'synth:plates?count=100000' --calibrate-images 100000 --threads 1 x.jpg
stops 75 'stopped before all steps were timed' TERM "$xtrain" bench step --model lprnet --steps 100000 --threads 1
stops 75 'stopped after ' TERM "$xtrain" data pack 'synth:plates?count=1000000' pack
stops 75 'stopped before all ops were checked' TERM "$xtrain" selftest --threads 1

# Past the soft limit of CPU time the kernel asks each second: it is one request.
code=0
(ulimit -S -t 3 && exec "${long[@]}" --val 'synth:plates?count=4000&seed=4' --out cpu) >said 2>&1 || code=$?
[ $code = 75 ] && [ -s cpu/last.safetensors ] || fail "out of CPU time it ended with code $code" "$(cat said)"

# nohup: a hangup that is ignored stays so.
(trap '' HUP && exec "${train[@]}" --steps 40 --out nohup) >said 2>&1 &
child=$!
until grep -qs loss nohup/metrics.jsonl; do sleep 0.05; done
kill -HUP $child
wait $child || fail "under nohup a hangup ended it with code $?" "$(cat said)"

# A file that may not grow, and a reader that is gone: a sentence and a code, no death.
code=0
(ulimit -f 100 && exec "${train[@]}" --steps 2 --out large) >said 2>&1 || code=$?
[ $code = 1 ] && grep -q '^xtrain: error: .*File too large' said || fail "a file too large ended with code $code" "$(cat said)"
mkfifo gone
"${train[@]}" --steps 20 --out reader 2>gone >gone &
child=$!
head -c 10 <gone >/dev/null
wait $child || fail "without a reader it ended with code $?"

# A pipe that is full, as standard error: stopped and saved all the same.
mkfifo full
exec 7<>full
timeout 1 cat /dev/zero >full || true
"${long[@]}" --out full-run >out 2>full &
child=$!
for ((i = 0; i < 600; i++)); do grep -qs loss full-run/metrics.jsonl && break; sleep 0.1; done
kill -TERM $child
for ((i = 0; i < 200; i++)); do kill -0 $child 2>/dev/null || break; sleep 0.1; done
! kill -KILL $child 2>/dev/null || fail 'with a full pipe as standard error SIGTERM did nothing'
code=0
wait $child || code=$?
[ $code = 75 ] && [ -s full-run/last.safetensors ] || fail "with a full pipe it ended with code $code" "$(ls full-run)"

# Standard streams that are closed are /dev/null, so that no file of the run takes their place.
"${train[@]}" --steps 2 --out closed <&- >&- 2>&- || fail "without standard streams it ended with code $?"
head -c 1 closed/metrics.jsonl | grep -q '{' && [ "$(grep -vc '^{.*}$' closed/metrics.jsonl)" = 0 ] ||
  fail 'without standard streams the record is damaged' "$(cat closed/metrics.jsonl)"
