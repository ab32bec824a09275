#!/usr/bin/env bash
# Makes each small mistake of tests/mutants.txt in a copy of the tree, builds the test that should see it, and runs that:
# a mistake which no test sees survives. Ends with "N passed, N failed, 0 skipped"; exit code 1 where one survived.
#
#   scripts/mutate.sh [--list FILE] [TEXT]      those alone whose file or test holds TEXT
#
# Builds in BUILD (build), as it is copied: what is built there need not be built again.
set -euo pipefail
cd "$(dirname "$0")/.."
list=tests/mutants.txt
[ "${1:-}" != --list ] || { list=$2; shift 2; }
only=${1:-}
build=${BUILD:-build}
limit=${TEST_TIMEOUT:-60}
shared=$(realpath -m "${XTRAIN_SHARED:-../shared}")
case $build in /*) echo 'mutate: BUILD has to be a folder of the tree'; exit 2 ;; esac

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
# The times of files come along, so that make sees what is built.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | xargs -0 cp -a --parents -t "$tree"
ln -s "$PWD/deps" "$tree/deps"
mkdir -p "$tree/$build"
for part in obj gen flags deps-found libxtrain.a; do [ ! -e "$build/$part" ] || cp -a "$build/$part" "$tree/$build/"; done
export XTRAIN_DNNL=${XTRAIN_DNNL:-$PWD/deps/dnnl/lib/libdnnl.so.3} XTRAIN_SHARED=$shared
cd "$tree"

# What make gives this script is for the tree, not for the copy.
unset MAKEFLAGS MFLAGS MAKELEVEL
make_test() { make --no-print-directory BUILD="$build" "$build/tests/$1" >"$tree.log" 2>&1; }
run_test() { timeout --kill-after=5 "$limit" "$build/tests/$1" </dev/null >"$tree.log" 2>&1; }
fail() { printf 'mutate: %s\n' "$@"; exit 2; }
trap 'rm -rf "$tree" "$tree.log"' EXIT

files=() tests=() befores=() afters=()
while IFS= read -r line; do
  case $line in
    '@ '*) read -r _ file test <<<"$line"; files+=("$file") tests+=("$test") ;;
    '- '*) befores+=("${line#- }") ;;
    '+ '*) afters+=("${line#+ }") ;;
    '' | '#'*) ;;
    *) fail "$list: \"$line\" begins with none of @ - + #" ;;
  esac
done <"$list"
[ "${#files[@]}" -gt 0 ] && [ "${#files[@]}" = "${#befores[@]}" ] && [ "${#files[@]}" = "${#afters[@]}" ] ||
  fail "$list: ${#files[@]} files, ${#befores[@]} lines before, ${#afters[@]} after"

# A test that fails without a mutation would find everything.
for test in $(printf '%s\n' "${tests[@]}" | sort -u); do
  case "$test ${files[*]}" in *"$only"*) ;; *) continue ;; esac
  make_test "$test" || fail "tests/$test cannot be built" "$(tail -n 20 "$tree.log")"
  run_test "$test" || fail "tests/$test fails as the tree is" "$(tail -n 20 "$tree.log")"
done

found=0 missed=0
miss() { # WHY INDEX
  printf '%s: %s, %s\n  - %s\n  + %s\n' "$1" "${files[$2]}" "${tests[$2]}" "${befores[$2]}" "${afters[$2]}"
  missed=$((missed + 1))
}
mutate() { # INDEX
  local file=${files[$1]} test=${tests[$1]} before=${befores[$1]} after=${afters[$1]} lines object
  lines=$(want=$before awk '{ sub(/^[ \t]+/, "") } $0 == ENVIRON["want"] { print NR }' "$file")
  [[ $lines =~ ^[0-9]+$ ]] || { miss "stands there $(wc -w <<<"$lines") times, not once" "$1"; return; }
  cp -p "$file" "$file.as-it-is"
  for object in "$build/obj/${file%.c}".*o; do cp -p "$object" "$object.as-it-is"; done
  with=$after awk -v at="$lines" 'NR == at { match($0, /^[ \t]*/); $0 = substr($0, 1, RLENGTH) ENVIRON["with"] } { print }' \
    "$file.as-it-is" >"$file"
  if ! make_test "$test"; then
    miss 'cannot be built' "$1"
    grep -m 3 'error:' "$tree.log" || tail -n 3 "$tree.log"
  elif run_test "$test"; then
    miss 'survives' "$1"
  else
    found=$((found + 1))
  fi
  # As it was, and newer than what it is made of.
  mv "$file.as-it-is" "$file"
  for object in "$build/obj/${file%.c}".*o; do mv "$object.as-it-is" "$object" && touch "$object"; done
}
for i in "${!files[@]}"; do
  case "${files[$i]} ${tests[$i]}" in *"$only"*) mutate "$i" ;; esac
done
echo "mutants: $found found, $missed not"
echo "$found passed, $missed failed, 0 skipped"
[ "$missed" = 0 ]
