#!/usr/bin/env bash
# --json: every command prints one object, however it ends, that is as `xtrain schema COMMAND` says.
check=$PWD/tests/cli/check_json.py page=$PWD/docs/json.md
. tests/cli/common.sh
cd "$tree"
command -v python3 >/dev/null || { echo 'skipped: python3 is not here'; exit 77; }
seen=' ' kept=0
export XTRAIN_CACHE_DIR=$tree/cache

# json CODE COMMAND...: one object on one line, which remains in `out` and is checked at the end; `as NAME CODE
# COMMAND...` where the schema has another name. keep NAME CODE FILE: an output to check.
keep() {
  seen+="$1 "
  mkdir -p objects && cp "$3" "objects/$((++kept)).$1.$2"
}
as() {
  local name=$1 want=$2 code=0
  shift 2
  "$xtrain" "$@" --json </dev/null >out 2>err || code=$?
  [ "$code" = "$want" ] && [ "$(wc -l <out)" = 1 ] || fail "expected one object and exit code $want, got $code from: $*" "$(cat out err)"
  ! grep -q 'this JSON is not as' err || fail "from: $*" "$(cat err)"
  keep "$name" "$want" out
}
json() { as "$2" "$@"; }
has() {
  for text; do grep -qF -- "$text" out || fail "the object has no $text" "$(cat out)"; done
}

images='synth:plates?count=6&seed=4'
run=(--threads 1 --steps 2 --val "$images")
json 0 train "${small[@]}" "${run[@]}" --out a
has '"schema":{"name":"train","version":2}' '"run":"a"' '"accuracy":' '"seconds":' '"next":"' '"best_weights":"a/best.safetensors"'
"$xtrain" "${small[@]}" "${run[@]}" --seed 2 --ema 0.9 --jsonl --out b >lines 2>err
keep train 0 lines && grep -q '"name":"progress"' lines && grep -q '"name":"evaluation"' lines || fail '--jsonl' "$(cat lines)"
json 0 try "$images" --model lprnet --max-time 0.1s --threads 1 --out tried
has '"stages":[{"name":"images","detail":"6 ' '"suspects":[]' '"wanted":[]' '"next":"xtrain help try"'
json 0 sweep --model lprnet --out sweeps lr=1e-4,1e-3
json 0 eval a --data "$images" --show 2 --errors errors.jsonl
has '"predictions":[{"path":"synth:plates #0","label":"' '"prediction":"' '"confidence":' '"accuracy":' '"seconds":'
json 0 eval a --data "$images" --amp f32,f32

# predict: all images in the object, or each on a line of its own; seconds last until the last answer.
"$xtrain" data pack "$images" shard >/dev/null 2>&1
mkdir photos && tar -xf shard-000000.tar -C photos && rm photos/*.txt && : >photos/bad.jpg
json 3 predict a photos --threads 1
has '"images":7,"answered":6,"unreadable":1' '"error":"1 of 7 files could not be read"'
[ "$(grep -o '"prediction":' out | wc -l)" = 6 ] || fail 'not six predictions' "$(cat out)"
python3 -c 'import json, sys; sys.exit(not json.load(open("out"))["seconds"] > 0.002)' || fail 'the seconds end before the answers' "$(cat out)"
"$xtrain" predict a photos --threads 1 --jsonl >lines 2>err && fail 'a bad image is no failure'
[ "$(grep -c '"name":"image","version":2},"path":"photos/' lines)" = 6 ] && keep predict 3 lines || fail '--jsonl' "$(cat lines)"
ls photos/*[0-9].* | "$xtrain" serve a --stdin paths --jsonl >lines 2>err && keep serve 0 lines || fail 'serve' "$(cat lines err)"

json 0 report a b --out page.html
json 0 compare a b
json 0 verify a
json 0 export a a.onnx --threads 1
json 0 diff a/best.safetensors b/best.safetensors
json 0 diff a b --data "$images" --threads 1
json 0 models
json 0 devices
as bench-step 0 bench step --model lprnet --batch 2,3 --steps 1 --profile --why --threads 1
as bench-infer 0 bench infer --model lprnet --batch 1 --steps 1 --profile --threads 1
as bench-loader 0 bench loader --model lprnet --data "$images" --batch 2
as bench-start 0 bench start --model lprnet --batch 1 --threads 1
as bench-scale 2 bench scale --model lprnet --batch 1 --steps 0
json 4 warmup --model lprnet --batch 1 --xpu
as data-check 0 data check "$images" --model lprnet --val "$images"
rm photos/bad.jpg
as data-split 0 data split photos --model lprnet --out parts --val-part 0.5
as data-pack 0 data pack "$images" again
XTRAIN_DATA_URL=http://127.0.0.1:1 as data-get 1 data get cifar10 again
ZE_ENABLE_NULL_DRIVER=0 "$xtrain" doctor --json >one.json 2>/dev/null || true
keep doctor "$(sed 's/.*"exit_code":\([0-9]*\)}$/\1/' one.json)" one.json
sed 's/"linux":"[^"]*"/"linux":"other"/; s/"host":"[^"]*"/"host":"other"/' one.json >two.json
json 1 doctor --merge one.json two.json
has '"what":"linux"'
json 0 selftest --small --amp off --threads 1
for verb in info list verify "prune --max-size 500"; do json 0 cache $verb; done
json 0 help
has '"text":"xtrain trains image networks'
json 0 version
json 0 man eval
json 0 schema predict
has '"json_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema"'
json 2 schema data
has 'xtrain data needs a subcommand; `xtrain data --help` lists them'
json 0 completion bash
json 0 train --model lprnet --print-config
json 0 train --model lprnet --dry-run --threads 1

# A mistake anywhere is a result too, and names what to do.
json 2 train --lr x
has '"error":"--lr takes a number' '"next":"xtrain help train"'
as xtrain 2 nonsense
json 3 eval nowhere.safetensors
json 4 train --model lprnet --xpu

# Interrupted: still one object, with the command that goes on; a second signal ends it with one as well.
long=("${small[@]}" --threads 1 --steps 100000 --log-every 1)
"$xtrain" "${long[@]}" --out c --json >out 2>err &
child=$!
until [ -s c/metrics.jsonl ]; do sleep 0.05; done
kill -INT $child && wait $child && fail 'it was not interrupted'
keep train 130 out && has '"error":"interrupted at step' '"next":"' ' --resume c"' || fail 'SIGINT' "$(cat out err)"

# Each command is above, and what it prints is as its schema and docs/json.md say.
for name in $("$xtrain" man | sed -nE 's/^\.B xtrain ((bench|data) [a-z]+|[a-z]+).*/\1/p' | tr ' ' -); do
  [[ $seen == *" $name "* ]] || fail "no test looks at the JSON of $name"
done
python3 "$check" "$xtrain" "$page" objects/* || fail 'not as the schema says'
echo 'every command prints one object as its schema says'
