#!/usr/bin/env bash
# Exported models of every kind, run by onnxruntime and OpenVINO on real plates and images: the answers of predict.
. tests/cli/common.sh
python=${XTRAIN_PYTHON:-$PWD/deps/python/bin/python}
"$python" -c 'import numpy, onnx, onnxruntime, openvino, PIL' 2>/dev/null ||
  { echo 'skipped: no Python with onnx, onnxruntime and openvino; "make deps-check" brings one'; exit 77; }
shared=${XTRAIN_SHARED:-../shared}
[ -d "$shared/data/plates" ] || { echo 'skipped: no shared data'; exit 77; }
shared=$(cd "$shared" && pwd)/data here=$PWD
export XTRAIN_PYTHON=$python
cd "$tree"

# answers WEIGHTS IMAGES OPTION...: a list of path, label, answer on standard output.
answers() {
  local weights=$1 images=$2
  shift 2
  "$xtrain" predict "$weights" "$images" --threads 1 --quiet "$@" |
    awk -F '\t' '{ name = $1; sub(".*/", "", name); sub("[_.].*", "", name); print $1 "\t" name "\t" $2 }'
}

plates=$shared/plates/val
weights=$shared/weights/lprnet_sirius.pth
export_plates() { # LEAST MODEL OPTION...: its own check finds at least LEAST of 150 predictions equal
  local least=$1 same
  shift
  expect 0 "checked by onnxruntime" "$xtrain" export "$weights" --model lprnet --threads 1 --check "$plates" "$@"
  same=$(sed -n 's/.* on 150 of 150 images: \([0-9]*\) predictions are the same.*/\1/p' <<<"$said")
  [ "${same:-0}" -ge "$least" ] || fail "fewer than $least answers alike" "$said"
}
export_plates 150 f32.onnx
export_plates 150 unfused.onnx --no-fuse --with-preprocess --fixed-batch 50
export_plates 150 batch.onnx --lprnet-norm batch
grep -qF 'prediction for an image depends on the others of its batch' <<<"$said" || fail 'no warning of the batch' "$said"
export_plates 148 fp16.onnx --type fp16
int8=(--type int8 --calibrate "$shared/plates/train" --calibrate-images 64) bits=()
if ! cpu_has vnni; then
  expect 1 'this CPU has no VNNI' "$xtrain" export "$weights" int8.onnx --model lprnet --threads 1 --check "$plates" "${int8[@]}"
  bits=(--weight-bits 7)
fi
export_plates $(cpu_has vnni && echo 148 || echo 145) int8.onnx --with-preprocess "${int8[@]}" "${bits[@]}"
for runtime in onnxruntime openvino; do
  export_plates 145 $runtime.onnx "${int8[@]}" "${bits[@]}" --for $runtime
done
answers "$weights" "$plates" --model lprnet >plates.txt
"$python" "$here/tests/cli/onnx_models.py" plates.txt 97 f32.onnx unfused.onnx fp16.onnx int8.onnx || fail 'plates'

# OpenVINO's IR, by the line that a refused .xml is answered with: the same logits, the metadata too.
if [ -e "$(dirname "$python")/ovc" ]; then
  "$python" "$(dirname "$python")/ovc" f32.onnx --compress_to_fp16=False >said 2>&1 || fail 'ovc fails' "$(cat said)"
  "$python" - <<'IR' || fail 'the IR is not the model'
import numpy, openvino
images = numpy.random.default_rng(1).standard_normal((2, 3, 24, 94), numpy.float32)
onnx, ir = (openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(images)["logits"] for model in ("f32.onnx", "f32.xml"))
assert abs(onnx - ir).max() <= 1e-5 * abs(onnx).max()
assert len(openvino.Core().read_model("f32.xml").get_rt_info(["framework", "alphabet"]).astype(str)) == 68
IR
fi

# GELU and groups of channels, in a network that is not one of the program's.
separable=$here/${BUILD:-build}/tests/models/xtrain-separable
if [ -x "$separable" ]; then
  "$separable" --model separable --data 'synth:plates?count=24&seed=3' --batch 4 --steps 1 --threads 1 --out separable --quiet >said
  expect 0 'on 20 of 20 images: 20 predictions are the same' \
    "$separable" export separable separable.onnx --threads 1 --no-fuse --check 'synth:plates?count=20&seed=4'
fi

# Every kind of op, in the self-test's small network.
mkdir small
for type in f32 fp16; do
  "$here/${BUILD:-build}/tests/export_small" small "$type" || fail "the small network in $type"
  "$python" - "$type" 2>said <<'PY' || fail "the small network in $type is another one in ONNX Runtime" "$(cat said)"
import numpy, onnxruntime, sys
images = numpy.fromfile("small/images.bin", numpy.uint8).reshape(3, 13, 15, 3)
own = numpy.fromfile("small/logits.bin", numpy.float32)
logits = onnxruntime.InferenceSession("small/small.onnx").run(None, {"images": images})[0].ravel()
bound = {"f32": 1e-5, "fp16": 2e-3}[sys.argv[1]]
assert abs(logits - own).max() <= bound * abs(own).max(), abs(logits - own).max()
PY
done

