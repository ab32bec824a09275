# Two hosts that are none: network namespaces with a name and an address each, and a link between them of a given rate
# and delay. Sourced; needs root. `hosts_down` when done.
hosts_id=xt$$
host_names=("${hosts_id}a" "${hosts_id}b")
host_addresses=(10.233.$(($$ % 250)).1 10.233.$(($$ % 250)).2)

# Says why not, and is false, where there can be no such hosts.
hosts_possible() {
  if ! command -v ip >/dev/null || ! command -v tc >/dev/null; then
    echo 'no ip and tc (iproute2)'
  elif [ "$(id -u)" != 0 ]; then
    echo 'network namespaces are made by root'
  elif ! ip netns add "${hosts_id}t" 2>/dev/null; then
    echo 'this system lets nobody make network namespaces'
  else
    ip netns del "${hosts_id}t"
    return 0
  fi
  return 1
}

# A namespace has a network of its own, and a name by unshare.
on_host() { # N COMMAND...: on host 0 or 1
  local host=${host_names[$1]}
  shift
  ip netns exec "$host" unshare --uts sh -c 'hostname "$0"; exec "$@"' "$host" "$@"
}

hosts_up() { # FOLDER: where what starts processes on the second host is written
  local i
  ip link add "${host_names[0]}" type veth peer name "${host_names[1]}" 2>/dev/null || return 1
  for i in 0 1; do
    ip netns add "${host_names[i]}"
    ip link set "${host_names[i]}" netns "${host_names[i]}"
    on_host $i ip addr add "${host_addresses[i]}/24" dev "${host_names[i]}"
    on_host $i ip link set lo up
    # BBR, which some systems have for all, paces by the rate of what it has sent: between waits, next to nothing.
    on_host $i sysctl -qw net.ipv4.tcp_congestion_control=reno
    on_host $i ip link set "${host_names[i]}" up
  done
  # What mpirun takes for ssh: HOST LINE.
  hosts_agent=$1/as-host
  cat >"$hosts_agent" <<AGENT
#!/bin/sh
case \$1 in ${host_addresses[0]}) host=${host_names[0]} ;; *) host=${host_names[1]} ;; esac
shift
exec ip netns exec \$host unshare --uts sh -c "hostname \$host; \$*"
AGENT
  chmod +x "$hosts_agent"
}

# Both directions: MBIT/s, and MICROSECONDS of the way, where the kernel can delay packets (netem); false where it can not
# even hold to a rate (tbf).
link_is() { # MBIT MICROSECONDS
  local i
  for i in 0 1; do
    on_host $i tc qdisc replace dev "${host_names[i]}" root handle 1: tbf rate "$1mbit" burst 80kb latency 400ms 2>/dev/null ||
      return 1
    on_host $i tc qdisc replace dev "${host_names[i]}" parent 1:1 netem delay "$2us" limit 100000 2>/dev/null || true
  done
}

link_is_free() {
  local i
  for i in 0 1; do
    on_host $i tc qdisc del dev "${host_names[i]}" root 2>/dev/null || true
  done
}

# Packets of another link, to the address "delayed" of hosts_mpirun, are MICROSECONDS on their way, by a process of the
# test's own: where the kernel has no netem. Ends when this is called again, or with the hosts.
hosts_delay() { # MICROSECONDS
  local i ends=()
  while [ -n "${delay_pid:-}" ] && kill "$delay_pid" 2>/dev/null; do sleep 0.02; done
  for i in 0 1; do
    [ -n "${host_pids[i]:-}" ] || { ip netns exec "${host_names[i]}" sleep infinity & host_pids[i]=$!; disown; }
    until [ "$(readlink "/proc/${host_pids[i]}/ns/net")" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.02; done
    ends+=("${host_pids[i]}:${host_addresses[i]/10.233/10.234}")
  done
  : >"$tree/delay"
  python3 "$OLDPWD/tests/mpi/delay.py" "$1" "${ends[@]}" >"$tree/delay" 2>&1 &
  delay_pid=$!
  disown
  until grep -q carries "$tree/delay"; do kill -0 $delay_pid 2>/dev/null || { cat "$tree/delay"; return 1; }; sleep 0.02; done
}
host_pids=()

# Prints how long the link's packets really took, in microseconds (the median).
hosts_delay_end() {
  while kill "$delay_pid" 2>/dev/null; do sleep 0.02; done
  sed -n 's/^took //p' "$tree/delay"
}

# What starts ranks on each host, one or RANKS; to be run on the first. "delayed": over the link of hosts_delay.
hosts_mpirun() { # [RANKS [delayed]]
  local net=${host_addresses[0]%.*}.0/24 of_ranks
  of_ranks=$net
  [ "${2:-}" != delayed ] || of_ranks=${net/10.233/10.234}
  echo mpirun -n $((2 * ${1:-1})) --host "${host_addresses[0]}:${1:-1},${host_addresses[1]}:${1:-1}" --mca plm_rsh_agent "$hosts_agent" \
    --mca btl vader,tcp,self --mca pml ob1 --mca btl_tcp_if_include "$of_ranks" --mca oob_tcp_if_include "$net"
}

hosts_down() {
  local i
  [ -z "${delay_pid:-}" ] || kill "$delay_pid" 2>/dev/null || true
  for i in 0 1; do
    ip netns pids "${host_names[i]}" 2>/dev/null | xargs -r kill -KILL 2>/dev/null || true
    ip netns del "${host_names[i]}" 2>/dev/null || true
  done
}
