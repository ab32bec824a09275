#!/usr/bin/env bash
# int8 after training: what eval and predict say and refuse, and types compared in one table.
. tests/cli/common.sh
cd "$tree"
"$xtrain" --model lprnet --data 'synth:plates?count=64&seed=3' --batch 8 --steps 2 --threads 1 --out run --quiet
weights=weights.safetensors
cp run/last.safetensors "$weights" # alone: a run's own are calibrated on what it was trained on
some='synth:plates?count=30&seed=5'
others='synth:plates?count=40&seed=6'
in_batches=("$xtrain" eval --init "$weights" --data "$some" --threads 1 --quiet --batch)
eval=("${in_batches[@]}" 4)

# Where the ranges came from is said.
expect 0 "int8: ranges from 30 of the 30 images of $some, the images evaluated on; --calibrate uses others" \
  "${eval[@]}" --amp int8
line() { grep -qxF -- "$1" <<<"$said" || fail "no line \"$1\"" "$said"; }
expect 0 '' "${eval[@]}" --amp int8 --calibrate "$others" --calibrate-images 16
line "int8: ranges from 16 of the 40 images of $others"
expect 0 '' "$xtrain" eval --config run/config.yaml --val "$some" --init "$weights" --amp int8 --quiet
line 'int8: ranges from 64 of the 64 images of synth:plates?count=64&seed=3'

# One table; rows in the requested order, the change relative to the first.
expect 0 'type    images    right plate_accuracy  char_accuracy  to first  ms/image      p50      p95      p99  ms/batch  images/s' \
  "${eval[@]}" --compare f32,int8
grep -qE '^f32 +30 +[0-9]+ +[0-9.]+ % +[0-9.]+ % +[0-9.]+ ' <<<"$said" || fail 'no row of f32' "$said"
grep -qE '^int8 +30 +[0-9]+ +[0-9.]+ % +[0-9.]+ % +[+-][0-9.]+ +[0-9.]+ ' <<<"$said" || fail 'no row of int8' "$said"
[ "$(grep -nE '^(f32|int8) ' <<<"$said" | cut -d: -f2 | cut -d' ' -f1 | tr '\n' ' ')" = 'f32 int8 ' ] || fail 'the order' "$said"

# Fewer than seven batches: no latency, and said once.
expect 0 'latency: not measured (needs at least 7 batches)' "${in_batches[@]}" 16 --compare f32,int8

# Several devices are for one process, and nothing of one device alone.
expect 2 '--errors is for one device' "${eval[@]}" --device cpu,xpu --errors e.csv
expect 2 '--show is for one device' "${eval[@]}" --device cpu,xpu --show 3
# The keys of --json.
expect 0 '"runs":[{"type":"f32","images":30,' "${eval[@]}" --compare f32,int8 --json --calibrate "$others"
grep -qF "\"calibration\":{\"source\":\"$others\",\"images\":40}" <<<"$said" || fail 'no calibration' "$said"
for key in correct accuracy char_accuracy latency_ms images_per_s; do
  [ "$(grep -o "\"$key\":" <<<"$said" | wc -l)" = 2 ] || fail "not two $key" "$said"
done

# predict: two ways to come to the same images give the same answers.
mkdir photos
python3 - <<'PNG' || exit 77
import struct, zlib
def png(path, seed):
    row = lambda y: b"\0" + bytes((x * seed + y * 7) % 256 for x in range(94 * 3))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    data = zlib.compress(b"".join(row(y) for y in range(24)))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 94, 24, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", data) + chunk(b"IEND", b""))
for i in range(3):
    png(f"photos/{i}.png", 3 + 2 * i)
PNG
predict=("$xtrain" predict "$weights" --amp int8 --calibrate photos --threads 1)
expect 0 'int8: ranges from 3 of the 3 images of photos' "${predict[@]}" photos
"${predict[@]}" photos --quiet | sed -n 1p >all
"${predict[@]}" photos/0.png --quiet >one
diff all one || fail 'an answer depends on the images read with it'

# Ranges that were exported once: the same answers, and the same file again. The file alone is enough.
expect 0 'int8.safetensors: lprnet for int8, 1.8 MB of weights with the ranges' \
  "$xtrain" export "$weights" int8.safetensors --calibrate photos --threads 1
