#!/usr/bin/env bash
# A rank that fails ends them all, at once, with its reason and its exit code; nobody hangs.
image=$PWD/$(ls tests/fuzz/corpus/image/*.jpg | head -n 1)
. tests/mpi/common.sh
small=(--model lprnet --data 'synth:plates?count=96&seed=3' --batch 8 --quiet)
long=("${small[@]}" --steps 100000 --save-every 2)

# Without MPI they would be copies of one run.
XTRAIN_MPI=$tree/none expect 4 'this is one of 2 tasks (OMPI_COMM_WORLD_SIZE=2), and this build of xtrain has no MPI' \
  "${two[@]}" "${small[@]}" --steps 1 --out copies
[ "$(grep -c 'error:' <<<"$said")" = 1 ] && [ ! -e copies ] || fail 'copies were begun, or it was said twice' "$said"

# Tasks of srun, without the launcher that its MPI wants: each would be alone in an MPI of its own; --alone means that.
for task in 0 1; do
  code=0
  env SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$task "${one[@]}" "${small[@]}" --steps 1 --out copies >said 2>&1 || code=$?
  [ $code = 4 ] && [ ! -e copies ] && [ "$(grep -c 'that srun started without PMIx' said)" = $((1 - task)) ] ||
    fail "task $task of srun's without MPI: code $code" "$(cat said)"
done
SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 expect 0 'done: 1 step' "${one[@]}" "${small[@]/--quiet/--log-time}" --steps 1 --out apart --alone

# Invalid options are reported once.
expect 2 '--batch 3 is too small for 2 ranks' "${two[@]}" --model lprnet --batch 3 --out few
[ "$(grep -c 'error:' <<<"$said")" = 1 ] || fail 'it was said twice' "$said"

# A share that does not fit: what fits of all ranks together is said, and does.
huge=(--model lprnet --data 'synth:plates?count=100000' --steps 1 --out huge)
expect 5 ' on each of 2 ranks' "${two[@]}" "${huge[@]}" --batch 65536
[ "$(grep -c 'error:' <<<"$said")" = 1 ] || fail 'it was said twice' "$said"
fits=$(sed -n 's/.*; --batch \([0-9]*\) fits, which.*/\1/p' <<<"$said")
expect 0 '' "${two[@]}" "${huge[@]}" --batch "$fits" --dry-run

# What one of them lacks, rank 0 tells.
mkdir good
for i in $(seq 100 219); do cp "$image" "good/京A12${i}_x.jpg"; done
expect 3 'xtrain: error: rank 1 on ' mpirun -n 1 "${one[@]}" --model lprnet --data good --steps 2 --batch 8 --out lack : \
  -n 1 "${one[@]}" --model lprnet --data /nowhere/at-all --steps 2 --batch 8
grep -qF 'cannot open the data /nowhere/at-all' <<<"$said" || fail 'the reason is not said' "$said"

# A disk that is full for one of them, as a limit on the size of files makes it: another rank's cache, from the start and
# later, and the checkpoints of rank 0. What the others wrote is whole.
printf '#!/bin/bash\nulimit -f "$1"; trap "" XFSZ; exec "${@:2}"\n' >full && chmod +x full
host=$(hostname)
disk=(--model lprnet --data good --batch 8 --save-every 2)
expect 1 "xtrain: error: rank 1 on $host: cannot write the cache c.bin: File too large" \
  mpirun -n 1 "${one[@]}" "${disk[@]}" --steps 2 --out never : -n 1 ./full 0 "${one[@]}" "${disk[@]}" --steps 2 --image-cache disk --image-cache-file c.bin
rm -f c.bin
expect 0 "warning: rank 1 on $host: the cache c.bin cannot be written (File too large)" \
  mpirun -n 1 "${one[@]}" "${disk[@]}" --steps 2 --out near : -n 1 ./full 100 "${one[@]}" "${disk[@]}" --steps 2 --image-cache disk --image-cache-file c.bin
expect 0 'all is as recorded: ' "$xtrain" verify near
expect 1 'cannot write near/state-00000004.safetensors' \
  mpirun -n 1 ./full 3000 "${one[@]}" "${disk[@]}" --steps 4 --resume near : -n 1 "${one[@]}" "${disk[@]}" --steps 4 --resume near
grep -q 'resume from the checkpoint of step 2 with: mpirun -n 2 ' <<<"$said" || fail 'what is left is not said' "$said"
expect 0 'proven: ' "$xtrain" verify near

# On CPUs without AVX-512 oneDNN wants weights in another order.
if grep -q avx512 /proc/cpuinfo; then
  expect 4 'keeps weights in another order than rank 0' mpirun -n 1 "${one[@]}" "${small[@]}" --steps 2 --out mixed : \
    -n 1 -x ONEDNN_MAX_CPU_ISA=AVX2 "${one[@]}" "${small[@]}" --steps 2 --out mixed
  grep -q 'give all ranks the instructions that all have, by mpirun -x ONEDNN_MAX_CPU_ISA=AVX2$' <<<"$said" ||
    fail 'the cure is not said' "$said"
  [ "$(grep -c 'error:' <<<"$said")" = 1 ] || fail 'it was said twice' "$said"
fi
if grep -q amx_tile /proc/cpuinfo; then
  expect 0 'has instructions AVX-512, rank 0 AVX-512, AMX' mpirun -n 1 "${one[@]}" "${small[@]}" --steps 2 --out alike : \
    -n 1 -x ONEDNN_MAX_CPU_ISA=AVX512_CORE "${one[@]}" "${small[@]}" --steps 2 --out alike
fi

# A run that diverges does so in all of them.
expect 1 'a lower --lr' "${two[@]}" "${small[@]}" --steps 40 --optim sgd --lr 900 --clip 0 --out diverged
[ "$(grep -c 'error:' <<<"$said")" = 1 ] || fail 'it was said twice' "$said"

# Bad images of any rank are in one list; too many of all together end the run.
: >good/京A00000_one.jpg
expect 0 'r/bad_images.txt says why' "${two[@]}" --model lprnet --data good --batch 8 --steps 30 --out r
[ "$(wc -l <r/bad_images.txt)" = 1 ] || fail 'the bad image is not listed once' "$(cat r/bad_images.txt)"
for i in 1 2 3; do : >"good/京A0000${i}_more.jpg"; done
expect 3 ' samples are bad, more than the 1 %' "${two[@]}" --model lprnet --data good --batch 8 --steps 30 --out too-bad

# Killed: all end at once, the checkpoint stays whole.
"${two[@]}" "${long[@]}" --out killed >said 2>&1 &
child=$!
saved killed
kill -KILL "$(pid_of 1 killed)"
ends 137 "is gone: it was killed"
expect 0 '' "${one[@]}" --resume killed --max-time 0.1s --quiet

# One that hangs is waited for, and no longer.
"${two[@]}" "${long[@]}" --rank-timeout 15s --out hung >said 2>&1 &
child=$!
saved hung
kill -STOP "$(pid_of 1 hung)"
ends 1 '(--rank-timeout)'
grep -q 'xtrain: error: rank 0 on .* has waited 15 s' said || fail 'rank 0 does not say why' "$(cat said)"
