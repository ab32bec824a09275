#!/usr/bin/env bash
# Two hosts that are network namespaces of this machine, with links of several rates between them: what a step takes,
# beside what the formula of docs/scaling.md makes of the step over a link without limit. As root.
#
#   [RATES='1000 10000'] [DELAYS='500 2000'] [STEPS=16] [ROUNDS=3] tests/mpi/links.sh MODEL BATCH [options of train...]
#
# RATES are in Mbit/s, by tbf; DELAYS in microseconds, by a process that carries packets (delay.py), beside the same without delay. The
# formula gets the delay that packets really had.
[ $# -ge 2 ] || { sed -n '2,/^\[/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 2; }
model=$1 batch=$2
shift 2
options=("$@")
. tests/mpi/common.sh
. "$OLDPWD/tests/mpi/hosts.sh"
why=$(hosts_possible) || fail "$why"
trap 'hosts_down; rm -rf "$tree"' EXIT
hosts_up "$tree"
read -ra direct <<<"on_host 0 $(hosts_mpirun)"
read -ra delayed <<<"on_host 0 $(hosts_mpirun 1 delayed)"
steps=${STEPS:-16}
few="synth:plates?count=8"
[ "$model" = lprnet ] || few="synth:shapes?count=8"

# One run over the link as it is: the seconds of each step of its second half are added to FILE.steps, and FILE.said has
# "WAITED BYTES BUCKETS": percent of the time for gradients, and what a rank sends.
measure() { # FILE
  rm -rf "$tree/run"
  local run_by=("${direct[@]}")
  [[ $1 != delay* ]] || run_by=("${delayed[@]}")
  "${run_by[@]}" "${one[@]}" --model "$model" --batch "$batch" "${options[@]}" --steps "$steps" --log-every 1 --val "$few" \
    --out "$tree/run" >said 2>&1 || fail 'it failed' "$(cat said)"
  sed -n 's/.*"images_per_s":\([0-9.]*\).*/\1/p' "$tree/run/metrics.jsonl" | tail -n $((steps / 2)) |
    awk -v b="$batch" '{ printf "%.5f\n", b / $1 }' >>"$1.steps"
  sed -n 's/.*: gradients \([0-9.]*\) %.*/\1/p' said >>"$1.waited"
  sed -n 's/.* \([0-9.]*\) MB of gradients a step in \([0-9]*\) bucket.*/\1 \2/p' said >sent
}
# Batch norms whose sums queue behind the gradients, as the program runs them: two of LPRNet's are two each.
norms=$("${one[@]}" --model "$model" "${options[@]}" --dry-run 2>&1 | grep -cE '^[^ ]+ +batch norm +cpu ')
case " ${options[*]} " in *' --no-sync-bn '*) norms=0 ;; esac
median() { sort -g "$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

# Alternating, so that a machine that becomes slower slows all equally.
for ((round = 0; round < ${ROUNDS:-3}; round++)); do
  link_is_free
  measure free
  for rate in ${RATES:-1000 10000}; do
    link_is "$rate" 50 || fail 'this system shapes no link (tc tbf)'
    measure "$rate"
  done
  link_is_free
  for delay in ${DELAYS:+0 $DELAYS}; do
    hosts_delay "$delay" || fail 'no packets are carried (delay.py)'
    measure "delay$delay"
    hosts_delay_end >>"delay$delay.took"
  done
done
free=$(median free.steps) waited=$(median free.waited)
read -r bytes buckets <sent
printf '%s, batch %s, 2 ranks on 2 hosts: %s MB of gradients a step in %s bucket(s); medians of %s steps\n' "$model" "$batch" \
  "$bytes" "$buckets" "$(wc -l <free.steps)"
printf '%-14s %12s %12s %9s %12s\n' 'link' 'measured s' 'formula s' 'apart' 'waits'
printf '%-14s %12.3f %12s %9s %10s %%\n' 'no limit' "$free" '' '' "$waited"
for rate in ${RATES:-1000 10000}; do
  awk -v t="$(median "$rate.steps")" -v free="$free" -v w0="$waited" -v w="$(median "$rate.waited")" -v g="$bytes" -v k="$buckets" \
    -v m="$norms" -v mbit="$rate" 'BEGIN {
    base = free * (1 - w0 / 100)
    s = g * 8 / (0.956 * mbit) # of 1514 bytes of a frame 1448 are sent for xtrain
    o = base / 2 * (k - 1) / (m > k ? m : k)
    wait = s - o > s / k ? s - o : s / k
    said = base + (wait > free - base ? wait : free - base)
    printf "%-14s %12.3f %12.3f %7.1f %% %10.1f %%\n", mbit " Mbit/s", t, said, 100 * (t / said - 1), w
  }'
done
# A sum of two ranks takes two ways: two sums a norm, one of the losses; of a bucket six, whose parts are announced and answered
# before they are sent. --no-sync-bn's statistics are a bucket more, small and on its way beside the others.
for delay in ${DELAYS:+0 $DELAYS}; do
  awk -v t="$(median "delay$delay.steps")" -v none="$(median delay0.steps)" -v w="$(median "delay$delay.waited")" -v k="$buckets" -v m="$norms" \
    -v us="$(median "delay$delay.took")" -v us_without="$(median delay0.took)" 'BEGIN {
    said = none + 2 * (2 * m + 1 + 3 * (k - !m)) * (us - us_without) / 1e6
    printf "%-14s %12.3f %12.3f %7.1f %% %10.1f %%\n", us " us", t, said, 100 * (t / said - 1), w
  }'
done
