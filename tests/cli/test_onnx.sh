#!/usr/bin/env bash
# A network from an ONNX file, through the program: it trains, resumes, predicts from its weights alone, and is exported.
. tests/cli/common.sh
zoo=${XTRAIN_SHARED:-../shared}/zoo
[ -d "$zoo" ] || { echo 'skipped: no shared data'; exit 77; }
zoo=$(cd "$zoo" && pwd)
parts=$PWD/tests/models/fixtures/parts/parts.onnx
weights=$PWD/tests/models/fixtures/parts/weights
picture=$PWD/tests/fuzz/corpus/image/ycc_444.jpg
cd "$tree"
cp "$zoo/resnet18.onnx" net.onnx
data=(--data 'synth:shapes?count=32&seed=1' --val 'synth:shapes?count=16&seed=2' --threads 1)

expect 2 'takes lprnet' "$xtrain" --model nett --steps 1
expect 3 'nowhere.onnx' "$xtrain" --model nowhere.onnx --steps 1
head -c 1000 net.onnx >cut.onnx
expect 3 'it is no ONNX model' "$xtrain" --model cut.onnx --steps 1
expect 2 'random-init' "$xtrain" --model net.onnx --random-init --init net.onnx --steps 1

# The weights begin as the file's, or random ones if requested.
expect 0 'top1' "$xtrain" eval --init net.onnx "${data[@]:0:2}" --threads 1
expect 0 'step 4/4' "$xtrain" --model net.onnx "${data[@]}" --batch 8 --steps 4 --out run
expect 0 'step 1/1' "$xtrain" --model net.onnx "${data[@]}" --batch 8 --steps 1 --random-init

# Trained weights stand beside the file's, and can begin another run of its network by name.
expect 0 'of 102 tensors of A' "$xtrain" diff net.onnx run/last.safetensors --threads 1
expect 0 'step 1/1' "$xtrain" --model net.onnx --init run/last.safetensors "${data[@]:0:2}" --threads 1 --batch 8 --steps 1

# A killed run resumes without the ONNX file, and predictions need only the weights.
mv net.onnx away.onnx
expect 0 'step 6/6' "$xtrain" --resume run --steps 6
expect 0 'top1' "$xtrain" eval --init run/last.safetensors "${data[@]:0:2}" --threads 1
expect 0 'out: logits, float32 [batch, 10]' "$xtrain" export run/last.safetensors out.onnx

# What is saved is torchvision's state_dict, as load_state_dict(strict=True) wants it: names, shapes and types (ResNet-18
# of a quarter of the channels).
if command -v python3 >/dev/null; then
  python3 - run/last.safetensors <<'STRICT' || fail 'the saved tensors are not those of torchvision'
import json, struct, sys
def norm(name, c):
    numbers = {name + end: ("F32", [c]) for end in (".weight", ".bias", ".running_mean", ".running_var")}
    return {**numbers, name + ".num_batches_tracked": ("I64", [])}
want = {"conv1.weight": ("F32", [16, 3, 7, 7]), **norm("bn1", 16), "fc.weight": ("F32", [10, 128]), "fc.bias": ("F32", [10])}
before = 16
for layer, c in enumerate((16, 32, 64, 128), 1):
    for block in "01":
        at = f"layer{layer}.{block}."
        first = before if block == "0" else c
        want[at + "conv1.weight"], want[at + "conv2.weight"] = ("F32", [c, first, 3, 3]), ("F32", [c, c, 3, 3])
        want.update(norm(at + "bn1", c), **norm(at + "bn2", c))
        if first != c:
            want[at + "downsample.0.weight"] = ("F32", [c, first, 1, 1])
            want.update(norm(at + "downsample.1", c))
    before = c
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
header.pop("__metadata__")
have = {name: (tensor["dtype"], tensor["shape"]) for name, tensor in header.items()}
for name in sorted(want.keys() | have.keys()):
    if want.get(name) != have.get(name):
        sys.exit(f"{name}: {have.get(name)}, where torchvision has {want.get(name)}")
STRICT
fi

