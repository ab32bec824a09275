#!/usr/bin/env bash
# The run's folder, resuming it, and the exit code of each way a run can end.
. tests/cli/common.sh
cd "$tree"
train=("$xtrain" "${small[@]}" --threads 1)

# As typed, a run makes its own folder; the next one another.
expect 0 'no --data was given' timeout 60 "$xtrain" --model lprnet --batch 4 --steps 1 --threads 1 --val 'synth:plates?count=4'
# Where the CPU has AMX, a run in f32 says so once.
has_amx=$(cpu_has amx && echo 1 || echo 0)
[ "$(grep -c 'bf16 may be several times as fast (--amp bf16)' <<<"$said")" = "$has_amx" ] ||
  fail 'the hint at bf16 does not fit the CPU' "$said"
expect 0 "runs/lprnet-$(date +%Y%m%d)-2" "${train[@]}" --steps 1
[ -s runs/lprnet-*-1/last.safetensors ] && [ -s runs/lprnet-*-1/metrics.jsonl ] && [ -s runs/lprnet-*-1/config.yaml ] ||
  fail "the run's folder lacks files" "$(ls runs/*)"

# 0: done. The run is never overwritten, and may be gone on with.
expect 0 '' "${train[@]}" --steps 12 --save-every 4 --log-every 1 --out a --quiet
cp -r a whole
expect 2 'the folder is not empty, and a run is never overwritten' "${train[@]}" --steps 12 --out a
diff -r a whole || fail 'a refused run changed the folder'
expect 0 'resuming from a/state-00000012.safetensors, step 12 of 12' "${train[@]}" --steps 12 --resume auto --out a
diff <(record a) <(record whole) || fail 'a finished run that is resumed changes its record'

# More steps: the schedule follows the new length, and says so.
expect 0 'is of a run of 12 steps, now there are 14; --sched onecycle follows the new length' \
  "${train[@]}" --steps 14 --resume a --log-every 1
[ "$(losses a | tail -1 | cut -d' ' -f1)" = 14 ] || fail 'the longer run has no loss of step 14'
expect 2 'a/state-00000014.safetensors is of step 14, after the end of a run of 13 steps' \
  "${train[@]}" --steps 13 --resume auto --out a

# What makes a run what it is may not change; what else has changed is said, as it would be typed.
changed=("$xtrain" --model lprnet --data 'synth:plates?count=24&seed=3' --threads 1)
expect 2 'was made with --seed 0 --batch 4; give the same' "${changed[@]}" --batch 3 --seed 1 --steps 40 --resume auto --out a
expect 2 'was made with --seed 0; give the same' "${train[@]}" --seed 1 --steps 20 --resume auto --out a
expect 2 'was made with --optim adamw; give the same' "${train[@]}" --optim sgd --steps 20 --resume auto --out a
expect 2 'was made with --lprnet-norm sample; give the same' \
  "${train[@]}" --lprnet-norm batch --steps 20 --resume auto --out a
cp -r whole b
expect 0 'b/state-00000012.safetensors was made with --clip 5; the run continues with --clip 0' \
  "${train[@]}" --clip 0 --steps 13 --resume auto --out b
! grep -qF -e 'threads' -e '--lr' <<<"$said" || fail 'a change was reported without one' "$said"
expect 0 'was made with threads "1", this is "2"' "$xtrain" "${small[@]}" --clip 0 --threads 2 --oversubscribe --steps 14 --resume b
bf16=(--amp bf16)
cpu_has bf16 || bf16=()
expect 0 'was made with --no-augment; the run continues with --augment' \
  "${train[@]}" --clip 0 ${bf16[@]+"${bf16[@]}"} --augment --freeze-until backbone.4 --bn frozen --steps 15 --resume b
for change in 'no --freeze-until; the run continues with --freeze-until backbone.4' \
  ${bf16[@]+'--amp f32; the run continues with --amp bf16'} '--bn batch; the run continues with --bn frozen'; do
  grep -qF -- "was made with $change" <<<"$said" || fail "it is not said: $change" "$said"
done
expect 0 'was made with --bn frozen; the run continues with --bn batch' \
  "${train[@]}" --clip 0 ${bf16[@]+"${bf16[@]}"} --augment --freeze-until backbone.4 --bn batch --steps 16 --resume b
[ "$(grep -c 'the run continues with' <<<"$said")" = 1 ] || fail 'a change was reported without one' "$said"

# A damaged checkpoint: refused by name with an offer; auto takes the one before.
cp -r whole c
printf XXXXXXXX | dd of=c/state-00000012.safetensors bs=1 seek=3000000 conv=notrunc status=none
expect 3 'c/state-00000012.safetensors: it is damaged: tensor ' "${train[@]}" --steps 12 --resume c/state-00000012.safetensors
grep -qF 'the checkpoint before it is whole: --resume c/state-00000008.safetensors' <<<"$said" || fail 'no offer' "$said"
truncate -s 1000 c/state-00000012.safetensors
expect 3 'c/state-00000012.safetensors' "${train[@]}" --steps 12 --resume c/state-00000012.safetensors
expect 0 'resuming from c/state-00000008.safetensors, step 8 of 12' \
  "${train[@]}" --steps 12 --log-every 1 --save-every 4 --resume auto --out c
