#!/usr/bin/env bash
# What makes a run slow is said once, with what helps, in the log, as JSON and in the run's report; launches that take the
# host long are played by fault_layer.c. Run through double.sh.
. tests/xpu/common.sh
needs_faults

# The double has oneDNN's reference kernels alone, and says that it has matrix engines.
kernels='slow because [0-9]* of [0-9]* kernels are oneDNN.s reference ones, which are not made for speed (the first: backbone.0, ocl:ref:any); .*make deps XPU=1'
type='slow because the matrix engines (XMX) of this GPU (Xe-HP) are not for float32; --amp bf16 (or fp16) uses them'
"$xtrain" --model lprnet --data 'synth:plates?count=8&seed=3' --batch 1 --steps 2 --xpu --no-device-check --json \
  --out "$work/run" >"$work/json" 2>"$work/said" || fail 'a run'
for line in "$kernels" "$type"; do [ "$(grep -c "^$line" "$work/said")" = 1 ] || fail "it is not said once: $line"; done
[ "$(grep -c '^slow because' "$work/said")" = 2 ] || fail 'other findings, of what cannot be read'
for file in "$work/json" "$work/run/report.json"; do
  grep -q '"slow": *\[{"cause":"kernels","because":"[0-9].*","remedy":".*"},{"cause":"type",.*"remedy":"--amp bf16' "$file" ||
    fail "$file has no findings"
done
grep -q 'Slow because' "$work/run/report.html" || fail 'the page has no place for them'

bench() { # the fault
  XT_FAULT=$1 "$xtrain" bench step --model lprnet --batch 1 --steps 1 --xpu --why >"$work/said" 2>&1 || fail 'bench step --why'
}
bench 'slow 15' # ms a launch: many times what the double computes, on a busy machine too
grep -q "^$kernels" "$work/said" && grep -q "^$type" "$work/said" || fail '--why has other findings than a run'
grep -Eq '^slow because of a step of [0-9.]+ ms the host takes [0-9.]+ ms to submit the GPU.s work, .*; a larger --batch' "$work/said" ||
  fail 'launches that take the host long'
grep -q '^examined: kernels, data type, other GPUs, launches$' "$work/said" || fail 'what was examined'
grep -q '^not examined: Resizable BAR (.*), loader (a bench reads no images), busy time (no Level Zero device matches)$' \
  "$work/said" || fail 'what was not examined, and why'

echo 'kernels, type and launches are named with what helps'
