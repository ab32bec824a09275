#!/usr/bin/env bash
# xtrain bench infer: every type at every batch in one table, each beside its own convolutions.
. tests/cli/common.sh
cd "$tree"
bench=("$xtrain" bench infer --model lprnet --steps 2 --threads 1 --quiet)

expect 0 'type       batch  images/s   pass ms  ms/image   conv ms  share  to first' "${bench[@]}" --batch 1,2
rows=$(grep -oE '^(f32|fused (f32|bf16|int8)) +[12] ' <<<"$said" | tr -s ' ' | tr '\n' ',')
wanted=
for batch in 1 2; do
  wanted+="f32 $batch ,fused f32 $batch ,$(! cpu_has bf16 || echo "fused bf16 $batch ,")fused int8 $batch ,"
done
[ "$rows" = "$wanted" ] ||
  fail 'other rows' "$said"
# How fast it was is the machine's affair; that something was timed is not.
awk '/^(f32|fused)/ { if (!($(NF - 5) > 0 && $(NF - 3) > 0)) exit 1 }' <<<"$said" || fail 'a time of nothing' "$said"

# --profile: the ops of each, in the types that they run in.
expect 0 'fused int8, batch 1' "${bench[@]}" --batch 1 --profile
sed -n '/^fused int8, batch 1$/,$p' <<<"$said" >int8
grep -qE '^backbone.0 +convolution +u8 ' int8 && grep -qE '^input +input +s8 ' int8 &&
  grep -qE '^container.0 +convolution +f32 ' int8 || fail 'int8 runs in other types' "$(cat int8)"

"${bench[@]}" --batch 2 --json 2>/dev/null >json
for key in images_per_s pass_ms conv_ms share; do
  [ "$(grep -o "\"$key\":" json | wc -l)" = "$(cpu_has bf16 && echo 4 || echo 3)" ] || fail "not one $key of each type" "$(cat json)"
done

# ResNet-50 of any size, with as many classes as wanted.
expect 0 'inference on random images of 32x32 in memory, 7 classes' \
  "$xtrain" bench infer --model resnet50 --image-size 32 --classes 7 --batch 1 --steps 1 --threads 1 --quiet

# Where int8 does little of a network, it is said.
int8=("$xtrain" bench infer --image-size 32 --classes 7 --batch 1 --steps 1 --threads 1 --amp int8 --model)
expect 0 "% of this network's multiplications are in int8, the others in f32" "${int8[@]}" mobilenet_v3_small
expect 0 'fused int8' "${int8[@]}" resnet18
! grep -q multiplications <<<"$said" || fail 'said of a network that is in int8' "$said"

expect 2 'bench infer needs --model' "$xtrain" bench infer
expect 2 'image-size' "$xtrain" bench infer --model resnet50 --image-size 20
expect 2 '--steps takes' "$xtrain" bench infer --model lprnet --steps 0

stops 75 'stopped before all passes were timed' TERM "$xtrain" bench infer --model lprnet --steps 10000 --threads 1