grep -qF 'taking the checkpoint before it' <<<"$said" || fail 'the damage was not said' "$said"
[ -e c/state-00000012.safetensors.aside ] || fail 'the damaged file was not set aside'
diff <(losses c) <(losses whole) || fail 'after damage the losses differ'
expect 3 'there is no such file or folder' "${train[@]}" --steps 12 --resume c/state-00000099.safetensors

# An older one by its path: what came after it is set aside.
cp -r whole d
expect 0 'd/state-00000012.safetensors lies after the step' \
  "${train[@]}" --steps 12 --log-every 1 --save-every 4 --resume d/state-00000008.safetensors
diff <(losses d) <(losses whole) || fail 'from an older checkpoint the losses differ'

# In a new folder; but never among the files of another run.
expect 0 'saving to e' "${train[@]}" --steps 13 --resume whole --out e
expect 2 'the folder is not empty' "${train[@]}" --steps 13 --resume whole --out d

# auto without a checkpoint starts a new run; a folder of something else is not touched.
expect 0 'no checkpoint in f/g: starting from the beginning' "${train[@]}" --steps 1 --resume auto --out f/g
[ -s f/g/config.yaml ] || fail 'a fresh start left no config.yaml'
mkdir h && touch h/thesis.tex
expect 2 'h holds files, but no run' "${train[@]}" --steps 1 --resume auto --out h
expect 2 '--resume auto needs --out' "${train[@]}" --steps 1 --resume auto

# As many threads as before, unless --threads says otherwise.
cp -r whole u
expect 0 'resuming from u/state-00000012.safetensors' "$xtrain" "${small[@]}" --steps 13 --resume u
! grep -qF 'was made with threads' <<<"$said" || fail 'a resumed run took other threads' "$said"
expect 2 'add --oversubscribe' "$xtrain" "${small[@]}" --steps 1 --threads 4000 --out o
all_cpus=(${XTRAIN_TEST_CPUS:+taskset -c "$XTRAIN_TEST_CPUS"})
expect 2 'this process may use 1, by SLURM_CPUS_PER_TASK' ${all_cpus[@]+"${all_cpus[@]}"} env SLURM_CPUS_PER_TASK=1 "$xtrain" "${small[@]}" --steps 1 --threads 2
expect 0 '' env SLURM_CPUS_PER_TASK=1 "$xtrain" "${small[@]}" --steps 1 --threads 2 --oversubscribe --quiet --out o
# As many as OpenMP really gives: it waited for ever for the second.
expect 0 'OpenMP gives 1 of the 2 threads' env OMP_THREAD_LIMIT=1 timeout 120 "$xtrain" "${small[@]}" ${bf16[@]+"${bf16[@]}"} --steps 2 \
  --threads 2 --oversubscribe --out l

# Why as many threads.
expect 0 'compute  1, by SLURM_CPUS_PER_TASK' ${all_cpus[@]+"${all_cpus[@]}"} env SLURM_CPUS_PER_TASK=1 "$xtrain" "${small[@]}" --steps 1 --verbose --out v

# --keep
expect 0 '' "${train[@]}" --steps 4 --save-every 1 --keep 3 --out k --quiet
[ "$(ls k/state-* | wc -l)" = 3 ] || fail 'not three checkpoints are left' "$(ls k)"

# 0 when --max-time is spent, evaluated and saved; 75 and 130 when stopped, saved.
long=(--steps 100000 --val 'synth:plates?count=6&seed=4')
expect 0 'of 6 plates read right' "${train[@]}" "${long[@]}" --max-time 1s --out t
[ -s t/best.safetensors ] && ls t/state-* >t/list || fail 'a spent --max-time left no result' "$(ls t)"
expect 75 'all is saved; resume with: '"$xtrain --resume s" "${train[@]}" "${long[@]}" --stop-after 1s --out s
# signalled CODE TEXT SIGNAL FILE PATTERN COMMAND...: the command gets the signal once the file holds the pattern.
signalled() {
  local want=$1 text=$2 signal=$3 file=$4 pattern=$5 code=0
  shift 5
  "$@" >out.said 2>&1 &
  local child=$!
  for ((i = 0; i < 600; i++)); do grep -qs "$pattern" "$file" && break; sleep 0.1; done
  kill -"$signal" $child
  wait $child || code=$?
  [ $code = "$want" ] && grep -qF -- "$text" out.said || fail "by SIG$signal it ended with code $code" "$(cat out.said)"
}
signalled 75 'stopped at step' TERM term/metrics.jsonl loss "${train[@]}" "${long[@]}" --log-every 1 --out term
signalled 130 'interrupted at step' INT int/metrics.jsonl loss "${train[@]}" "${long[@]}" --log-every 1 --out int
for run in s term int; do
  ls $run/state-* >$run/list && [ -s $run/last.safetensors ] || fail "$run was not saved" "$(ls $run)"
