#!/bin/sh
# Trains to the end: starts the run again after each exit code 75 (stopped and saved), and at most three times in a row
# after it was killed.
#   configs/loop.sh --model lprnet --data plates/train --val plates/val --out runs/a
# SIGTERM or Ctrl-C stop it, saved; the same line continues. XTRAIN names the program where it is not in the PATH.
set -u
xtrain=${XTRAIN:-xtrain}
child='' asked='' kills=0
trap 'asked=75; [ -z "$child" ] || kill -TERM "$child"' TERM
trap 'asked=130; [ -z "$child" ] || kill -TERM "$child"' INT
while :; do
  "$xtrain" "$@" --resume auto </dev/null &
  child=$! code=0
  wait "$child" || code=$?
  if [ -n "$asked" ]; then
    wait "$child"
    exit "$asked"
  fi
  child=''
  case $code in
  75) kills=0 ;;
  129 | 13[1-9] | 14?)
    kills=$((kills + 1))
    [ "$kills" -lt 4 ] || exit "$code"
    echo "loop.sh: killed ($code); restarting, $kills of 3" >&2
    ;;
  *) exit "$code" ;;
  esac
done