line '  int8: ranges from 3 of the 3 images of photos'
stored=("$xtrain" predict int8.safetensors --amp int8 --threads 1 --quiet)
"${predict[@]}" photos --json --quiet | grep -o '"predictions":.*"images"' >measured
"${stored[@]}" photos --json | grep -o '"predictions":.*"images"' | diff measured - || fail 'exported ranges give other answers'
"$xtrain" export int8.safetensors again.safetensors --threads 1 --quiet && cmp int8.safetensors again.safetensors ||
  fail 'ranges change when they are exported again'
"$xtrain" export int8.safetensors model.onnx --amp int8 --threads 1 --quiet || fail 'ONNX without the images'
expect 0 '' "$xtrain" eval --init int8.safetensors --data "$some" --threads 1 --quiet --compare f32,int8
[[ $said != *'int8: ranges from'* ]] || fail 'ranges are measured though the weights have them' "$said"
expect 0 "int8: ranges from 40 of the 40 images of $others" \
  "$xtrain" eval --init int8.safetensors --data "$some" --threads 1 --quiet --amp int8 --calibrate "$others"
# Ranges that do not fit: changed, of unknown weights, of another network.
python3 - <<'CHANGE' || exit 77
import json
data = open('int8.safetensors', 'rb').read()
size = int.from_bytes(data[:8], 'little')
def write(name, change):
    header = json.loads(data[8:8 + size])
    change(header['__metadata__'])
    text = json.dumps(header).encode()
    open(name, 'wb').write(len(text).to_bytes(8, 'little') + text + data[8 + size:])
write('changed.safetensors', lambda meta: meta.update(int8_ranges=meta['int8_ranges'].replace('1', '2', 1)))
write('unknown.safetensors', lambda meta: [meta.pop(key) for key in list(meta) if key.startswith('xtrain_sha256')])
CHANGE
expect 3 'it is damaged' "$xtrain" predict changed.safetensors --amp int8 photos
expect 3 'unknown.safetensors: its ranges for int8 do not fit (xtrain export measures them again): the hashes are gone' \
  "$xtrain" predict unknown.safetensors --amp int8 photos
expect 2 '--check is for a model that ends in .onnx' "$xtrain" export int8.safetensors b.safetensors --check photos
expect 2 '--for is for a model that ends in .onnx' "$xtrain" export int8.safetensors b.safetensors --for openvino
expect 2 '--amp fp16 is chosen where they are used' "$xtrain" export int8.safetensors b.safetensors --amp fp16
expect 2 'int8.safetensors would be overwritten' "$xtrain" export int8.safetensors int8.safetensors

# What cannot be.
expect 2 'give --calibrate DIR with images like those to be predicted' "$xtrain" predict "$weights" --amp int8 photos
expect 2 'int8 needs the batch norms folded into the convolutions; leave --no-fuse out' \
  "${eval[@]}" --amp int8 --no-fuse
[ "$(wc -l <<<"$said")" = 1 ] || fail 'more than one sentence' "$said"
expect 2 'leave --no-fuse out' "${predict[@]}" photos --no-fuse
expect 2 'leave --no-fuse out' "${eval[@]}" --compare f32,int8 --no-fuse
expect 2 '--amp int8 is for trained networks' "$xtrain" "${small[@]}" --amp int8 --out never
[ ! -e never ] || fail 'a refused run left a folder'
expect 2 '--compare names the types; omit --amp' "${eval[@]}" --amp bf16 --compare f32,int8
expect 2 '--compare takes f32, bf16, fp16 or int8, not "int16"; did you mean int8?' "${eval[@]}" --compare f32,int16
expect 2 'there is no option "--compare"; use --amp' "$xtrain" predict "$weights" photos --compare f32
expect 3 '--calibrate: cannot open the data nowhere' "${eval[@]}" --amp int8 --calibrate nowhere

# fp16: on CPUs that have it.
"$xtrain" devices >devices
if grep -q 'infers in.*fp16' devices; then
  expect 0 'fp16 ' "${eval[@]}" --compare f32,fp16
  expect 2 '--amp fp16 runs fused on the CPU' "${eval[@]}" --amp fp16 --no-fuse
fi
expect 2 '--amp fp16' "$xtrain" "${small[@]}" --amp fp16 --out never
[ ! -e never ] || fail 'a refused run left a folder'

mkdir empty
expect 3 '--calibrate: ' "${eval[@]}" --amp int8 --calibrate empty
expect 2 '--calibrate-images takes' "${eval[@]}" --amp int8 --calibrate-images 0
