#!/usr/bin/env bash
# The first twenty minutes on a machine with an Intel GPU (docs/first-run-on-arc.md): ten commands, one after the other,
# and one archive of their output, to send to the maintainers.
#
#   scripts/first-run.sh [ARCHIVE.tar.gz]      without a name first-run.tar.gz; XTRAIN: the program, else build/xtrain
#
# In the archive: a text for each command with what it printed and its exit code; the short run's config.yaml,
# metrics.jsonl and proof.json; a list of exit codes (summary.txt). Not in it: images, weights, kernels. The
# run's images are made by the program itself. In every text the names of user, host and home folder are replaced
# (USER, HOST, ~), and of paths nothing is left but the last part, unless they are the system's (/dev, /sys, /proc, /usr,
# /lib, /etc, /opt/intel). UUIDs of GPUs are replaced, too. Look into it before you send it: it is text.
#
# A call to the GPU's driver that takes five minutes (XTRAIN_FIRST_RUN_TIMEOUT) ends its command.
#
# Ends with 0 where all ten went well, 1 where one did not, 4 where --xpu does not work here.
set -uo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
xtrain=${XTRAIN:-$here/build/xtrain}
archive=${1:-first-run.tar.gz}
case $archive in /*) ;; *) archive=$PWD/$archive ;; esac
[ -x "$xtrain" ] || { echo "first-run: $xtrain is not there: run \"make\" first, or name the program with XTRAIN=" >&2; exit 2; }
[ -d "$(dirname "$archive")" ] || { echo "first-run: there is no folder for $archive" >&2; exit 2; }
case $xtrain in /*) ;; *) xtrain=$PWD/$xtrain ;; esac
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
pack=$work/first-run
mkdir -p "$pack/run" && cd "$work" || exit 1

# A word as sed takes it literally.
literal() { printf '%s' "$1" | sed 's/[][\\.*^$#]/\\&/g'; }

# Takes what is private out of a text.
clean() {
  local user host home
  user=$(literal "$(id -un)") host=$(literal "$(uname -n)") home=$(literal "${HOME:-}")
  sed -E \
    -e "${home:+s#$home(/|[^A-Za-z0-9_.-]|\$)#~\\1#g}" \
    -e 's#[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}#UUID#g' \
    -e 's#(^|[^A-Za-z0-9_.~/-])/(dev|sys|proc|usr|lib|lib64|etc|opt/intel)(/|[^A-Za-z0-9_.-]|$)#\1\x01\2\3#g' \
    -e 's#(^|[^A-Za-z0-9_./\x01-])[~]?/([^][ /"'\''),;:<>]+/)+#\1PATH/#g' \
    -e 's#(^|[^A-Za-z0-9_./\x01-])/(home|root|mnt|media|data|srv|tmp|var|work|run)([^A-Za-z0-9_./-]|$)#\1PATH\3#g' \
    -e 's#\x01#/#g' |
    sed -E \
      -e "s#(^|[^A-Za-z0-9_-])$host([^A-Za-z0-9_-]|\$)#\\1HOST\\2#g" \
      -e "s#(^|[^A-Za-z0-9_-])$user([^A-Za-z0-9_-]|\$)#\\1USER\\2#g"
}

wrong=0 number=0
# say NAME ARGUMENTS...: runs the program; what it says is shown and kept.
say() {
  local name=$1 code=0
  shift
  number=$((number + 1))
  printf '\n== %d of 10: xtrain %s\n' "$number" "$*"
  timeout -k 10 "${XTRAIN_FIRST_RUN_SECONDS:-900}" "$xtrain" "$@" >"$work/said" 2>&1 </dev/null || code=$?
  tail -n 25 "$work/said"
  { printf '$ xtrain %s\n' "$*"; cat "$work/said"; printf 'exit code %d\n' "$code"; } |
    clean >"$pack/$(printf %02d "$number")-$name.txt"
  printf '%02d %-10s exit code %d\n' "$number" "$name" "$code" >>"$pack/summary.txt"
  [ "$code" = 0 ] || wrong=$((wrong + 1))
  return "$code"
}

finish() { # exit code, sentence
  local file
  for file in config.yaml metrics.jsonl proof.json; do
    [ ! -e "run/$file" ] || clean <"run/$file" >"$pack/run/$file"
  done
  rmdir "$pack/run" 2>/dev/null
  tar --owner=0 --group=0 --numeric-owner -czf "$archive" -C "$work" first-run ||
    { echo "first-run: $archive could not be written" >&2; exit 1; }
  echo
  grep -v 'exit code 0$' "$pack/summary.txt"
  printf '%s\n' "$2"
  printf 'what was said is in %s; look into it (it is text), and send it\n' "$archive"
  exit "$1"
}

images='synth:plates?count=256&seed=1'
small=(--model lprnet --batch "${XTRAIN_FIRST_RUN_BATCH:-32}")
limit=(--device-timeout "${XTRAIN_FIRST_RUN_TIMEOUT:-5m}")
say version --version
say devices devices "${limit[@]}"
say doctor-json doctor --json "${limit[@]}" >/dev/null
say doctor doctor "${limit[@]}" || finish 4 'first-run: --xpu does not work here; what doctor said above tells which step failed, and how to mend it'
say selftest selftest --xpu --small ${XTRAIN_FIRST_RUN_TYPE:+--amp "$XTRAIN_FIRST_RUN_TYPE"} "${limit[@]}"
say warmup warmup "${small[@]}" --xpu "${limit[@]}"
say train "${small[@]}" --data "$images" --xpu --steps "${XTRAIN_FIRST_RUN_STEPS:-100}" --out run "${limit[@]}"
say verify verify run "${limit[@]}"
say eval eval "${small[@]}" --init run/last.safetensors --data "synth:plates?count=${XTRAIN_FIRST_RUN_IMAGES:-64}&seed=2" --xpu "${limit[@]}"
say bench bench step "${small[@]}" --why --xpu --steps "${XTRAIN_FIRST_RUN_STEPS:-12}" "${limit[@]}"
[ "$wrong" = 0 ] || finish 1 "first-run: $wrong of 10 commands did not end well; summary.txt in the archive says which"
finish 0 'first-run: all ten commands ended well'
