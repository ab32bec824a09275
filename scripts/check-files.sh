#!/usr/bin/env bash
# Fails on a binary file, and on one above 1 MB, that scripts/allowed-files.txt does not name; and on a pattern of that
# list that names nothing. The files are those that git holds or would take with "git add". A file is binary where its
# first 8000 bytes hold a zero byte, as git has it. Another tree may be given, for the test of this script.
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"
list=scripts/allowed-files.txt
git rev-parse --git-dir >/dev/null 2>&1 || { echo 'files: this is no git checkout, so nothing was checked'; exit 0; }

allows=() patterns=()
while read -r allow pattern; do
  case $allow in
    '' | '#'*) ;;
    binary | large) allows+=("$allow") patterns+=("$pattern") ;;
    *) echo "files: $list: \"$allow\" is neither \"binary\" nor \"large\""; exit 2 ;;
  esac
done <"$list"

declare -A used=()
is_allowed() { # binary|large, FILE
  local i
  for i in "${!patterns[@]}"; do
    [ "${allows[i]}" = "$1" ] && [[ $2 == ${patterns[i]} ]] && used[$i]=1 && return
  done
  return 1
}

bad=0
refuse() { echo "files: $1: $2; take it out of git, or name it in $list: $3"; bad=1; }
declare -A zeros=()
files=()
while IFS= read -r -d '' file; do [ ! -f "$file" ] || files+=("$file"); done < \
  <(git ls-files -z --cached --others --exclude-standard)
[ "${#files[@]}" -gt 0 ] || { echo 'files: git holds none here, so nothing was checked'; exit 2; }
while IFS= read -r -d '' file; do
  [ "$(head -c 8000 "$file" | tr -d '\0' | wc -c)" = "$(head -c 8000 "$file" | wc -c)" ] || zeros[$file]=1
done < <(printf '%s\0' "${files[@]}" | xargs -0 grep -lZaP '\x00')

for file in "${files[@]}"; do
  [ -z "${zeros[$file]:-}" ] || is_allowed binary "$file" || refuse "$file" 'it is binary' "binary $file"
done
while IFS= read -r -d '' file; do
  is_allowed large "$file" || refuse "$file" 'it is larger than 1 MB' "large $file"
done < <(printf '%s\0' "${files[@]}" | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +1048576c -print0' sh)

for i in "${!patterns[@]}"; do
  [ -n "${used[$i]:-}" ] || { echo "files: $list: no ${allows[i]} file is named ${patterns[i]}: remove the line"; bad=1; }
done
[ "$bad" != 0 ] || echo "files: ${#files[@]} files are text of at most 1 MB, or named in $list"
exit "$bad"
