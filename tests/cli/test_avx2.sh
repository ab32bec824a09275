#!/usr/bin/env bash
# Some of these tests on a CPU of AVX2 alone, as the hosts of GPUs are. So is any other one run:
# ONEDNN_MAX_CPU_ISA=AVX2 tests/cli/test_NAME.sh
. tests/cli/common.sh
cpu_has bf16 || { echo 'skipped: this CPU has AVX2 alone, by which all tests run'; exit 77; }
for name in batch_auto bench_infer bench_start bench_step; do
  ONEDNN_MAX_CPU_ISA=AVX2 bash "tests/cli/test_$name.sh" >"$tree/said" 2>&1 || fail "by AVX2 test_$name.sh failed" "$(cat "$tree/said")"
done
# In int8 without VNNI, whose weights are rounded once more, but in the 3x3 convolutions of ResNet-18.
for network in lprnet resnet18; do
  ONEDNN_MAX_CPU_ISA=AVX2 "$xtrain" selftest --model "$network" --amp int8 >"$tree/said" 2>&1 ||
    fail "int8 of $network by AVX2" "$(cat "$tree/said")"
done
