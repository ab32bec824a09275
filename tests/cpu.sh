# cpu_has bf16|amx|vnni: whether the CPU, as far as ONEDNN_MAX_CPU_ISA lets programs use it, has what oneDNN wants for bf16,
# AMX, or sums of 8-bit products in 32 bits.
cpu_has() {
  local flag isa
  case $1 in
    bf16) flag='avx512bw' isa='AVX512.*' ;;
    amx) flag='amx_bf16' isa='AVX512_CORE_AMX.*' ;;
    vnni) flag='avx512_vnni|avx_vnni' isa='.*VNNI.*|AVX512_CORE_(BF16|FP16|AMX).*' ;;
    *) return 2 ;;
  esac
  grep -qEwm 1 "$flag" /proc/cpuinfo && grep -qxE "ALL|DEFAULT|$isa" <<<"${ONEDNN_MAX_CPU_ISA:-ALL}"
}
