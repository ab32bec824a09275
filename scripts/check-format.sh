#!/usr/bin/env bash
# clang-format changes nothing in the files given. Its versions disagree in details: the tree follows version 14, and
# with another one differences are shown but fail nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=${CLANG_FORMAT:-clang-format}
command -v "$tool" >/dev/null || { echo 'format: clang-format is not installed: run "make deps-check"'; exit 1; }
[ $# -gt 0 ] || { echo 'format: no files were given, so nothing was checked'; exit 2; }
version=$("$tool" --version | grep -oE '[0-9]+\.[0-9]+' | head -n 1)
if said=$("$tool" --dry-run -Werror "$@" 2>&1); then
  echo "format: $# files are as clang-format writes them"
elif [ "${version%%.*}" = 14 ]; then
  grep -E '^[^ ].*: error:' <<<"$said" | cut -d: -f1 | sort -u | sed 's/^/format: /; s/$/: run clang-format -i/'
  exit 1
else
  echo "format: clang-format $version writes some of $# files differently; the tree follows version 14"
fi