# The weights of a made ResNet-50: PyTorch's names, in an order of its own.
mkdir classes
for class in "$shared"/cifar10/test/*/; do
  mkdir "classes/$(basename "$class")"
  find "$class" -type f | sort | sed -n 1,4p | while read -r file; do cp "$file" "classes/$(basename "$class")/"; done
done
"$python" - <<'PY'
import json, numpy, struct
random = numpy.random.default_rng(3)
tensors = {}
def conv(name, out, into, kernel):
    tensors[name + ".weight"] = random.normal(0, (2 / (into * kernel * kernel)) ** 0.5, (out, into, kernel, kernel))
def norm(name, count):
    tensors[name + ".weight"] = random.uniform(0.2, 0.8, count)
    tensors[name + ".bias"] = random.uniform(-0.1, 0.1, count)
    tensors[name + ".running_mean"] = random.uniform(-0.1, 0.1, count)
    tensors[name + ".running_var"] = random.uniform(0.5, 1.5, count)
conv("conv1", 64, 3, 7); norm("bn1", 64)
into = 64
for stage, blocks in enumerate((3, 4, 6, 3)):
    width = 64 << stage
    for block in range(blocks):
        at = f"layer{stage + 1}.{block}."
        conv(at + "conv1", width, into, 1); norm(at + "bn1", width)
        conv(at + "conv2", width, width, 3); norm(at + "bn2", width)
        conv(at + "conv3", 4 * width, width, 1); norm(at + "bn3", 4 * width)
        if block == 0:
            conv(at + "downsample.0", 4 * width, into, 1); norm(at + "downsample.1", 4 * width)
        into = 4 * width
tensors["fc.weight"] = random.normal(0, 0.05, (10, 2048)); tensors["fc.bias"] = numpy.zeros(10)
names = "airplane automobile bird cat deer dog frog horse ship truck".split()
header, at = {"__metadata__": {"model": "resnet50", "input_size": "32x32", "class_names": json.dumps(names)}}, 0
for name, values in tensors.items():
    header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + 4 * values.size]}
    at += 4 * values.size
text = json.dumps(header).encode()
with open("resnet.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    for values in tensors.values():
        file.write(values.astype("<f4").tobytes())
PY
# A head that tells these images apart: what all of them have in common taken off by its bias, the last tensor.
"$xtrain" export resnet.safetensors first.onnx --threads 1 --with-preprocess --quiet >said
"$python" - <<'PY'
import glob, numpy, onnxruntime
from PIL import Image
images = numpy.stack([numpy.asarray(Image.open(path).convert("RGB")) for path in sorted(glob.glob("classes/*/*"))])
logits = onnxruntime.InferenceSession("first.onnx").run(None, {"images": images})[0]
with open("resnet.safetensors", "r+b") as file:
    file.seek(-40, 2)
    file.write((-logits.mean(0)).astype("<f4").tobytes())
PY
expect 0 'on 40 of 40 images: 40 predictions are the same' \
  "$xtrain" export resnet.safetensors f32.onnx --threads 1 --check classes
"$xtrain" export resnet.safetensors int8.onnx --threads 1 --with-preprocess --type int8 --calibrate classes "${bits[@]}" --quiet >said
answers resnet.safetensors classes >classes.txt
[ "$(cut -f 3 classes.txt | sort -u | wc -l)" -gt 2 ] || fail 'the made network tells nothing apart' "$(cut -f 3 classes.txt)"
# Its classes are too similar for int8, whose logits alone are compared: with weights of 7 bits they are 0.06 of the largest
# apart, where sums overflow 0.16.
INT8_APART=$(cpu_has vnni && echo 5e-2 || echo 1e-1) "$python" "$here/tests/cli/onnx_models.py" classes.txt 0 f32.onnx int8.onnx || fail 'classes'

# Laid for a runtime: all convolutions but the last are int8 there, ResNet-50's sums too.
for runtime in onnxruntime openvino; do
  "$xtrain" export resnet.safetensors resnet_$runtime.onnx --threads 1 --type int8 --calibrate classes --for $runtime --quiet >said
done
"$python" - <<'PY' || fail 'the convolutions are not int8'
import collections, onnx, onnxruntime, openvino
options = onnxruntime.SessionOptions()
options.log_severity_level, options.optimized_model_filepath = 3, "optimised.onnx"
def kinds(path):
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return collections.Counter(node.op_type for node in onnx.load("optimised.onnx").graph.node)
lprnet, resnet = kinds("onnxruntime.onnx"), kinds("resnet_onnxruntime.onnx")
assert (lprnet["QLinearConv"], lprnet["Conv"] + lprnet["FusedConv"]) == (17, 1), lprnet
assert (resnet["QLinearConv"], resnet["QLinearAdd"], resnet["Conv"] + resnet["FusedConv"]) == (53, 16, 1), resnet
for path, count in (("openvino.onnx", 17), ("resnet_openvino.onnx", 53)):
    compiled = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    ran = [op.get_rt_info() for op in compiled.get_runtime_model().get_ordered_ops()]
    convs = [info["runtimePrecision"].astype(str) for info in ran if info["layerType"].astype(str) == "Convolution"]
    assert sum(precision in ("u8", "i8") for precision in convs) >= count, (path, convs)
PY

# Modules of these names in the current folder are somebody else's: they must not run.
mkdir planted && cd planted
for module in numpy onnxruntime sys; do echo "open('planted-module-ran', 'w')" >$module.py; done
expect 0 'checked by onnxruntime' "$xtrain" export "$tree/resnet.safetensors" f32.onnx --threads 1 --check "$tree/classes"
[ ! -e planted-module-ran ] || fail 'a module of the current folder ran'
