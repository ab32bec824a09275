#!/usr/bin/env bash
# Makes dist/xtrain-VERSION-linux-ARCH.tar.gz: program, libraries, configs and licences in one folder (scripts/stage.sh).
#
#   bundle.sh PROGRAM VERSION
#
# The result is proved before it is kept: unpacked in an empty folder and run there with an empty environment.
set -euo pipefail
cd "$(dirname "$0")/.."
name=xtrain-$2-linux-$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

glibc=$(scripts/stage.sh "$1" "$work/$name")
install -m 644 README.md LICENSE "$work/$name/"
# What README.md links to.
ln -s share/doc/xtrain/docs "$work/$name/docs"
mkdir -p dist "$work/proof"
tar -C "$work" --owner=0 --group=0 --sort=name -czf "dist/$name.tar.gz.part" "$name"
tar -C "$work/proof" -xzf "dist/$name.tar.gz.part"
rm -r "${work:?}/$name"
moved=$work/proof/$name
said=$(cd / && env -i "$moved/bin/xtrain" --version) || {
  echo "bundle: the unpacked program does not run: $said" >&2
  exit 1
}
links=$(scripts/check-links.sh "$moved") || {
  echo "bundle: $links" >&2
  exit 1
}
mv "dist/$name.tar.gz.part" "dist/$name.tar.gz"
echo "dist/$name.tar.gz: $(du -h "dist/$name.tar.gz" | cut -f1), for any Linux with glibc $glibc or later. Unpacked, it says:"
sed 's/^/  /; s|'"$moved"'|.|g' <<<"$said"
