#!/usr/bin/env bash
# The test runner counts what passes, fails, crashes, is skipped, was not built, and what a sanitizer says at the end.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tests/x"

put() { # NAME SCRIPT
  printf '#!/bin/sh\n%s\n' "$2" >"$tree/tests/x/$1"
  chmod +x "$tree/tests/x/$1"
}
# expect CODE LAST-LINE TEXT FILE...: the runner on these files.
expect() {
  local code=0 said want_code=$1 want_last=$2 want_text=$3
  shift 3
  said=$(TEST_TIMEOUT=2 scripts/run-tests.sh "$@" 2>&1) || code=$?
  if [ "$code" != "$want_code" ] || [ "$(tail -n 1 <<<"$said")" != "$want_last" ] || ! grep -qF -- "$want_text" <<<"$said"; then
    printf 'expected code %s, "%s" and "%s", got code %s and:\n%s\n' "$want_code" "$want_last" "$want_text" "$code" "$said"
    exit 1
  fi
}

put test_good "printf '1..3\nok 1 - a\nskipped: no shared data\nnot ok 2 # SKIP b\nok 3 - c\n'"
expect 0 '2 passed, 0 failed, 1 skipped' '(no shared data)' "$tree/tests/x/test_good"
put test_bad "printf '1..2\nok 1 - a\nnot ok 2 - b\n# 1 != 2\n'; exit 1"
expect 1 '1 passed, 1 failed, 0 skipped' '# 1 != 2' "$tree/tests/x/test_bad"
put test_crash "printf '1..3\nok 1 - a\n'; kill -ABRT \$\$"
expect 1 '1 passed, 2 failed, 0 skipped' 'ended by signal 6' "$tree/tests/x/test_crash"
put test_leak "printf '1..1\nok 1 - a\n'; echo 'LeakSanitizer: detected memory leaks'; exit 23"
expect 1 '1 passed, 1 failed, 0 skipped' 'exit code 23' "$tree/tests/x/test_leak"
put test_hang "printf '1..1\n'; sleep 60"
expect 1 '0 passed, 1 failed, 0 skipped' 'stopped after 2 s' "$tree/tests/x/test_hang"
put test_empty "exit 0"
expect 1 '0 passed, 1 failed, 0 skipped' 'it ran no test' "$tree/tests/x/test_empty"
expect 1 '0 passed, 1 failed, 0 skipped' 'it was not built' "$tree/tests/x/test_none"
put test_a.sh 'exit 77'
put test_b.sh 'exit 0'
expect 0 '1 passed, 0 failed, 2 skipped' 'no clang' --skip 'fuzz/f: no clang' "$tree/tests/x/test_a.sh" "$tree/tests/x/test_b.sh"
# Two at a time: their lines come in the order given, and all of them count.
put test_slow.sh 'sleep 1'
expect 1 '3 passed, 2 failed, 2 skipped' 'failed: x/test_none x/test_bad' --jobs 2 "$tree/tests/x/test_slow.sh" \
  "$tree/tests/x/test_none" "$tree/tests/x/test_a.sh" "$tree/tests/x/test_bad" "$tree/tests/x/test_b.sh" \
  --skip 'fuzz/f: no clang'
# One that runs alone comes behind the others, and none of them is still running then.
put test_alone.sh '# Runs alone: it sees whether another runs
[ ! -e "$(dirname "$0")/running" ]'
for name in one two; do put test_$name.sh 'touch "$(dirname "$0")/running"; sleep 0.5; rm -f "$(dirname "$0")/running"'; done
expect 0 '3 passed, 0 failed, 0 skipped' 'x/test_alone.sh' --jobs 2 "$tree/tests/x/test_alone.sh" "$tree/tests/x/test_one.sh" \
  "$tree/tests/x/test_two.sh"
put test_gone.sh 'kill -KILL $(cut -d" " -f4 /proc/$PPID/stat)'
expect 1 '1 passed, 1 failed, 0 skipped' 'no result' --jobs 2 "$tree/tests/x/test_gone.sh" "$tree/tests/x/test_b.sh"
