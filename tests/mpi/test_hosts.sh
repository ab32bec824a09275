#!/usr/bin/env bash
# Two hosts, which are network namespaces with a link of 1 Gbit/s between them: what they train is what two ranks of one
# host train, two ranks on each send its gradients once, and where the link is cut in the middle of it nobody hangs.
. tests/mpi/common.sh
. "$OLDPWD/tests/mpi/hosts.sh"
why=$(hosts_possible) || { echo "skipped: $why"; exit 77; }
trap 'hosts_down; rm -rf "$tree"' EXIT
hosts_up "$tree"
read -ra away <<<"on_host 0 $(hosts_mpirun)"
run=(--model lprnet --data 'synth:plates?count=96&seed=3' --batch 8 --quiet)

link_is 1000 50 || { echo 'skipped: this system shapes no link (tc tbf)'; exit 77; }
"${two[@]}" "${run[@]}" --steps 12 --save-every 4 --out here >said 2>&1 || fail 'two ranks of one host failed' "$(cat said)"
expect 0 "${host_names[1]} " "${away[@]}" "${one[@]}" "${run[@]//--quiet/--verbose}" --steps 12 --save-every 4 --out "$tree/away"
[ "$(record here)" = "$(record away)" ] && same_weights here/last.safetensors away/last.safetensors ||
  fail 'over a link it is another run' "$(diff <(record here) <(record away))"

# Two ranks a host: of each step's 2.0 MB of gradients 2.0 MB leave a host, as a reduction within the hosts and then between them
# would send them; a tree or a ring sends more.
read -ra four <<<"on_host 0 $(hosts_mpirun 2)"
sent() { # STEPS: bytes from the first host to the second
  local before after
  before=$(on_host 0 cat "/sys/class/net/${host_names[0]}/statistics/tx_bytes")
  "${four[@]}" "${one[@]}" "${run[@]}" --no-sync-bn --steps "$1" --out "$tree/four-$1" >said 2>&1 || fail 'two ranks a host failed' "$(cat said)"
  after=$(on_host 0 cat "/sys/class/net/${host_names[0]}/statistics/tx_bytes")
  echo $((after - before))
}
few=$(sent 2)
step=$((($(sent 7) - few) / 5))
[ "$step" -gt 1700000 ] && [ "$step" -lt 2300000 ] || fail "a step sends $step bytes from host to host, not 2.0 MB"

# Cut: rank 0 says what it waited for, and no rank is left on either host. mpirun may be, for as long as TCP tries to reach
# the other host.
"${away[@]}" "${one[@]}" "${run[@]}" --steps 100000 --save-every 2 --rank-timeout 15s --out "$tree/cut" >said 2>&1 &
child=$!
saved cut
ip netns exec "${host_names[0]}" ip link set "${host_names[0]}" down
ranks_left() {
  local name pid
  for name in "${host_names[@]}"; do
    for pid in $(ip netns pids "$name"); do grep -qx xtrain "/proc/$pid/comm" 2>/dev/null && echo "$pid on $name"; done
  done
}
while [ -n "$(ranks_left)" ]; do sleep 0.1; done
grep -q 'xtrain: error: rank 0 on .* has waited 15 s (--rank-timeout) for ' said || fail 'rank 0 does not say why' "$(cat said)"
kill -KILL $child 2>/dev/null || true
wait $child 2>/dev/null || true

# What was saved before is whole.
expect 0 'resuming from ' "${one[@]}" --resume "$tree/cut" --max-time 0.1s