done
# A signal during an evaluation saves too, and that evaluation comes first when the run resumes.
slow=(--steps 7 --val 'synth:plates?count=4000&seed=4')
signalled 75 'stopped at step 6 of 7; all is saved' TERM slow/metrics.jsonl '"step":6' \
  "${train[@]}" "${slow[@]}" --log-every 1 --out slow
expect 0 '' "${train[@]}" --steps 7 --val 'synth:plates?count=6&seed=4' --resume auto --out slow
[ "$(grep -c '"step":6,.*plate_accuracy' slow/metrics.jsonl)" = 1 ] || fail 'an evaluation is missing' "$(cat slow/metrics.jsonl)"

# A second process is refused while the first one runs.
"${train[@]}" "${long[@]}" --out lock >lock.said 2>&1 &
first=$!
for ((i = 0; i < 100; i++)); do [ -s lock/config.yaml ] && break; sleep 0.1; done
expect 2 'lock is in use by another xtrain' "${train[@]}" "${long[@]}" --resume auto --out lock
kill -INT $first
wait $first || true

# 1: numbers that are none.
expect 1 'the run has diverged; a lower --lr' \
  "${train[@]}" --steps 60 --lr 1000 --weight-decay 10 --decay-all --clip 0 --sched constant --out nan

# 4 and 2: devices and types.
expect 4 'xtrain: error: ' "${train[@]}" --steps 1 --xpu --out x
expect 2 '--amp fp16' "${train[@]}" --steps 1 --amp fp16 --out x
! cpu_has bf16 || expect 0 'this CPU has no bf16 instructions' env ONEDNN_MAX_CPU_ISA=AVX512_CORE "${train[@]}" --steps 1 --amp bf16 --out bf16
if cpu_has bf16 && grep -qm 1 -w avx512_bf16 /proc/cpuinfo; then
  expect 0 'no matrix tiles (AMX)' env ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 "${train[@]}" --steps 1 --amp bf16 --out tileless
fi
[ ! -e x ] || fail 'a refused run left a folder'
# The program's own loops are held to an older CPU's instructions too.
expect 0 '' env ONEDNN_MAX_CPU_ISA=AVX2 "${train[@]}" --dry-run
[[ $said != *'xtrain AVX-512'* ]] || fail 'loops of AVX-512 with ONEDNN_MAX_CPU_ISA=AVX2' "$said"

# 5: more memory than there is, said before anything is trained.
expect 5 ' fits, which --batch auto finds' "$xtrain" --model lprnet --data 'synth:plates?count=65536' --batch 65536 --steps 1 --out m
[ ! -e m ] || fail 'a run without memory left a folder'

# The results as JSON, on standard output alone, whatever the folder is called.
mkdir 'a "b\c'
"${train[@]}" --steps 1 --val 'synth:plates?count=6&seed=4' --json --out 'a "b\c/r' >json 2>/dev/null
grep -qF '"run":"a \"b\\c/r","step":1,"images":6,' json || fail 'the JSON is not what it should be' "$(cat json)"

# One object on one line, however it ends; with --quiet the results alone.
json() { # CODE COMMAND...
  local want=$1 code=0
  shift
  "$@" --json >json 2>/dev/null || code=$?
  [ "$code" = "$want" ] && [ "$(wc -l <json)" = 1 ] || fail "it ended with code $code, not $want" "$(cat json)"
}
json 75 "${train[@]}" --steps 100000 --stop-after 1s --out j
for key in '"run":"j"' '"steps":100000' '"loss":[0-9]' '"seconds":[0-9]' '"last_weights":"j/last.safetensors"' \
  '"checkpoint":"j/state-[0-9]*.safetensors"' '"metrics":"j/metrics.jsonl"' '"exit_reason":"stop-after".*"exit_code":75}$'; do
  grep -q "$key" json || fail "the JSON has no $key" "$(cat json)"
done
[ -s "$(sed 's/.*"checkpoint":"\([^"]*\)".*/\1/' json)" ] || fail 'there is no such checkpoint' "$(cat json)"
! grep -q '"best_weights"' json || fail 'there is no best' "$(cat json)"
json 0 "${train[@]}" "${long[@]}" --max-time 1s --out jt
grep -q '"best_step":.*"files":{"best_weights":"jt/best.safetensors",.*"exit_reason":"max-time".*"exit_code":0}' json || fail 'the JSON is wrong' "$(cat json)"
json 1 "${train[@]}" --steps 60 --lr 1000 --weight-decay 10 --decay-all --clip 0 --sched constant --out jn
grep -q '"exit_reason":"[^"]*infinite or NaN.*"exit_code":1}' json || fail 'the JSON does not say why' "$(cat json)"
"${train[@]}" --steps 1 --quiet --out q >said 2>&1
[ "$(sed 's/in .*:.*/in TIME/; s/^\(speed\|lost to\|energy\): .*/\1/; s/: .*xtrain predict/: xtrain predict/' said | tr '\n' ';')" = \
  'done: 1 step in TIME;speed;lost to;energy;  q/last.safetensors  the last weights;  q/metrics.jsonl     losses and evaluations;  q/report.html       the report page, for a browser;next, images of your own: xtrain predict q IMAGE...;' ] ||
  fail '--quiet says more than the results, or less' "$(cat said)"
