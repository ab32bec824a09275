#!/usr/bin/env bash
# Two hosts that are network namespaces of this machine, with links of several rates between them: what a step takes,
# beside what the formula of docs/scaling.md makes of the step over a link without limit. As root.
#
#   [RATES='1000 10000'] [STEPS=16] tests/mpi/links.sh MODEL BATCH [options of train...]
[ $# -ge 2 ] || { sed -n '2,/^\[/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 2; }
model=$1 batch=$2
shift 2
options=("$@")
. tests/mpi/common.sh
. "$OLDPWD/tests/mpi/hosts.sh"
why=$(hosts_possible) || fail "$why"
trap 'hosts_down; rm -rf "$tree"' EXIT
hosts_up "$tree"
read -ra away <<<"on_host 0 $(hosts_mpirun)"
steps=${STEPS:-16}

# "SECONDS WAITED BYTES BUCKETS": of a step in the run's second half, of that for gradients, and what a rank sends.
measure() {
  rm -rf "$tree/run"
  "${away[@]}" "${one[@]}" --model "$model" --batch "$batch" "${options[@]}" --steps "$steps" --log-every $((steps / 2)) \
    --out "$tree/run" >said 2>&1 || fail 'it failed' "$(cat said)"
  tail -n 1 "$tree/run/metrics.jsonl" | sed "s/.*\"images_per_s\":\([0-9.]*\).*/\1/" | awk -v b="$batch" '{ printf "%.5f ", b / $1 }'
  sed -n 's/.*: gradients \([0-9.]*\) %.*/\1/p' said | tr '\n' ' '
  sed -n 's/.* \([0-9.]*\) MB of gradients a step in \([0-9]*\) bucket.*/\1 \2/p' said
}

read -r free waited bytes buckets <<<"$(measure)"
printf '%s, batch %s, 2 ranks on 2 hosts: %s MB of gradients a step in %s buckets\n' "$model" "$batch" "$bytes" "$buckets"
printf '%-14s %12s %12s %9s %12s\n' 'link' 'measured s' 'formula s' 'apart' 'waits'
printf '%-14s %12.3f %12s %9s %10s %%\n' 'no limit' "$free" '' '' "$waited"
for rate in ${RATES:-1000 10000}; do
  link_is "$rate" 50 || fail 'this system shapes no link (tc tbf)'
  read -r took waits _ <<<"$(measure)"
  awk -v t="$took" -v free="$free" -v w0="$waited" -v w="$waits" -v g="$bytes" -v k="$buckets" -v mbit="$rate" 'BEGIN {
    base = free * (1 - w0 / 100)
    s = g * 8 / mbit
    o = base / 2 * (k - 1) / k
    wait = s - o > s / k ? s - o : s / k
    said = base + (wait > free - base ? wait : free - base)
    printf "%-14s %12.3f %12.3f %7.1f %% %10.1f %%\n", mbit " Mbit/s", t, said, 100 * (t / said - 1), w
  }'
done
