#!/usr/bin/env bash
# The include law: reads every #include "..." line of the program and fails on an arrow that include-law.txt does not
# allow, on NAME_internal.h from another top folder, and on a circle between files (x.c and x.h count as one). A path is
# written from the top ("base/err.h").
# Another tree may be given, for the test of this script.
set -euo pipefail
law=$(realpath "$(dirname "$0")/include-law.txt")
cd "${1:-$(dirname "$0")/..}"
arrows=$(mktemp)
trap 'rm -f "$arrows"' EXIT
bad=0

# The folders of the law that are here, and whatever else holds code but the tests.
find . -path ./tests -prune -o -path ./build -prune -o -path ./deps -prune -o -path './.*' -prune -o \
  \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cpp' \) -print | sort | sed 's|^\./||' |
  grep -v '^scripts/' | xargs -r awk -v law="$law" -v arrows="$arrows" '
  # The innermost folder of the law that holds this path; "" where none does.
  function room(path) {
    while (sub(/\/[^\/]*$/, "", path))
      if (path in known) return path
    return ""
  }
  function may(from, path,   folder) {
    for (folder = path; sub(/\/[^\/]*$/, "", folder);)
      if ((from, folder) in allowed) return 1
    return 0
  }
  function top(path) { sub(/\/.*/, "", path); return path }
  function stem(path) { sub(/\.[a-z]*$/, "", path); return path }
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
    printf "" >arrows
  }
  FNR == 1 {
    files++
    from = room(FILENAME)
    if (from == "") {
      print "includes: " FILENAME ": no folder of scripts/include-law.txt holds it"
      bad++
    }
  }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    path = $0
    sub(/^[^"]*"/, "", path)
    sub(/".*$/, "", path)
    if (room(path) == "") {
      print "includes: " FILENAME ":" FNR ": write \"" path "\" from the top, as \"base/err.h\" is"
      bad++
    } else if (from != "" && !may(from, path)) {
      print "includes: " FILENAME ":" FNR ": " from "/ may not include " room(path) "/ (\"" path "\")"
      bad++
    }
    if (path ~ /_internal\.h$/ && top(FILENAME) != top(path)) {
      print "includes: " FILENAME ":" FNR ": \"" path "\" is for " top(path) "/ alone"
      bad++
    }
    if (stem(FILENAME) != stem(path)) print stem(FILENAME), stem(path) >arrows
  }
  END {
    if (!bad) print "includes: " files + 0 " files keep the include law"
    exit bad > 0
  }' || bad=1

# tsort names the members of each circle that it meets, on standard error.
circles=$(tsort "$arrows" 2>&1 >/dev/null | sed 's/^tsort: //; s/.*contains a loop:$/includes: a circle of includes:/') || true
[ -z "$circles" ] || { printf '%s\n' "$circles"; bad=1; }
exit "$bad"
