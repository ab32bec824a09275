#!/usr/bin/env bash
# Follows each relative link of the Markdown pages in a folder; exits with 1, and names them, if any leads nowhere.
#
#   check-links.sh FOLDER
set -euo pipefail
cd "$1"
count=0 dead=0
while IFS= read -r page; do
  while IFS= read -r link; do
    count=$((count + 1))
    [ -e "$(dirname "$page")/$link" ] || { echo "links: $page: $link is not there"; dead=1; }
  done < <(awk '/^```/ { inside = !inside; next } !inside' "$page" | grep -oE '\]\([^)#[:space:]]+' | sed 's/^](//' | grep -vE '^[a-z]+:' || true)
done < <(find -L . -name '*.md')
[ $count -gt 0 ] || { echo "links: no page in $1 has any"; exit 1; }
[ $dead = 0 ] && echo "links: $count lead somewhere" || exit 1
