#!/usr/bin/env bash
# clang-tidy on one file: check-tidy.sh FILE -- COMPILER FLAGS. Says nothing where there is nothing to say.
set -euo pipefail
tool=${CLANG_TIDY:-clang-tidy}
command -v "$tool" >/dev/null || { echo 'clang-tidy is not installed: run "make deps-check"'; exit 1; }
# The count of warnings in system headers goes to standard error and is of no use.
if ! said=$("$tool" --quiet "$@" 2>&1); then
  grep -vE '^[0-9]+ warnings? (generated|treated)' <<<"$said"
  exit 1
fi
