#!/usr/bin/env bash
# Writes onnx.pb-c.c and onnx.pb-c.h, the C of the ONNX schema, by protobuf-c.
#
#   onnx-code.sh FOLDER     into this folder
#   onnx-code.sh --look     only looks whether schema and compiler are here
set -euo pipefail

# Packages call it by one of two names; with or without the operators of "ML" it says the same of what is used here.
schema=
for file in /usr/include/onnx/onnx.proto /usr/include/onnx/onnx-ml.proto /usr/local/include/onnx/onnx{,-ml}.proto; do
  [ -n "$schema" ] || [ ! -f "$file" ] || schema=$file
done
[ -n "$schema" ] || { echo 'onnx-code: the schema of ONNX (onnx/onnx.proto) is not here: run "make deps"' >&2; exit 1; }
command -v protoc-c >/dev/null || { echo 'onnx-code: protoc-c is not here: run "make deps"' >&2; exit 1; }
[ "${1:-}" != --look ] || exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$schema" "$work/onnx.proto"
protoc-c --proto_path="$work" --c_out="$work" "$work/onnx.proto" 2>"$work/said" || { cat "$work/said" >&2; exit 1; }
mkdir -p "$1"
mv "$work/onnx.pb-c.c" "$1/"
mv "$work/onnx.pb-c.h" "$1/"
