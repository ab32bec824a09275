#!/usr/bin/env bash
# A run whose batch norms are frozen resumes with them frozen without being told again: an XPU's kernels are made for the
# one or the other. Run through double.sh.
. tests/xpu/common.sh
needs_double

run=("$xtrain" "${small[@]}" --lr 1e-4 --dropout 0 --sched constant
  --log-every 1 --quiet)
"${run[@]}" --bn frozen --steps 2 --out "$work/cpu" >"$work/said" 2>&1 || fail '2 steps on the CPU'
"${run[@]}" --bn frozen --steps 1 --out "$work/both" >"$work/said" 2>&1 || fail 'a step on the CPU'
"${run[@]}" --steps 2 --xpu --resume auto --out "$work/both" >"$work/said" 2>&1 || fail 'the next one on the XPU'
join <(losses "$work/cpu") <(losses "$work/both") >"$work/losses"
awk '{ d = ($2 - $3) / $2; d = d < 0 ? -d : d; if (d > 1e-5) bad = 1 } END { exit bad || NR != 2 }' "$work/losses" ||
  { cat "$work/losses"; fail 'the losses of cpu and xpu are too far apart'; }
echo 'a run with frozen batch norms resumes with them'
