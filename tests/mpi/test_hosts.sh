#!/usr/bin/env bash
# Two hosts, which are network namespaces with a link of 1 Gbit/s between them: what they train is what two ranks of one
# host train, and where the link is cut in the middle of it nobody hangs.
. tests/mpi/common.sh
. "$OLDPWD/tests/mpi/hosts.sh"
why=$(hosts_possible) || { echo "skipped: $why"; exit 77; }
trap 'hosts_down; rm -rf "$tree"' EXIT
hosts_up "$tree"
read -ra away <<<"$(hosts_mpirun)"
run=(--model lprnet --data 'synth:plates?count=96&seed=3' --batch 8 --quiet)

link_is 1000 50 || { echo 'skipped: this system shapes no link (tc netem)'; exit 77; }
"${two[@]}" "${run[@]}" --steps 12 --save-every 4 --out here >said 2>&1 || fail 'two ranks of one host failed' "$(cat said)"
expect 0 "${host_names[1]} " "${away[@]}" "${one[@]}" "${run[@]//--quiet/--verbose}" --steps 12 --save-every 4 --out "$tree/away"
[ "$(record here)" = "$(record away)" ] && cmp here/last.safetensors away/last.safetensors ||
  fail 'over a link it is another run' "$(diff <(record here) <(record away))"

# Cut: mpirun may notice first, else the rank that waits does.
"${away[@]}" "${one[@]}" "${run[@]}" --steps 100000 --save-every 2 --rank-timeout 5s --out "$tree/cut" >said 2>&1 &
child=$!
saved cut
on_host 0 ip link set "${host_names[0]}" down
for ((i = 0; i < 300; i++)); do kill -0 $child 2>/dev/null || break; sleep 0.1; done
! kill -0 $child 2>/dev/null || { kill -KILL $child; fail 'half a minute after the link was cut it goes on' "$(cat said)"; }
code=0
wait $child || code=$?
cat said
echo "code $code"
