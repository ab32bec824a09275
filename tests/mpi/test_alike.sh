#!/usr/bin/env bash
# Ranks that would not train the same run are refused before the first step: what differs is named, with the values and
# hosts, by rank 0, with exit code 2.
corpus=$PWD/tests/fuzz/corpus/image
. tests/mpi/common.sh
mkdir a
for i in $(seq 10 19); do cp "$corpus/ycc_444.jpg" "a/京A123${i}_x.jpg"; done
cp -r a pixels
cp -r a fewer
cp -r a renamed
cp "$corpus/$(ls "$corpus" | grep jpg | grep -v ycc_444 | head -n 1)" pixels/京A12313_x.jpg
rm fewer/京A12319_x.jpg
mv renamed/京A12315_x.jpg renamed/京A12325_x.jpg
host=$(hostname)
few=(--model lprnet --steps 1 --quiet --out r)
run=("${few[@]}" --batch 8)

# refused TEXT A... : B...: rank 0 with A, rank 1 with B.
refused() {
  local text=$1 first=()
  shift
  while [ "$1" != : ]; do first+=("$1"); shift; done
  shift
  expect 2 "$text" mpirun -n 1 "${one[@]}" "${first[@]}" : -n 1 "${other[@]:-${one[@]}}" "$@"
  ! grep -qE 'MPI_ERR|MPI_ABORT|TRUNCATE' <<<"$said" && [ ! -e r ] || fail 'a raw error of MPI, or a run was begun' "$said"
}

for change in '--seed 7:0' '--batch 10:8' '--dropout 0.4:0.5' '--lr 0.125:0.001' '--bucket 1:8' '--save-every 3:0'; do
  read -r name values <<<"$change"
  refused "xtrain: error: $name: ${values#*:} on rank 0 ($host), ${values%:*} on rank 1 ($host)" "${few[@]}" \
    "$name" "${values#*:}" : "${few[@]}" "$name" "${values%:*}"
  [ "$(grep -c 'xtrain: error: ' <<<"$said")" = 2 ] || fail 'more is said to differ than does' "$said"
done
refused '--overfit: 0 on rank 0' "${run[@]}" --data a --val synth:plates?count=8 : "${run[@]}" --data a --overfit 8
grep -q -- "--val: synth:plates?count=8 on rank 0 ($host), not set on rank 1 ($host)" <<<"$said" || fail 'not all is named' "$said"

refused "--data: 10 images, of which number 10 is 京A12319_x.jpg on rank 0 ($host), 9 images, of which number 10 is none on rank 1 ($host)" \
  "${run[@]}" --data a : "${run[@]}" --data fewer
refused '--data: 10 images, of which number 6 is 京A12315_x.jpg on rank 0' "${run[@]}" --data a : "${run[@]}" --data renamed
refused 'the image 京A12313_x.jpg of --data, the first of 1 that differ of 10 sampled: ' "${run[@]}" --data a : "${run[@]}" --data pixels
refused 'the image 京A12313_x.jpg of --val' "${run[@]}" --data a --val a : "${run[@]}" --data a --val pixels

# The same images at another place are the same; what was compared is said.
expect 0 'the names and labels of 10 images, the bytes of 10 of them, in ' mpirun -n 1 "${one[@]}" --model lprnet --batch 8 \
  --steps 1 --data a --out same : -n 1 "${one[@]}" --model lprnet --batch 8 --steps 1 --data ./a/../a
"${one[@]}" "${run[@]:0:4}" --batch 8 --data a --seed 5 --out seed5 >said 2>&1 || fail 'one process fails' "$(cat said)"
refused "the ranks begin with different weights: the first tensor that is not rank 0's is backbone.0.weight" \
  "${run[@]}" --data a --init same : "${run[@]}" --data a --init seed5
expect 2 'the image 京A12313_x.jpg of --data' mpirun -n 1 "$xtrain" eval --init same --data a : -n 1 "$xtrain" eval --init same --data pixels
expect 2 'command: train on rank 0' mpirun -n 1 "$xtrain" "${run[@]}" --data a : -n 1 "$xtrain" eval --init same --data a

# Another version of the program, made of this one.

version=$("$xtrain" --version | sed -n 's/^xtrain \([0-9.]*\).*/\1/p')
sed "s/${version//./\\.}/${version%?}x/g" "$xtrain" >xtrain-other
chmod +x xtrain-other
export XTRAIN_MPI=${xtrain%/*}/libxtrain_mpi.so
other=(./xtrain-other --threads 1 --workers 1)
refused "rank 1 on $host is xtrain ${version%?}x, rank 0 on $host is xtrain $version" "${run[@]}" --data a : "${run[@]}" --data a
[ "$(grep -c 'xtrain: error: ' <<<"$said")" = 1 ] || fail 'it was said twice' "$said"
