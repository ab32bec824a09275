#!/usr/bin/env bash
# scripts/first-run.sh where there is no GPU: it says so, and packs what doctor said.
. tests/cli/common.sh
[ -z "$(ls /dev/dri 2>/dev/null)" ] || { echo 'skipped: there may be a GPU here'; exit 77; }
XTRAIN=$xtrain expect 4 'first-run: --xpu does not work here' scripts/first-run.sh "$tree/sent.tar.gz"
tar xzf "$tree/sent.tar.gz" -C "$tree"
grep -q '^03 doctor-json' "$tree/first-run/summary.txt" || fail 'the summary' "$(cat "$tree/first-run/summary.txt")"
grep -q 'exit code 4$' "$tree"/first-run/04-doctor.txt || fail "doctor's end"
! grep -rE "$(uname -n)|$PWD|(^|[^A-Za-z])$(id -un)([^A-Za-z]|\$)" "$tree/first-run" || fail 'private names in the archive'
XTRAIN=$tree/none expect 2 'is not there' scripts/first-run.sh
XTRAIN=$xtrain expect 2 'there is no folder' scripts/first-run.sh "$tree/no/where.tar.gz"
