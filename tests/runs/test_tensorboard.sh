#!/usr/bin/env bash
# A run's events, read by TensorBoard's own reader: the figures of metrics.jsonl, step by step, and pictures of the worst
# errors; after a kill and a stop each step is present once.
. tests/cli/common.sh
python=${XTRAIN_PYTHON:-$PWD/deps/python/bin/python}
"$python" -c 'import tensorboard' 2>/dev/null || { echo 'skipped: no TensorBoard in deps/python; run "make deps-check"'; exit 77; }
cd "$tree"
run=("$xtrain" "${small[@]}" --threads 1 --val 'synth:plates?count=10&seed=4' --log-every 2 --save-every 5)
"${run[@]}" --steps 15 --out whole --quiet >/dev/null
timeout -s KILL 1.2 "${run[@]}" --steps 15 --out resumed >/dev/null 2>&1 || true
"${run[@]}" --steps 15 --out resumed --resume auto --stop-after 0.3s >/dev/null 2>&1 || true
"${run[@]}" --steps 15 --out resumed --resume auto --quiet >/dev/null 2>&1
"$python" - whole resumed <<'READ'
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
for run in sys.argv[1:]:
    read = EventAccumulator(run, size_guidance={"scalars": 0, "images": 0})
    read.Reload()
    wanted = {}
    for line in open(run + "/metrics.jsonl"):
        line = json.loads(line)
        kind = "evaluation/" if "val_loss" in line else "training/"
        for key, value in line.items():
            if key not in ("step", "epoch", "time", "images", "correct", "chain") and value is not None:
                wanted.setdefault(kind + key, []).append((line["step"], value))
    assert "training/loss" in wanted and "evaluation/plate_accuracy" in wanted, wanted
    assert sorted(read.Tags()["scalars"]) == sorted(wanted), (read.Tags()["scalars"], sorted(wanted))
    for tag, values in wanted.items():
        found = [(event.step, event.value) for event in read.Scalars(tag)]
        assert [step for step, _ in found] == [step for step, _ in values], (run, tag, found, values)
        assert all(abs(a - b) <= 1e-6 * abs(b) for (_, a), (_, b) in zip(found, values)), (tag, found, values)
    steps = [step for step, _ in wanted["evaluation/val_loss"]]
    for number in range(1, 9):
        pictures = read.Images("errors/%d" % number)
        assert [picture.step for picture in pictures] == steps, (number, pictures)
        assert all(p.width == 94 and p.height == 24 and p.encoded_image_string[:4] == b"\x89PNG" for p in pictures)
READ