# Its weights alone are a service.
"$xtrain" serve run/last.safetensors --threads 1 --listen unix:here.sock 2>said &
service=$!
for ((i = 0; i < 100; i++)); do [ -S here.sock ] && break; sleep 0.05; done
if command -v curl >/dev/null; then
  curl -s --unix-socket here.sock --data-binary "@$picture" http://localhost/predict >answer || fail 'no answer' "$(cat said)"
  grep -q '"prediction"' answer || fail 'the service gives no class' "$(cat answer said)"
fi
kill $service
wait $service || fail 'the service did not end well' "$(cat said)"

# Images that are no squares: the file's own size is taken.
cp "$parts" sides.onnx
expect 0 'within their bounds' "$xtrain" selftest --model sides.onnx --threads 1 --batch 2
expect 0 'step 2/2' "$xtrain" --model sides.onnx --data 'synth:shapes?count=16&seed=1' --batch 8 --steps 2 --threads 1 --out sides
expect 0 'float32 [batch, 3, 14, 22]' "$xtrain" export sides/last.safetensors sides.out.onnx --threads 1

# Weights that are computed from other parameters: those are what is trained, saved under PyTorch's names, resumed bit for
# bit and exported; they run beside int8.
cp $weights.onnx weights.onnx
expect 0 'within their bounds' "$xtrain" selftest --model weights.onnx --threads 1 --batch 2
run=(--model weights.onnx "${data[@]:0:2}" --val 'synth:shapes?count=8&seed=2' --batch 8 --threads 1 --steps 6
  --save-every 2 --ema 0.9 --quiet)
"$xtrain" "${run[@]}" --out computed >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"
"$xtrain" "${run[@]}" --recompute --out computed.again >said 2>&1 || fail '--recompute failed' "$(cat said)"
same_run computed computed.again 'with --recompute'
kill_until_done computed.killed "${run[@]}"
same_run computed computed.killed "killed $kills times"
expect 0 'step 1/1' "$xtrain" --model weights.onnx --data 'synth:shapes?count=16&seed=1' --batch 8 --steps 1 --threads 1 \
  --random-init --freeze-until whole
expect 0 'int8' "$xtrain" eval --init computed/last.safetensors --data 'synth:shapes?count=16&seed=2' --threads 1 \
  --compare f32,int8 --calibrate 'synth:shapes?count=8&seed=1'
expect 0 'float32 [batch, 3, 14, 22]' "$xtrain" export computed/last.safetensors weights.out.onnx --threads 1
expect 2 'does not end in one convolution or linear layer, or the mean of some, that others could replace' "$xtrain" --model weights.onnx --classes 12 "${data[@]:0:2}" --batch 8 --steps 1
if command -v python3 >/dev/null; then
  python3 - $weights.safetensors computed/last.safetensors <<'NAMES' || fail 'other parameters are saved than PyTorch has'
import json, struct, sys
def names(path):
    with open(path, "rb") as file:
        return json.loads(file.read(struct.unpack("<Q", file.read(8))[0])).keys() - {"__metadata__"}
want = {name.removeprefix("grad_norm.") for name in names(sys.argv[1]) if name.startswith("grad_norm.")}
have = {name for name in names(sys.argv[2]) if not name.startswith("norm.") or name in want}
sys.exit(", ".join(sorted(want ^ have)) or 0)
NAMES
fi

# Other classes than the file's get a new last layer.
expect 0 'its last layer fc has 10 classes' "$xtrain" --model away.onnx --classes 12 "${data[@]:0:2}" --threads 1 \
  --batch 8 --steps 1
cp "${weights%/*}/distilled.onnx" .
expect 0 'its last layers head and head_dist have 10 classes' "$xtrain" --model distilled.onnx --classes 12 "${data[@]:0:2}" \
  --threads 1 --batch 8 --steps 1 --out distilled
expect 0 'circle' "$xtrain" eval distilled --data 'synth:shapes?count=16&seed=2' --threads 1

