#!/usr/bin/env bash
# The check of files finds a binary and a large file that the list does not name, and an unused line of the list.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect CODE TEXT: the check on $tree ends with this code and says this.
expect() {
  local code=0 said
  said=$(scripts/check-files.sh "$tree" 2>&1) || code=$?
  if [ "$code" != "$1" ] || ! grep -qF -- "$2" <<<"$said"; then
    printf 'expected code %s and "%s", got code %s and:\n%s\n' "$1" "$2" "$code" "$said"
    exit 1
  fi
}

mkdir -p "$tree/scripts" "$tree/build" "$tree/corpus"
echo '# nothing' >"$tree/scripts/allowed-files.txt"
expect 0 'no git checkout'
git -C "$tree" init -q
echo 'build/' >"$tree/.gitignore"
echo 'int main(void) { return 0; }' >"$tree/main.c"
printf '\0' >"$tree/build/main.o"
expect 0 '3 files are text'

printf 'a\0b' >"$tree/main of mine"
expect 1 'main of mine: it is binary'
git -C "$tree" add -f 'main of mine' build/main.o
expect 1 'build/main.o: it is binary'
git -C "$tree" rm -q --cached build/main.o
mv "$tree/main of mine" "$tree/corpus"
git -C "$tree" add -A
echo 'binary corpus/*' >"$tree/scripts/allowed-files.txt"
expect 0 '4 files are text'

# One that git would take, before it is added; the list's word for a binary file allows no large one.
head -c 1048577 /dev/zero | tr '\0' '\n' >"$tree/corpus/lines"
expect 1 'corpus/lines: it is larger than 1 MB'
echo 'large corpus/lines' >>"$tree/scripts/allowed-files.txt"
expect 0 '5 files are text'
truncate -s 1048576 "$tree/corpus/lines"
expect 1 'no large file is named corpus/lines'

echo 'huge corpus/*' >"$tree/scripts/allowed-files.txt"
expect 2 '"huge" is neither'
