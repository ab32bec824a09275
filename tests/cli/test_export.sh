#!/usr/bin/env bash
# xtrain export without another program: what it says, what it refuses, what it leaves behind; and what --check says where
# nothing can check.
. tests/cli/common.sh
cd "$tree"
"$xtrain" "${small[@]}" --steps 1 --threads 1 --out run --quiet
cp run/last.safetensors weights.safetensors
export=("$xtrain" export weights.safetensors --threads 1)

expect 0 'model.onnx: lprnet in f32, ' "$xtrain" export run model.onnx --threads 1
line() { grep -qxF -- "$1" <<<"$said" || fail "no line \"$1\"" "$said"; }
line '  in:  input, float32 [batch, 3, 24, 94], BGR, (byte - 127.5) * 0.0078125'
line '  out: logits, float32 [batch, 18, 68]'
line 'not checked: --check DIR compares it with this program on images'
expect 0 '  in:  images, bytes [4, 24, 94, 3], BGR' "${export[@]}" bytes.onnx --with-preprocess --fixed-batch 4
expect 0 '"bytes":' "${export[@]}" bytes.onnx --type fp16 --json
grep -q "^{\"schema\":{\"name\":\"export\",\"version\":2},\"path\":\"bytes.onnx\",\"model\":\"lprnet\",\"type\":\"fp16\"" <<<"$said" || fail "no JSON" "$said"
[ "$(stat -c %s bytes.onnx)" -lt $(($(stat -c %s model.onnx) * 6 / 10)) ] || fail 'fp16 is not half as large'

# Nothing here that could check.
images='synth:plates?count=3&seed=5'
printf '#!/bin/sh\necho "No module named onnxruntime" >&2\nexit 3\n' >without
printf '#!/bin/sh\necho "Graph is damaged" >&2\nexit 1\n' >refuses
printf '#!/bin/sh\necho onnxruntime 0\n' >silent
chmod +x without refuses silent
expect 0 'not checked: ./nowhere, which would run onnxruntime, is not available' \
  env XTRAIN_PYTHON=./nowhere "${export[@]}" model.onnx --check "$images"
expect 0 'not checked: ./without lacks a module (No module named onnxruntime); pip install onnxruntime installs it' \
  env XTRAIN_PYTHON=./without "${export[@]}" model.onnx --check "$images"
expect 1 'onnxruntime does not run the exported model: Graph is damaged' \
  env XTRAIN_PYTHON=./refuses "${export[@]}" model.onnx --check "$images"
expect 1 'returned a different number of logits' env XTRAIN_PYTHON=./silent "${export[@]}" model.onnx --check "$images"

# What cannot be; nothing is written.
rm model.onnx bytes.onnx
expect 2 'ovc model.onnx --compress_to_fp16=False (pip install openvino)' "${export[@]}" model.xml
expect 2 'model.pt: the model'\''s file must end in .onnx, or in .safetensors' "${export[@]}" model.pt
expect 2 'needs WEIGHTS MODEL.onnx|INT8.safetensors' "${export[@]}"
expect 2 'no more: other.onnx' "${export[@]}" model.onnx other.onnx
expect 2 'give --calibrate DIR' "${export[@]}" model.onnx --type int8
expect 2 'with --amp fp16 leave it out' "${export[@]}" model.onnx --type fp16 --calibrate "$images"
expect 2 'with --amp f32 leave it out' "${export[@]}" model.onnx --for openvino
expect 2 '--weight-bits is of int8'\''s weights; with --amp f32 leave it out' "${export[@]}" model.onnx --weight-bits 7
expect 2 '--weight-bits is for a model that ends in .onnx' "${export[@]}" int8.safetensors --calibrate "$images" --weight-bits 7
expect 2 '--weight-bits takes' "${export[@]}" model.onnx --type int8 --calibrate "$images" --weight-bits 6
expect 2 'needs more ranges than weights hold: give --calibrate' "${export[@]}" model.onnx --type int8 --for openvino
expect 2 'leave --no-fuse out' "${export[@]}" model.onnx --type fp16 --no-fuse
expect 2 '--amp takes f32, fp16 or int8' "${export[@]}" model.onnx --type bf16
expect 1 'there is no folder nowhere' "${export[@]}" nowhere/model.onnx
mkdir folder.onnx
expect 2 'folder.onnx is a folder' "${export[@]}" folder.onnx
expect 3 'is a checkpoint, which --resume continues from' "$xtrain" export run/state-*.safetensors model.onnx
expect 3 'cannot open' "$xtrain" export nowhere.safetensors model.onnx
expect 3 'neither best.safetensors nor last.safetensors' "$xtrain" export folder.onnx model.onnx
expect 3 '--check: cannot open the data nowhere' "${export[@]}" model.onnx --check nowhere
(ulimit -f 1000; trap '' XFSZ; expect 1 'model.onnx' "${export[@]}" model.onnx)
[ -z "$(find . -maxdepth 1 -type f -name '*.onnx*')" ] || fail 'a refused export left a file' "$(ls -A)"
