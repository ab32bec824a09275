#!/usr/bin/env bash
# Runs over many starts: configs/loop.sh, configs/slurm.sh on stand-ins for Slurm's commands, and xtrain sweep.
. tests/cli/common.sh
configs=$PWD/configs
cd "$tree"
mkdir bin
export XTRAIN=$xtrain PATH=$tree/bin:$PATH STATE=$tree/state
endless=("${small[@]}" --threads 1 --save-every 7 --log-every 4 --val 'synth:plates?count=6&seed=4' --eval-every 5)
run=("${endless[@]}" --steps 36)
"$xtrain" "${run[@]}" --out whole --quiet >/dev/null

# sbatch runs the script at once, again as long as it asks for that; --array starts it for each task.
cat >bin/sbatch <<'END'
#!/usr/bin/env bash
set -u
array=none
case $1 in --array=*) array=${1#--array=} && shift ;; esac
grep -q '^#SBATCH --requeue' "$1" && grep -q '^#SBATCH --signal=USR1@' "$1" || exit 9
worst=0
for task in $([ $array = none ] && echo none || seq "${array%-*}" "${array#*-}"); do
  export SLURM_JOB_ID=7$task
  unset SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID
  [ $task = none ] || export SLURM_ARRAY_TASK_ID=$task SLURM_ARRAY_JOB_ID=7
  [ $task = none ] || SLURM_JOB_ID=9$task
  for ((start = 0; start < 30; start++)); do
    rm -f "$STATE"
    code=0
    bash "$@" || code=$?
    [ -e "$STATE" ] || break
    echo "again: $(cat "$STATE")"
  done
  [ $code = 0 ] || worst=$code
done
exit $worst
END
# srun gives the step a signal ahead of the limit, as Slurm does, not the script: here once a loss of this start is there,
# however fast the machine is.
cat >bin/srun <<'END'
#!/usr/bin/env bash
out=
for ((i = 1; i < $#; i++)); do [ "${!i}" != --out ] || { i=$((i + 1)) && out=${!i}; }; done
losses() { grep -hs "\"loss\":" "$out/metrics.jsonl" | wc -l; }
before=$(losses)
"$@" </dev/null &
child=$!
while kill -0 $child 2>/dev/null; do
  [ "$(losses)" -le "${before:-0}" ] || { kill -USR1 $child 2>/dev/null && break; }
  sleep 0.02
done
wait $child
END
printf '#!/bin/sh\n[ "$1" = requeue ] && echo "$2" >"$STATE"\n' >bin/scontrol
chmod +x bin/*

expect 0 'slurm.sh: saved; job 7none is queued again' sbatch "$configs/slurm.sh" "${run[@]}" --out job --quiet
grep -q 'again: 7none' <<<"$said" || fail 'the job was not queued again' "$said"
same_run whole job 'as a job'
expect 0 'done: 3 steps' sbatch --array=2-3 "$configs/slurm.sh" "${small[@]}" --threads 1 --steps 3 --out seeds
grep -q '^seed: 2 ' seeds-seed-2/config.yaml && grep -q '^seed: 3 ' seeds-seed-3/config.yaml || fail 'not each task has its seed' "$(ls)"
expect 2 'give --out DIR' sbatch --array=2-3 "$configs/slurm.sh" "${small[@]}" --steps 3
expect 3 'cannot open the data nowhere' sbatch "$configs/slurm.sh" --model lprnet --data nowhere --out job3

# A loop: stopped again and again, killed once, asked to end.
expect 0 'done: 36 steps' "$configs/loop.sh" "${run[@]}" --stop-after 1s --out loop
same_run whole loop 'in a loop'
"$configs/loop.sh" "${endless[@]}" --steps 100000 --out long >said 2>&1 &
loop=$!
wait_for() { for ((i = 0; i < 300; i++)); do grep -qs "$1" "$2" && return; sleep 0.1; done; fail "$2 never said $1" "$(cat said)"; }
wait_for loss long/metrics.jsonl
kill -KILL "$(tr -d ' ' </proc/$loop/task/$loop/children)"
wait_for 'killed (137); restarting, 1 of 3' said
wait_for 'saving to long' said
sleep 1
kill -TERM $loop
code=0
wait $loop || code=$?
[ $code = 75 ] && grep -q 'stopped at step' said || fail "asked to end the loop ended with code $code" "$(cat said)"
expect 2 '' "$configs/loop.sh" --model none --out none

# A sweep: a config for each combination, a script that runs them, and the table of compare.
printf '#!/bin/sh\n[ "$1" != compare ] || { shift; echo "the table of $*"; exit 0; }\nexec "%s" "$@"\n' "$xtrain" >bin/with-compare
chmod +x bin/with-compare
printf 'model: lprnet\ndata: "synth:plates?count=24&seed=3"\nbatch: 4\nthreads: 1\n' >base.yaml
expect 0 '4 configs written to sweep' "$xtrain" sweep --config base.yaml --steps 2 --out sweep lr=1e-4,1e-3 seed=1..2
[ "$(paste -sd ' ' sweep/runs.txt)" = '001-lr=1e-4,seed=1 002-lr=1e-4,seed=2 003-lr=1e-3,seed=1 004-lr=1e-3,seed=2' ] ||
  fail 'the runs are others' "$(cat sweep/runs.txt)"
grep -q '^lr: 0.0001 ' 'sweep/002-lr=1e-4,seed=2.yaml' && grep -q '^seed: 2 ' 'sweep/002-lr=1e-4,seed=2.yaml' || fail 'a config is wrong'
XTRAIN=with-compare expect 0 "the table of $(paste -sd ' ' sweep/runs.txt)" sweep/run.sh
[ -s 'sweep/004-lr=1e-3,seed=2/last.safetensors' ] || fail 'a run was skipped' "$(ls sweep)"
# Called from within; if runs failed the others are in the table; one run has no table.
"$xtrain" sweep --config base.yaml --out part --steps 1 seed=3,5..6 >/dev/null
sed -i 's/^data: .*/data: nowhere/' part/002-seed=5.yaml
cd part
XTRAIN=../bin/with-compare expect 1 'the table of 001-seed=3 003-seed=6' sh run.sh
grep -qF 'run 2 ended with code 3' <<<"$said" || fail 'the failed run is not named' "$said"
cd ..
"$xtrain" sweep --config base.yaml --out one --steps 1 seed=7 >/dev/null
XTRAIN=with-compare expect 0 'done: 1 step' one/run.sh
! grep -q 'the table' <<<"$said" || fail 'one run is compared' "$said"

"$xtrain" sweep --config base.yaml --out jobs --steps 2 augment=true,false >/dev/null
expect 0 'done: 2 steps' sbatch --array=1-2 "$configs/slurm.sh" jobs
grep -q '^augment: false ' jobs/002-augment=false/config.yaml || fail 'a job of the sweep is wrong' "$(ls jobs)"
expect 2 'run.sh: there is no run 3' jobs/run.sh 3

# Nothing is written if one of them is invalid.
expect 2 '002-lr=5000: --lr takes a number greater than 0' "$xtrain" sweep --config base.yaml --out no lr=1,5000
expect 2 'seed=3..1 is empty' "$xtrain" sweep --config base.yaml --out no seed=3..1
expect 2 'seed has more than 1000 values' "$xtrain" sweep --config base.yaml --out no seed=1..1000000000
expect 2 'seed=2 is given twice' "$xtrain" sweep --config base.yaml --out no seed=1..3,2
expect 2 '"lr" does not say what to sweep' "$xtrain" sweep --config base.yaml --out no lr
expect 2 '"top" is not a training option that can be swept' "$xtrain" sweep --config base.yaml --out no top=1,2
expect 2 'lr is swept twice' "$xtrain" sweep --config base.yaml --out no lr=1 lr=2
expect 2 'has an empty value' "$xtrain" sweep --config base.yaml --out no lr=1,,2
expect 2 '001-augment=maybe: augment takes true and false' "$xtrain" sweep --config base.yaml --out no augment=maybe
expect 2 'exists; a sweep needs a new' "$xtrain" sweep --config base.yaml --out sweep lr=1
expect 2 'needs --out DIR' "$xtrain" sweep --config base.yaml lr=1
[ ! -e no ] || fail 'something was written' "$(ls no)"
