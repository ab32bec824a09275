#!/usr/bin/env bash
# A network from an ONNX file, through the program: it trains, resumes, predicts from its weights alone, and is exported.
. tests/cli/common.sh
zoo=${XTRAIN_SHARED:-../shared}/zoo
[ -d "$zoo" ] || { echo 'skipped: no shared data'; exit 77; }
zoo=$(cd "$zoo" && pwd)
cd "$tree"
cp "$zoo/resnet18.onnx" net.onnx
data=(--data 'synth:shapes?count=32&seed=1' --val 'synth:shapes?count=16&seed=2' --threads 1)

expect 2 'takes lprnet' "$xtrain" --model nett --steps 1
expect 3 'nowhere.onnx' "$xtrain" --model nowhere.onnx --steps 1
head -c 1000 net.onnx >cut.onnx
expect 3 'it is no ONNX model' "$xtrain" --model cut.onnx --steps 1
expect 2 'random-init' "$xtrain" --model net.onnx --random-init --init net.onnx --steps 1

# The weights begin as the file's, and others where that is asked for.
expect 0 'top1' "$xtrain" eval --init net.onnx "${data[@]:0:2}" --threads 1
expect 0 'step 4/4' "$xtrain" --model net.onnx "${data[@]}" --batch 8 --steps 4 --out run
expect 0 'step 1/1' "$xtrain" --model net.onnx "${data[@]}" --batch 8 --steps 1 --random-init

# Trained weights stand beside the file's, and can begin another run of its network by name.
expect 0 'of 102 tensors of A' "$xtrain" diff net.onnx run/last.safetensors --threads 1
expect 0 'step 1/1' "$xtrain" --model net.onnx --init run/last.safetensors "${data[@]:0:2}" --threads 1 --batch 8 --steps 1

# A killed run goes on where the ONNX file is gone, and answers need the weights alone.
mv net.onnx away.onnx
expect 0 'step 6/6' "$xtrain" --resume run --steps 6
expect 0 'top1' "$xtrain" eval --init run/last.safetensors "${data[@]:0:2}" --threads 1
expect 0 'out: logits, float32 [batch, 10]' "$xtrain" export run/last.safetensors out.onnx

# Other classes than the file's get a new last layer.
expect 0 'its last layer fc has 10 classes' "$xtrain" --model away.onnx --classes 12 "${data[@]:0:2}" --threads 1 \
  --batch 8 --steps 1

# Every way to train that a network by name has; a run that is killed writes bit for bit what an undisturbed one does.
cp "$zoo/plates.onnx" plates.onnx
run=(--model plates.onnx --data 'synth:plates?count=32&seed=3' --val 'synth:plates?count=8&seed=4' --batch 8 --threads 1
  --steps 12 --save-every 3 --accumulate 2 --ema 0.9 --quiet)
"$xtrain" "${run[@]}" --out whole >said 2>&1 || fail 'the undisturbed run failed' "$(cat said)"
"$xtrain" "${run[@]}" --recompute --out recomputed >said 2>&1 || fail '--recompute failed' "$(cat said)"
same_run whole recomputed 'with --recompute'
kill_until_done killed "${run[@]}"
same_run whole killed "killed $kills times"
