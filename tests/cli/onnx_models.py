"""Exported models on real images, by ONNX's checker, ONNX Runtime and OpenVINO.

onnx_models.py LABELS LEAST MODEL.onnx...: LABELS is a list "path<tab>label<tab>answer" of images of the models' size, with
what xtrain's predict answers. The first model's answers are those; of the others at least LEAST of 100 are. OpenVINO's
logits are onnxruntime's, in int8 within $INT8_APART of the largest, and every model says what it takes.
"""
import json
import os
import sys

import numpy
import onnx
import onnxruntime
import openvino
from PIL import Image


def text_of(meta, logits):
    if meta["decoding"] == "softmax":
        return json.loads(meta["class_names"])[logits.argmax()]
    best = logits.argmax(1)
    blank = int(meta["blank"])
    return "".join(meta["alphabet"][s] for s, last in zip(best, [-1, *best]) if s not in (last, blank))


def prepared(meta, paths):
    grey = meta["pixel_order"] == "GREY"
    images = numpy.stack([numpy.asarray(Image.open(path).convert("L" if grey else "RGB")) for path in paths])
    images = images[..., None] if grey else images
    width, height = map(int, meta["input_size"].split("x"))
    assert images.shape[1:3] == (height, width), images.shape
    images = images[..., ::-1] if meta["pixel_order"] == "BGR" else images
    if meta["input"].startswith("bytes"):
        return "images", numpy.ascontiguousarray(images)
    mean, scale = (numpy.array(meta[key].split(","), numpy.float32) for key in ("mean", "scale"))
    return "input", numpy.ascontiguousarray(((images - mean) * scale).transpose(0, 3, 1, 2))


def onnxruntime_logits(model, name, batch, step):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return numpy.concatenate([session.run(["logits"], {name: batch[i:i + step]})[0] for i in range(0, len(batch), step)])


def openvino_logits(model, name, batch, step):
    compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return numpy.concatenate([compiled({name: batch[i:i + step]})["logits"].copy() for i in range(0, len(batch), step)])


def check(model, rows, least):
    proto = onnx.load(model)
    onnx.checker.check_model(proto, full_check=True)
    assert (proto.ir_version, proto.opset_import[0].version) == (7, 13)
    meta = {p.key: p.value for p in proto.metadata_props}
    name, batch = prepared(meta, [row[0] for row in rows])
    step = len(rows) if meta["batch"] == "any" else int(meta["batch"])
    ours = onnxruntime_logits(model, name, batch, step)
    if meta["batch"] == "any" and meta.get("lprnet_norm") != "batch":
        one = onnxruntime_logits(model, name, batch[:3], 1)
        assert numpy.allclose(one, ours[:3], rtol=0, atol=1e-4 * abs(ours).max()), "an answer depends on its neighbours"
    theirs = openvino_logits(model, name, batch, step)
    apart = abs(ours - theirs).max() / abs(ours).max()
    for runtime, logits in (("onnxruntime", ours), ("openvino", theirs)):
        answers = [text_of(meta, each) for each in logits]
        same = sum(answer == row[2] for answer, row in zip(answers, rows))
        right = sum(answer == row[1] for answer, row in zip(answers, rows))
        ours_right = sum(row[1] == row[2] for row in rows)
        print(f"{model} {meta['type']} {runtime}: {same} of {len(rows)} answers are predict's, {right} are right")
        assert 100 * same >= least * len(rows), "other answers than predict's"
        assert abs(right - ours_right) <= 0.01 * len(rows), "another accuracy"
    # int8 sums in one runtime are float sums in the other, and a step's rounding goes either way.
    bound = {"f32": 1e-5, "fp16": 1e-2, "int8": float(os.environ.get("INT8_APART", 5e-2))}[meta["type"]]
    assert apart <= bound, f"onnxruntime and openvino differ by {apart} of the largest logit"


def main():
    rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8")]
    for i, model in enumerate(sys.argv[3:]):
        check(model, rows, 100 if i == 0 else float(sys.argv[2]))


main()
