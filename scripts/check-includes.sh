#!/usr/bin/env bash
# The include law: reads every #include "..." line under src/ and fails on an arrow that include-law.txt does not allow.
# A path is written from src/ ("base/err.h"). Another source folder may be given, for the test of this script.
set -euo pipefail
law=$(realpath "$(dirname "$0")/include-law.txt")
src=${1:-$(dirname "$0")/../src}
cd "$src"
find . -name '*.[ch]' -o -name '*.inc' | sort | sed 's|^\./||' | xargs -r awk -v law="$law" '
  BEGIN {
    while ((got = (getline line < law)) > 0) {
      if (line ~ /^#/ || line !~ /:/) continue
      split(line, side, ":")
      known[side[1]] = 1
      allowed[side[1], side[1]] = 1
      n = split(side[2], names, " ")
      for (i = 1; i <= n; i++) allowed[side[1], names[i]] = 1
    }
    if (got < 0) { print "includes: " law " cannot be read"; bad++ }
  }
  FNR == 1 {
    files++
    split(FILENAME, part, "/")
    from = part[1]
    if (!(from in known)) {
      print "includes: src/" FILENAME ": the folder " from "/ is not in scripts/include-law.txt"
      bad++
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    path = $0
    sub(/^[^"]*"/, "", path)
    sub(/".*$/, "", path)
    split(path, part, "/")
    to = part[1]
    if (path !~ /\// || !(to in known)) {
      print "includes: src/" FILENAME ":" FNR ": write \"" path "\" from src/, as \"base/err.h\" is"
      bad++
    } else if (!((from, to) in allowed)) {
      print "includes: src/" FILENAME ":" FNR ": " from "/ may not include " to "/ (\"" path "\")"
      bad++
    }
  }
  END {
    if (!bad) print "includes: " files + 0 " files keep the include law"
    exit bad > 0
  }' || exit 1
