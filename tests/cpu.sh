# Whether the CPU, as far as ONEDNN_MAX_CPU_ISA lets programs use it, has what oneDNN wants for bf16, or AMX: cpu_has bf16|amx
cpu_has() {
  local flag=avx512bw held='AVX512*'
  [ "$1" = bf16 ] || { flag=amx_bf16 held='AVX512_CORE_AMX*'; }
  grep -qm 1 -w "$flag" /proc/cpuinfo || return 1
  # shellcheck disable=SC2254
  case ${ONEDNN_MAX_CPU_ISA:-ALL} in ALL | DEFAULT | $held) ;; *) return 1 ;; esac
}
