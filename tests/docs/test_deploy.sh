#!/usr/bin/env bash
# The Python of docs/deploy.md that runs exported models: each of its programs reads real plates as predict does.
. tests/cli/common.sh
python=${XTRAIN_PYTHON:-$PWD/deps/python/bin/python}
"$python" -c 'import numpy, onnxruntime, openvino, PIL' 2>/dev/null ||
  { echo 'skipped: no Python with onnxruntime and openvino; "make deps-check" brings one'; exit 77; }
shared=${XTRAIN_SHARED:-../shared}
[ -d "$shared/data/plates" ] || { echo 'skipped: no shared data'; exit 77; }
shared=$(cd "$shared" && pwd)/data page=$PWD/docs/deploy.md
cd "$tree"

# Each block says in its first line what its file is called.
awk '/^```python/ { getline; if (/^# [a-z_]+[.]py: python /) { name = $2; sub(":", "", name); inside = 1 } }
     /^```/ { inside = 0 } inside { print >name }' "$page"
for file in *.py; do grep -q 'import.*\(onnxruntime\|openvino\)' "$file" || rm "$file"; done
[ "$(ls ./*.py | paste -sd ' ')" = './answers.py ./read_plate.py ./read_plates_openvino.py' ] || fail 'other programs than those tried here' "$(ls)"

weights=$shared/weights/lprnet_sirius.pth
"$xtrain" export "$weights" plates.onnx --model lprnet --threads 1 --quiet >said
"$xtrain" export "$weights" bytes.onnx --model lprnet --threads 1 --quiet --with-preprocess >said
find "$shared/plates/val/" -name '*.jpg' | sort | sed -n 1,40p >list
mapfile -t images <list
"$xtrain" predict "$weights" - --model lprnet --threads 1 --quiet <list | cut -f 1,2 >want
"$python" answers.py plates.onnx "${images[@]}" >got && diff want got || fail 'answers.py'
"$python" answers.py bytes.onnx "${images[@]}" >got && diff want got || fail 'answers.py with the preparation inside'
"$python" read_plates_openvino.py bytes.onnx "${images[@]}" >got && diff want got || fail 'read_plates_openvino.py'
[ "$("$python" read_plate.py bytes.onnx "${images[0]}")" = "$(head -n 1 want | cut -f 2)" ] || fail 'read_plate.py'
