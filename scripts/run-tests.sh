#!/usr/bin/env bash
# Runs tests, a line each, shows what a failing one said, and ends with the line "N passed, N failed, N skipped". Exit
# code 1 where one failed.
#
#   scripts/run-tests.sh [--jobs N] [--fuzz-seconds N] [--golden PROGRAM] [--skip 'NAME: REASON']... FILE...
#
# One FILE after the other or, with --jobs, N at a time, each on its share of the CPUs, fuzzers two at
# least; their lines come in the order that was given. Those whose source says "Runs alone: REASON" (they measure time,
# say) come last, one after the other, on all CPUs.
# A FILE is a cmocka program (each of its tests counts), a fuzz_* program (run for N seconds; counts one) or a .sh
# script (exit code 0 passed, 77 skipped; counts one). --golden runs PROGRAM on the shared golden numbers. A FILE that
# is missing (it was not built), crashes, or takes longer than TEST_TIMEOUT seconds (300) counts as failed.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=1
fuzz_seconds=5
golden=
files=()
skips=()
while [ $# -gt 0 ]; do
  case $1 in
    --jobs) jobs=$2; shift 2 ;;
    --fuzz-seconds) fuzz_seconds=$2; shift 2 ;;
    --golden) golden=$2; shift 2 ;;
    --skip) skips+=("$2"); shift 2 ;;
    *) files+=("$1"); shift ;;
  esac
done

shared=${XTRAIN_SHARED:-../shared}
limit=${TEST_TIMEOUT:-300}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log
passed=0 failed=0 skipped=0 failing=

# A build folder outside the tree does not find the tree's oneDNN.
dnnl=$PWD/deps/dnnl/lib/libdnnl.so.3
case ${files[0]:-} in /*) [ ! -e "$dnnl" ] || export XTRAIN_DNNL=${XTRAIN_DNNL:-$dnnl} ;; esac
export CMOCKA_MESSAGE_OUTPUT=TAP
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1}

# build/san-address/tests/base/test_err is "address: base/test_err".
name_of() {
  local name=${1##*tests/} flavour=
  case $1 in */san-*) flavour=${1##*/san-} flavour="${flavour%%/*}: " ;; esac
  [ "$flavour" != 'fuzzer: ' ] || flavour=
  echo "$flavour$name"
}

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }
reasons() { { grep -a '^skipped: ' "$log" || true; } | sort -u | sed 's/^skipped: //' | paste -sd ';' | sed 's/;/; /g'; }
count() { grep -acE "$1" "$log" || true; }

# One line for a program, and its output where something is wrong.
report() { # name, passed, failed, skipped, seconds, what went wrong (may be empty)
  local text="$2 passed"
  [ "$3" = 0 ] || text+=", $3 FAILED"
  [ "$4" = 0 ] || text+=", $4 skipped$(reasons | sed 's/^\(.\)/ (\1/; s/\(.\)$/\1)/')"
  printf '%-40s %s, %s s%s\n' "$1" "$text" "$5" "${6:+: $6}"
  [ "$3" = 0 ] || { sed 's/^/    /' "$log"; failing+=" $1"; }
  passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
}

# Why a program ended as it did, for those exit codes that are not its own.
ending() {
  case $1 in
    0 | 77) ;;
    124) echo "stopped after $limit s" ;;
    *) if [ "$1" -gt 128 ] && [ "$1" -lt 160 ]; then echo "ended by signal $(($1 - 128))"; else echo "exit code $1"; fi ;;
  esac
}

# The CPUs that this process may use, in shares for the jobs; more jobs than CPUs have some of them in common. Threads of two
# tests that wait for each other's CPU make small networks ten times slower.
mapfile -t cpus < <(taskset -pc $$ 2>/dev/null | sed 's/.*: //' | tr ',' '\n' |
  awk -F- '{ for (c = $1; c <= ($2 == "" ? $1 : $2); c++) print c }')
