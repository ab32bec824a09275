#!/usr/bin/env bash
# Makes dist/xtrain-VERSION-py3-none-manylinux_A_B_ARCH.whl: the module xtrain (python/xtrain), with the program, libxtrain,
# oneDNN and what these load inside (scripts/stage.sh). A_B is the version of glibc that they need.
#
#   wheel.sh PROGRAM VERSION [OUT]
#
# What a process has one of, and manylinux takes for given, stays the machine's: libstdc++, libgcc and zlib. The result is
# proved before it is kept: the module is imported from it and its library says its version.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$2 out=${3:-dist}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

glibc=$(XPU=0 scripts/stage.sh "$1" "$work/xtrain" 'libstdc[+][+]|libgcc_s|libz')
install -m 644 python/xtrain/*.py python/xtrain/py.typed "$work/xtrain/"
find "$work/xtrain" -type l -delete
rm "$work/xtrain/share/xtrain/installed"
said=$(cd "$work" && env -i PYTHONDONTWRITEBYTECODE=1 "$(command -v python3)" -c 'import xtrain; print(xtrain.version())')
[ "$said" = "$version" ] || {
  echo "wheel: the module is of version $version and its library says: $said" >&2
  exit 1
}

# Manual pages and completions go where a virtual environment, or ~/.local, has them.
mkdir -p "$work/xtrain-$version.data/data/share" "$work/xtrain-$version.dist-info" "$out"
for folder in man bash-completion zsh fish; do
  mv "$work/xtrain/share/$folder" "$work/xtrain-$version.data/data/share/"
done
install -m 644 LICENSE "$work/xtrain-$version.dist-info/LICENSE"
python3 scripts/wheel.py "$work" "$version" "manylinux_${glibc/./_}_$(uname -m)" "$out"
