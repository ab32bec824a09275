#!/usr/bin/env bash
# Ranks train a network from an ONNX file, and resume with the checkpoint's network where that file is gone.
zoo=$(cd "${XTRAIN_SHARED:-../shared}/zoo" 2>/dev/null && pwd) || { echo 'skipped: no shared data'; exit 77; }
. tests/mpi/common.sh
cp "$zoo/plates.onnx" net.onnx
run=(--model net.onnx --data 'synth:plates?count=32&seed=3' --batch 8 --sched constant --log-every 2 --quiet)

"${two[@]}" "${run[@]}" --steps 6 --out whole >said 2>&1 || fail 'two ranks failed' "$(cat said)"
"${two[@]}" "${run[@]}" --steps 4 --out parts >said 2>&1 || fail 'two ranks failed' "$(cat said)"
mv net.onnx gone.onnx
expect 0 'resuming from parts/state-' "${two[@]}" --resume parts --steps 6
[ "$(losses whole)" = "$(losses parts)" ] && same_weights whole/last.safetensors parts/last.safetensors ||
  fail 'the resumed run is another' "$(losses whole)" "$(losses parts)"

# Each rank reads the file: where one has none, that rank, its host and the file are said.
mkdir here
mv gone.onnx here/net.onnx
mkdir there
expect 3 'rank 1 on' mpirun -n 2 bash -c '[ $OMPI_COMM_WORLD_RANK = 0 ] && cd here || cd there; exec "$@"' - "${one[@]}" \
  "${run[@]}" --steps 1 --out other
grep -q 'net.onnx: cannot open' <<<"$said" || fail 'the file is not named' "$said"