export XTRAIN_TEST_CPUS=$(IFS=,; echo "${cpus[*]}") # all of them, for a test that asks for more than its share
shares=$((jobs < ${#cpus[@]} ? jobs : ${#cpus[@]}))
# Takes the first place that no other test has, until this shell ends, and the share of CPUs that belongs to it.
take_share() {
  local i each
  # The double of a GPU (tests/xpu/double.sh) is made of all CPUs.
  [ "$shares" -gt 1 ] && [ -z "${OCL_ICD_FILENAMES:-}" ] || return 0
  each=$((${#cpus[@]} / shares))
  for ((i = 0; i < jobs; i++)); do
    exec {held}>"$scratch/place.$i"
    ! flock -n "$held" || break
    exec {held}>&-
  done
  taskset -pc "$(IFS=,; echo "${cpus[*]:i % shares * each:each}")" "$BASHPID" >/dev/null
}

# The address sanitizer's guess at where a thread's variables of loaded libraries lie is garbage at times, and its leak
# checker then crashes (signal 11 in "DTLS 8 at 0x00060000019f"): without that guess it does not.
export ASAN_OPTIONS=intercept_tls_get_addr=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}

run() { # command...: its output into $log, its exit code into $code
  code=0
  timeout --kill-after=10 "$limit" "$@" </dev/null >"$log" 2>&1 || code=$?
}

run_cmocka() {
  local start=$EPOCHREALTIME planned ok skip bad lost why=
  run "$1"
  planned=$(awk -F'[.]' '/^1\.\.[0-9]+$/ { n += $3 } END { print n + 0 }' "$log")
  skip=$(count '^(not )?ok [0-9]+ # SKIP')
  ok=$(count '^ok [0-9]+ - ')
  bad=$(count '^not ok [0-9]+ - ')
  lost=$((planned - ok - bad - skip))
  [ "$lost" -le 0 ] || { bad=$((bad + lost)) why="$lost did not run to their end; $(ending "$code")"; }
  # A sanitizer speaks at the very end, when every test has passed.
  if [ "$bad" = 0 ] && [ "$code" != 0 ]; then bad=1 why=$(ending "$code"); fi
  if [ "$planned" = 0 ] && [ "$code" = 0 ]; then bad=1 why='it ran no test'; fi
  report "$(name_of "$1")" "$ok" "$bad" "$skip" "$(seconds_since "$start")" "$why"
}

run_one() { # name, command...: counts one
  local start=$EPOCHREALTIME name=$1
  shift
  run "$@"
  case $code in
    0) report "$name" 1 0 0 "$(seconds_since "$start")" '' ;;
    77) report "$name" 0 0 1 "$(seconds_since "$start")" '' ;;
    *) report "$name" 0 1 0 "$(seconds_since "$start")" "$(ending "$code")" ;;
  esac
}

run_fuzzer() {
  local reader=${1##*/fuzz_} corpus=$log.corpus
  # New inputs land in the first folder, which is thrown away; the seeds in the tree stay as they are.
  rm -rf "$corpus" && mkdir "$corpus"
  local seeds=tests/fuzz/corpus/$reader
  [ -d "$seeds" ] || seeds=
  # Files that PyTorch wrote.
  case $reader in pickle | safetensors) seeds="$seeds tests/models/fixtures" ;; esac
  limit=$((fuzz_seconds + 60)) run_one "$(name_of "$1")" "$1" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 \
    -verbosity=0 -artifact_prefix="${FUZZ_ARTIFACTS:-$(dirname "$1")/}" "$corpus" $seeds
}

run_file() { # its line goes to standard output, its counts into a file
  local file=${files[$1]} name
  log=$scratch/$1
  passed=0 failed=0 skipped=0 failing=
  name=$(name_of "$file")
  if [ ! -e "$file" ]; then
    echo 'it was not built: see the compiler above' >"$log"
    report "$name" 0 1 0 0.0 'missing'
  else
    case $file in
      *.sh) run_one "$name" bash "$file" ;;
      */fuzz_*) run_fuzzer "$file" ;;
      *) run_cmocka "$file" ;;
    esac
  fi
  echo "$passed $failed $skipped$failing" >"$log.counts"
}

collected=0
collect() { # those that are done, up to the first that is not
  local p f s names
  while [ -s "$scratch/$collected.counts" ]; do
    cat "$scratch/$collected.line"
    read -r p f s names <"$scratch/$collected.counts"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) failing+=${names:+ $names}
    collected=$((collected + 1))
  done
}

# Whether its source, tests/x/test_y.c of build/tests/x/test_y, wants the machine for itself.
runs_alone() {
  local source=$1
  [ "${1%.sh}" != "$1" ] || source=tests/${1##*tests/}.c
  grep -qs 'Runs alone: ' "$source"
}
alone=() beside=()
for file in ${files[@]+"${files[@]}"}; do
  if runs_alone "$file"; then alone+=("$file"); else beside+=("$file"); fi
done
files=(${beside[@]+"${beside[@]}"} ${alone[@]+"${alone[@]}"})

# How many may run beside a file; a fuzzer takes its time whatever runs beside it.
at_once() { case $1 in */fuzz_*) [ "$jobs" -gt 2 ] && echo "$jobs" || echo 2 ;; *) echo "$jobs" ;; esac; }

for ((i = 0; i < ${#files[@]}; i++)); do
  most=$(at_once "${files[$i]}")
  [ "$i" -lt "${#beside[@]}" ] || most=1
  while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n || true; done
  collect
  (
    [ "$most" = 1 ] || take_share
    run_file "$i"
  ) >"$scratch/$i.line" &
done
while [ -n "$(jobs -rp)" ]; do
  wait -n || true
  collect
done
collect
while [ "$collected" -lt "${#files[@]}" ]; do
  echo 'what ran it has ended' >"$log"
  report "$(name_of "${files[$collected]}")" 0 1 0 0.0 'no result'
  collected=$((collected + 1))
  collect
done

if [ -n "$golden" ]; then
  if [ -d "$shared/golden" ]; then
    run_one golden "$golden" "$shared/golden"
  else
    echo 'skipped: no shared data' >"$log"
    report golden 0 0 1 0.0 ''
  fi
fi
for skip in ${skips[@]+"${skips[@]}"}; do
  echo "skipped: ${skip#*: }" >"$log"
  report "${skip%%: *}" 0 0 1 0.0 ''
done

[ -z "$failing" ] || echo "failed:$failing"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
