#!/usr/bin/env bash
# docs/architecture.md and its picture name files and folders: each of them exists, and each room is in both.
. tests/cli/common.sh
page=docs/architecture.md picture=docs/images/rooms.svg
rooms=$(sed -n 's/^\([a-z]*\):.*/\1/p' scripts/include-law.txt)

missing=$(grep -oE '`[a-z_]+/[A-Za-z0-9_./-]*`' "$page" | tr -d '`' | sort -u | while read -r path; do [ -e "$path" ] || echo "$path"; done)
[ -z "$missing" ] || fail "$page names what is not there" "$missing"
[ "$(grep -oE '`[a-z_]+/[A-Za-z0-9_./-]*`' "$page" | wc -l)" -gt 30 ] || fail 'hardly any file was checked'

# A chip of the picture has a path below its room; the room's name comes before it.
chips=$(grep -oE '>[a-z_]+/<|>[A-Za-z0-9_/]+\.[ch][^<]*<' "$picture" | tr -d '><' |
  awk '/\/$/ { room = $0; next } { gsub(",", ""); for (i = 1; i <= NF; i++) print room $i }')
missing=$(for path in $chips; do [ -e "$path" ] || echo "$path"; done)
[ -z "$missing" ] || fail "$picture names what is not there" "$missing"
[ "$(wc -l <<<"$chips")" -gt 15 ] || fail 'hardly any chip was checked' "$chips"
for room in $rooms; do
  grep -q "^| \`$room\` |" "$page" || fail "$page has no row for $room/"
  grep -q ">$room/<" "$picture" || fail "$picture has no room $room/"
done
