#!/usr/bin/env bash
# Two laws that the object files tell best: no writable variable of static storage but those in allowed-globals.txt,
# and nobody but cli/main ends the process (base/system/process ends the child processes that it starts, or makes other
# programs of them; base/system/reexec what cannot return to cli/main: a driver that crashed or hangs).
#
#   check-objects.sh FOLDER OBJECT...       FOLDER is cut off the objects' names
set -euo pipefail
allowed=$(dirname "$0")/allowed-globals.txt
folder=${1%/}
shift
bad=0

# Constant tables of pointers lie in .data.rel.ro, which is sealed before main: only the other data sections count.
writable() {
  objdump -t "$1" | awk '
    { for (i = 2; i < NF; i++) if ($i ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && $i !~ /^\.data\.rel\.ro/) {
        name = $NF
        if (name !~ /^\./) { sub(/\.[0-9]+$/, "", name); print name }
        break
      } }' | sort -u
}

enders() { nm -u "$1" | awk '$2 ~ /^(exit|_exit|_Exit|quick_exit|abort|execv[a-z]*|execl[a-z]*)$/ { print $2 }'; }

for object in "$@"; do
  unit=${object#"$folder"/}
  unit=${unit%.o}
  mine=$(awk -v unit="$unit" '$1 == unit { $1 = ""; print }' "$allowed")
  for name in $(writable "$object"); do
    case " $mine " in
      *" $name "*) ;;
      *) echo "objects: $unit.c: the variable $name is writable and global (allowed ones: scripts/allowed-globals.txt)"; bad=1 ;;
    esac
  done
  [ "$unit" != cli/main ] || continue
  for name in $(enders "$object"); do
    case "$unit $name" in
      'base/system/process _exit' | 'base/system/process execve') continue ;;
      'base/system/reexec _exit' | 'base/system/reexec execve') continue ;;
    esac
    echo "objects: $unit.c calls $name(): only cli/main.c may end the process"
    bad=1
  done
done
[ "$bad" = 0 ] && echo "objects: $# object files hold no global state of their own and end no process"
exit "$bad"
