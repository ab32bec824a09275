#!/usr/bin/env bash
# What ranks decide together as one process would: steps of several batches, the moving average, --overfit, what is done
# about numbers that are none; what wrong images the page shows; and what they refuse.
. tests/mpi/common.sh
apart=$(dirname "$xtrain")/tests/weights_apart
run=(--model lprnet --data 'synth:plates?count=96&seed=3' --batch 8 --quiet)
gently=(--val 'synth:plates?count=21&seed=4' --optim sgd --momentum 0 --lr 2e-5 --sched constant --log-every 1 --steps 8)

# Two batches a step, whose gradients go their way once; the average of as many updates.
both=("${run[@]}" "${gently[@]}" --accumulate 2 --ema 0.9)
"${one[@]}" "${both[@]}" --out one >said 2>&1 || fail 'one process failed' "$(cat said)"
"${two[@]}" "${both[@]}" --out two >said 2>&1 || fail 'two ranks failed' "$(cat said)"
follows one two 2e-5
[ ! -x "$apart" ] || "$apart" one/ema.safetensors two/ema.safetensors | awk '/weight/ && $2 > 1e-5 { print; bad = 1 } END { exit bad }' ||
  fail 'the moving average is another'
[ "$(sed -n 's/.*"ema_correct":\([0-9]*\).*/\1/p' two/metrics.jsonl | tail -n 1)" != '' ] || fail 'the average was not evaluated'

# The page shows what all of them read wrong, the same as of one process.
images() { python3 -c 'import json, sys
print(*sorted(e["path"] for e in json.load(open(sys.argv[1]))["evaluation"]["errors"]))' "$1/report.json"; }
if command -v python3 >/dev/null; then
  [ "$(images one)" = "$(images two)" ] && [ "$(images two | wc -w)" -ge 10 ] ||
    fail 'the pages show other errors' "$(images one)" "$(images two)"
fi

# Shares differ by an image; --batch auto is what fits on each rank, and a resumed run keeps it.
[ "$($(ranks 4) "${run[@]:0:4}" --batch 10 --steps 1 --out ten 2>&1 |
  awk -v h="$(hostname)" '$2 == h && $1 ~ /^[0-3]$/ { print $3 }' | paste -sd ' ')" = '3 3 2 2' ] || fail 'four ranks share 10 images in another way'
whole=(--model lprnet --data 'synth:plates?count=23&seed=3' --steps 2 --batch auto)
expect 0 '--batch auto takes 23 together, at most 12 on each of 2 ranks' "${two[@]}" "${whole[@]}" --steps 1 --out auto
expect 0 '--batch auto takes 23, as in the run of auto/' "${two[@]}" "${whole[@]}" --resume auto --out auto

# --overfit: which were not learnt, of all ranks' parts.
few=("${run[@]}" --overfit 8 --lr 1e-5 --optim sgd --momentum 0 --steps 3)
expect 1 'of 8 images were learnt' "${one[@]}" "${few[@]}" --out few-one
alone=$(grep ': labelled ' <<<"$said")
expect 1 'of 8 images were learnt' "${two[@]}" "${few[@]}" --out few-two
[ "$(grep ': labelled ' <<<"$said" | sed 's/, read as.*//')" = "$(sed 's/, read as.*//' <<<"$alone")" ] ||
  fail 'two ranks name other images' "$alone" "$said"

# At such a rate it diverges: they skip the same steps, and return to the same checkpoint.
wild=("${run[@]}" --steps 60 --optim sgd --lr 1000 --clip 0 --sched constant)
expect 1 'it is the last of 10 steps in a row that --on-nan skip skipped' "${two[@]}" "${wild[@]}" --on-nan skip --out skip
expect 1 '3 times it went back to the checkpoint before (--on-nan rollback), the last time at ' \
  "${two[@]}" "${wild[@]}" --save-every 1000 --on-nan rollback --no-sync-bn --out back
[ "$(grep -c 'error:' <<<"$said")" = 1 ] && grep -q '"rolled_back_to":0,"lr_factor":0.125' back/metrics.jsonl ||
  fail 'it was said twice, or is not in the record' "$said" "$(cat back/metrics.jsonl)"

expect 2 'a process that restarts itself cannot rejoin' "${two[@]}" "${run[@]}" --on-device-loss resume --out lost

# An evaluation is shared out; what several processes would only do over and over is refused, and said once.
data=(--model lprnet --init one/last.safetensors --data 'synth:plates?count=41&seed=4' --batch 8)
# The mean loss is a sum, which two add up in another order: 14 digits of it.
page() { sed -E 's/("loss":[0-9.]{15})[0-9]*/\1/g' "$1"; }
expect 0 '' "${one[@]:0:1}" eval "${data[@]}" --threads 1 --errors one.html
alone=$(grep -E '^(images|right|char)' <<<"$said")
expect 0 'by 2 ranks, each with its part of the images' mpirun -n 2 "$xtrain" eval "${data[@]}" --threads 1 --errors two.html
[ "$(grep -E '^(images  |right|char)' <<<"$said")" = "$(grep -v images/s <<<"$alone")" ] && cmp <(page one.html) <(page two.html) ||
  fail 'two ranks find something else' "$alone" "$said"
expect 2 'xtrain predict is for one process, and this is one of 2 tasks (OMPI_COMM_WORLD_SIZE=2)' \
  mpirun -n 2 "$xtrain" predict one/last.safetensors one
[ "$(grep -c 'error:' <<<"$said")" = 1 ] || fail 'it was said twice' "$said"