# Grey images, whose channels lie last: its own normalisation, and an export that says what it reads.
cp "${weights%/*}/grey.onnx" .
expect 2 'which take one number of each, such as half' "$xtrain" --model grey.onnx --normalize imagenet --steps 1
expect 0 'passes of ops checked, all within' "$xtrain" selftest --model grey.onnx --threads 1
expect 0 'normalised by half (assumed)' "$xtrain" --model grey.onnx "${data[@]:0:2}" --threads 1 --batch 8 --steps 2 --out grey
for i in 1 2; do "$xtrain" selftest --step grey/last.safetensors --device cpu --amp f32 --batch 8 --threads 1 >step-$i || fail 'a step of grey images'; done
cmp step-1 step-2 || fail 'a step of grey images is not of the same pixels each time'
expect 0 'in:  input, float32 [batch, 1, 14, 22], GREY, (byte - 127.5)' "$xtrain" export grey/last.safetensors exported.onnx
expect 0 'top1' "$xtrain" eval exported.onnx "${data[@]:0:2}" --threads 1
expect 0 'in:  images, bytes [batch, 14, 22, 1], GREY' "$xtrain" export grey/last.safetensors bytes.onnx --with-preprocess

# Networks of Keras and Paddle: other classes, an export that is read again, bytes where the network normalises them.
fixtures=${weights%/*}
for name in keras keras_torch paddle; do
  cp "$fixtures/$name.onnx" .
  expect 0 'has 10 classes, the data has 12' "$xtrain" --model $name.onnx --classes 12 "${data[@]:0:2}" --threads 1 \
    --batch 8 --steps 2 --out $name
  expect 0 'passes of ops checked, all within' "$xtrain" selftest --model $name.onnx --threads 1
  expect 0 'out: logits, float32 [batch, 12]' "$xtrain" export $name/last.safetensors again.onnx
  for file in $name again.onnx; do
    "$xtrain" eval $file --data 'synth:shapes?count=200&seed=2' --threads 1 --json 2>/dev/null |
      grep -o '"correct":[0-9]*,\|"top5":[0-9.]*' || fail "$file cannot be evaluated"
  done >answers
  [ "$(sed -n 1,2p answers)" = "$(sed -n 3,4p answers)" ] || fail "$name.onnx answers otherwise once exported" "$(cat answers)"
done
expect 0 'normalised by bytes (assumed)' "$xtrain" --model keras.onnx "${data[@]:0:2}" --threads 1 --batch 8 --steps 1
expect 0 'its batch norms are part of its convolutions' "$xtrain" --model keras.onnx --dry-run

# A weight that PyTorch's newer exporter computed would be trained in place of what it is computed of.
cp "$fixtures"/{weights,classes}_exported.onnx .
expect 3 'such as classes: export with dynamo=False' "$xtrain" --model classes_exported.onnx --dry-run
expect 3 'such as 0.weight: export with dynamo=False' "$xtrain" --model weights_exported.onnx --dry-run

# Dropout as PyTorch's newer exporter spells it out: of samples and of elements.
cp "$fixtures/dropped.onnx" .
expect 0 'stochastic depth' "$xtrain" --model dropped.onnx --dry-run
expect 0 'dropout 12' "$xtrain" --model dropped.onnx --dry-run
expect 0 'step 2/2' "$xtrain" --model dropped.onnx "${data[@]:0:2}" --threads 1 --batch 8 --steps 2

# Every way to train that a network by name has; a run that is killed writes bit for bit what an undisturbed one does.
cp "$zoo/plates.onnx" plates.onnx
run=(--model plates.onnx --data 'synth:plates?count=32&seed=3' --val 'synth:plates?count=8&seed=4' --batch 8 --threads 1
  --steps 12 --save-every 3 --accumulate 2 --ema 0.9 --quiet)
"$xtrain" "${run[@]}" --out whole >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"
"$xtrain" "${run[@]}" --recompute --out recomputed >said 2>&1 || fail '--recompute failed' "$(cat said)"
same_run whole recomputed 'with --recompute'
kill_until_done killed "${run[@]}"
same_run whole killed "killed $kills times"
