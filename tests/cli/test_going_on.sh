#!/usr/bin/env bash
# Resuming a run by its folder alone, from anywhere; a record without duplicates; the right causes.
. tests/cli/common.sh
mkdir "$tree/here" "$tree/there"
cd "$tree/here"
"$xtrain" data pack 'synth:plates?count=24&seed=3' set >/dev/null
train=("$xtrain" --model lprnet --data set-000000.tar --batch 4 --threads 1)

# The folder says it all, also from another working directory, and what is typed wins.
expect 0 '' "${train[@]}" --val set-000000.tar --steps 8 --log-every 3 --seed 5 --clip 4 --out a --quiet
cp -r a whole
cd "$tree/there"
expect 0 'resuming from ../here/a/state-00000008.safetensors, step 8 of 9' "$xtrain" --resume ../here/a --steps 9
! grep -q 'was made with' <<<"$said" || fail 'a change was reported without one' "$said"
[ "$(ls)" = '' ] || fail 'it wrote elsewhere' "$(ls)"
grep -q '^steps: 9 ' ../here/a/config.yaml || fail 'config.yaml does not say what the run is now' "$(cat ../here/a/config.yaml)"
expect 0 'resuming from ../here/a/state-00000009.safetensors, step 9 of 9' "$xtrain" --resume ../here/a/state-00000009.safetensors
# A run that started itself again has said what it is.
XTRAIN_REEXEC=00,-1 expect 0 'resuming from ../here/a/state-00000009.safetensors, step 9 of 9' "$xtrain" --resume ../here/a
! grep -q '^training LPRNet\|^saving to' <<<"$said" || fail 'it says all of it again' "$said"
expect 0 'saving to b' "$xtrain" --resume ../here/a --out b
! grep -q '^resume' b/config.yaml || fail 'config.yaml resumes another run' "$(cat b/config.yaml)"
expect 0 'plates read right' "$xtrain" eval --init ../here/a/last.safetensors --config ../here/a/config.yaml
cd ../here
grep -q "^data: \"\?$PWD/set-000000.tar" a/config.yaml || fail 'the path in config.yaml is not absolute' "$(cat a/config.yaml)"

# The user's own files mean what they say, from the working directory.
mkdir own && printf 'model: lprnet\ndata: set-000000.tar\nbatch: 4\nsteps: 2\nthreads: 1\n' >own/c.yaml
expect 0 'done: 2 steps' "$xtrain" --config own/c.yaml --out c
expect 3 'cannot open the data set-000000.tar' env -C own "$xtrain" --config c.yaml --out c

# The line that a stopped run ends with works when it is pasted.
for name in simple "it's a run" auto --steps; do
  stops 130 'all is saved; resume with: ' INT "${train[@]}" --steps 100000 --out="$name"
  line=$(sed -n 's/.*; resume with: //p' <<<"$said")
  stops 75 'stopped at step' TERM bash -c "exec $line"
  grep -q 'resuming from' <<<"$said" || fail "it does not resume: $line" "$said"
  ! grep -q 'random weights' <<<"$said" || fail 'it resumes and begins from random weights' "$said"
done

# An evaluation that a signal broke off, made by the next start, which is killed: it is recorded once.
slow=("${train[@]}" --val 'synth:plates?count=150&seed=4' --steps 12 --log-every 3 --save-every 100)
wait_for() { # PATTERN FILE
  for ((i = 0; i < 600; i++)); do grep -qs "$1" "$2" && return; sleep 0.05; done
  fail "$2 never said $1"
}
"${slow[@]}" --out once --quiet
"${slow[@]}" --out twice --quiet 2>/dev/null & child=$!
wait_for '"step":6,' twice/metrics.jsonl
kill -TERM $child
! wait $child || fail 'it did not stop'
"$xtrain" --resume twice & child=$!
wait_for '"step":6,.*plate_accuracy' twice/metrics.jsonl
kill -KILL $child
! wait $child || fail 'it did not end'
"$xtrain" --resume twice --quiet
diff <(record once) <(record twice) || fail 'broken off and killed, the record differs'

# A run that stops between two lines writes one for the steps since the last, until it resumes; time counts over all starts.
expect 75 '' "${train[@]}" --steps 100000 --log-every 100000 --stop-after 1s --out rest
step=$(sed -n 's/.*stopped at step \([0-9]*\) .*/\1/p' <<<"$said")
grep -q "\"step\":$step,.*\"loss\":[0-9]" rest/metrics.jsonl || fail 'the last steps have no line' "$(cat rest/metrics.jsonl)"
expect 75 '' "$xtrain" --resume rest
[ "$(wc -l <rest/metrics.jsonl)" = 1 ] || fail 'a part of a line stayed' "$(cat rest/metrics.jsonl)"
sed -n 's/.*"time":\([0-9.]*\),.*/\1/p' rest/metrics.jsonl | awk '{ exit !($1 > 2 && $1 < 60) }' || fail 'time is wrong' "$(cat rest/metrics.jsonl)"

# A checkpoint that xtrain did not name is not one of the run's.
cp -r whole d
printf x >d/state-9.safetensors
expect 0 'step 8 of 8' "${train[@]}" --val set-000000.tar --steps 8 --seed 5 --clip 4 --log-every 3 --resume auto --out d
[ -e d/state-9.safetensors ] || fail 'the other file is gone'
diff <(record whole) <(record d) || fail 'a finished run that is resumed changes its record'

# What is wrong is called by its name.
expect 2 'is a checkpoint of lprnet, and --model is resnet50' "$xtrain" --model resnet50 --data 'synth:shapes?count=24' --batch 4 \
  --image-size 64 --steps 9 --resume whole
for command in 'predict whole/state-00000008.safetensors x.jpg' 'eval --init whole/state-00000008.safetensors' \
  '--model lprnet --steps 1 --init whole/state-00000008.safetensors'; do
  expect 3 'whole/state-00000008.safetensors is a checkpoint, which --resume continues from; the weights are last.safetensors' "$xtrain" $command
done
expect 3 'whole/last.safetensors is not a checkpoint; --resume takes' "$xtrain" --resume whole/last.safetensors
expect 0 'is of a run of 8 steps, now there are 10' "$xtrain" --resume whole --steps 10 --sched constant --warmup 0
! grep -q 'the rate of the next step' <<<"$said" || fail 'a rate that stays is called another' "$said"
# A line of an earlier version's run.
echo 'watch_cpus: 10s' >>whole/config.yaml
expect 0 'resuming from whole/state-' "$xtrain" --resume whole --steps 10 --sched constant --warmup 0
rm whole/config.yaml
expect 3 'no config.yaml is beside the checkpoints; give --model' "$xtrain" --resume whole
expect 3 'there is no such file or folder' "$xtrain" --resume nowhere
