#!/usr/bin/env bash
# clang-tidy on one file: check-tidy.sh FILE -- COMPILER FLAGS. Says nothing where there is nothing to say. The analyzer
# looks at TIDY_NODES states of a function at most (75000, its shallow mode's; its default takes three times as long).
set -euo pipefail
tool=${CLANG_TIDY:-clang-tidy}
command -v "$tool" >/dev/null || { echo 'clang-tidy is not installed: run "make deps-check"'; exit 1; }
# The count of warnings in system headers goes to standard error and is of no use.
nodes=${TIDY_NODES:-75000}
limit=(--extra-arg-before=-Xclang --extra-arg-before=-analyzer-config --extra-arg-before=-Xclang "--extra-arg-before=max-nodes=$nodes")
if ! said=$("$tool" --quiet "${limit[@]}" "$@" 2>&1); then
  grep -vE '^[0-9]+ warnings? (generated|treated)' <<<"$said"
  exit 1
fi
