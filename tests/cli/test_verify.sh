#!/usr/bin/env bash
# The record of a run (files, versions, device), and xtrain verify, which checks it.
. tests/cli/common.sh
cd "$tree"
threads=$(nproc)
train=("${small[@]}" --threads "$threads" --quiet --eval-every 2 --val 'synth:plates?count=4&seed=5' --ema 0.9)
"$xtrain" "${train[@]}" --steps 2 --out run >/dev/null
expect 0 'all is as recorded: ' "$xtrain" verify run
for file in last best ema; do
  hash=$(sha256sum run/$file.safetensors | cut -d' ' -f1)
  grep -qF "\"$file.safetensors\":{\"sha256\":\"$hash\"," run/proof.json || fail "the record of $file" "$(cat run/proof.json)"
done
grep -aq '"made_on":"[^"]' run/last.safetensors && grep -aq '"made_with":"oneDNN [0-9]' run/last.safetensors ||
  fail 'what the weights say of themselves'
grep -q "\"ranks\":1,.*\"threads\":\"$threads\"" run/proof.json || fail 'ranks and threads are not recorded' "$(cat run/proof.json)"
expect 0 '"as_recorded":true' "$xtrain" verify run --json

# Resuming: an equal start is counted, another is listed, and the record stays valid.
"$xtrain" --resume run --steps 4 --quiet >/dev/null
grep -q '"count":2' run/proof.json || fail 'a second start' "$(cat run/proof.json)"
expect 0 'all is as recorded: ' "$xtrain" verify run
"$xtrain" --resume run --steps 6 --threads 1 --oversubscribe --quiet >/dev/null 2>&1
[ "$threads" = 1 ] || expect 0 'after starts with other versions' "$xtrain" verify run

# What is not as it was.
cp -r run bad && printf x >>bad/last.safetensors && rm bad/best.safetensors
state=$(ls bad | grep '^state-' | tail -n 1)
printf XXXXXXXX | dd of="bad/$state" bs=1 seek=100000 conv=notrunc status=none
expect 1 'error: not as recorded: 3 files of bad' "$xtrain" verify bad
for line in 'last.safetensors +changed' 'best.safetensors +missing' "$state +damaged" 'ema.safetensors +as recorded'; do
  grep -Eq "^$line *$" <<<"$said" || fail "not said: $line" "$said"
done
expect 1 '"file":"last.safetensors","state":"changed"' "$xtrain" verify bad --json

# attack TEXT COMMAND: verify sees what the command does to a copy of the run.
attack() {
  rm -rf hit && cp -r run hit
  (cd hit && bash -c "$2")
  expect 1 "$1" "$xtrain" verify hit
}
# seal: hit/proof.json gets the hash of what it is now, as somebody who knows the program would.
seal() { python3 - hit/proof.json <<'EOF'
import hashlib, re, sys
text = re.sub(r',"seal":"[0-9a-f]*"', '', open(sys.argv[1]).read())
open(sys.argv[1], "w").write(text[:-1] + ',"seal":"%s"}' % hashlib.sha256(text.encode()).hexdigest())
EOF
}
attack 'line 2 does not follow' "sed -i '2s/\"time\":/\"time\":1/' metrics.jsonl"
attack 'line 2 does not follow' "sed -i 2d metrics.jsonl"
attack 'line 1 does not follow' "sed -i '1s/,\"chain\":\"[^\"]*\"//' metrics.jsonl"
attack 'its last lines are missing' "sed -i '\$d' metrics.jsonl"
attack 'SHA-256 ' "sed -i 's/^batch: 4/batch: 8/' config.yaml"
attack 'it is not what the run wrote' "sed -i 's/\"onednn\":\"[^\"]*\"/\"onednn\":\"1.2.3\"/' proof.json"
attack 'its own hash (seal) was removed' "sed -i 's/,\"seal\":\"[^\"]*\"//' proof.json"
attack 'it lacks the chain of the run' "sed -i 's/,\"chain\":{.*/}/' proof.json"
attack 'tensor ' "printf XXXXXXXX | dd of=best.safetensors bs=1 seek=500000 conv=notrunc status=none"
if command -v python3 >/dev/null; then
  rm -rf hit && cp -r run hit && sed -i 's/"files":{.*},"chain":/"files":{},"chain":/' hit/proof.json && seal
  expect 1 'proof.json does not list it' "$xtrain" verify hit
  "$xtrain" "${train[@]}" --steps 2 --out other >/dev/null
  rm -rf hit && cp -r run hit && cp other/last.safetensors hit/
  hash=$(sha256sum hit/last.safetensors | cut -d' ' -f1)
  sed -i "s/\(\"last.safetensors\":{\"sha256\":\)\"[^\"]*\"/\1\"$hash\"/" hit/proof.json && seal
  expect 1 'it is of another run: other' "$xtrain" verify hit
fi
attack 'not recorded' "cp state-0*6.safetensors state-00000005.safetensors"

# A checkpoint of another run is not continued as this one, but may be in a folder of its own.
"$xtrain" "${train[@]}" --steps 3 --out third >/dev/null
rm -rf hit && cp -r run hit && cp third/state-00000003.safetensors hit/state-00000009.safetensors
expect 3 'hit/state-00000009.safetensors is a checkpoint of another run: run third, step 3' "$xtrain" --resume hit --steps 10 --quiet
expect 0 '' "$xtrain" --resume hit/state-00000009.safetensors --steps 4 --out fourth --quiet

# Any command refuses a flipped bit, by the tensor; resuming a run that was edited does not make it valid.
cp run/last.safetensors flipped.safetensors
printf XXXXXXXX | dd of=flipped.safetensors bs=1 seek=500000 conv=notrunc status=none
expect 3 'flipped.safetensors: it is damaged: tensor ' "$xtrain" eval --init flipped.safetensors --data 'synth:plates?count=4'
cp run/last.safetensors flipped.safetensors && sed -i 's/"mean":"1/"mean":"2/' flipped.safetensors
expect 3 'its metadata or the names of its tensors' "$xtrain" eval --init flipped.safetensors --data 'synth:plates?count=4'
cp -r run cut && sed -i '$d' cut/metrics.jsonl && sed -i 's/"step":6/"step":7/' cut/proof.json
expect 0 'lines of metrics.jsonl are missing; the run continues, and xtrain verify will say so' "$xtrain" --resume cut --steps 8 --threads "$threads"
grep -qF 'proof.json is not what was written' <<<"$said" || fail 'the edited record is not seen' "$said"
expect 1 'found by the start of' "$xtrain" verify cut

# Recorded steps trained again have the same bits; with other threads losses are near. A record that names others is seen.
"$xtrain" "${train[@]}" --steps 6 --save-every 2 --log-every 1 --out again >/dev/null
expect 0 'replay of steps 5 to 6, compared bit by bit' "$xtrain" verify again --replay 2
grep -qF '3 lines of the record, weights and optimizer state are the same' <<<"$said" || fail 'what was compared' "$said"
expect 0 '"replay":{"from":4,"to":5,"lines":1,"same_weights":false,"by":"bits","same":true}' "$xtrain" verify again --replay 1 --json
other=$(cpu_has bf16 && echo AVX2 || echo SSE41)
expect 0 'compared within a tenth' env ONEDNN_MAX_CPU_ISA="$other" "$xtrain" verify again --replay 2
grep -qF '3 lines of the record agree; weights are compared by bits alone' <<<"$said" || fail 'the tolerance is not said' "$said"
sed -i 's/^lr: .*/lr: 0.0001/' again/config.yaml
expect 1 'steps trained again are not as recorded' "$xtrain" verify again --replay 2
expect 3 'no checkpoint before its last one' "$xtrain" verify other --replay 2

# Which run answers.
expect 0 'weights of run run, step 6, record ' "$xtrain" eval --init run/last.safetensors --data 'synth:plates?count=4'
expect 0 '"origin":{"run":"run","step":6,"record":"' "$xtrain" eval --init run/last.safetensors --data 'synth:plates?count=4' --json

# Signed, by whom.
if command -v ssh-keygen >/dev/null; then
  ssh-keygen -q -t ed25519 -N '' -f mine && ssh-keygen -q -t ed25519 -N '' -f theirs
  expect 0 '' "$xtrain" "${train[@]}" --steps 2 --sign mine --out signed
  expect 0 'by the owner of --key' "$xtrain" verify signed --key mine.pub
  expect 1 'the signature of signed/proof.json does not hold' "$xtrain" verify signed --key theirs.pub
  expect 1 'is not signed' "$xtrain" verify run --key mine.pub
  expect 1 'not a public key' "$xtrain" verify signed --key mine
  sed -i 's/"ranks":1/"ranks":2/' signed/proof.json
  expect 1 'the signature of signed/proof.json does not hold' "$xtrain" verify signed --key mine.pub
  expect 0 '' "$xtrain" --resume signed --steps 4 --quiet
  [ ! -e signed/proof.json.sig ] || fail 'a signature of an earlier record stays'
fi

# Killed at any moment, resumed, and lines replaced: the chain continues.
"$xtrain" "${train[@]}" --steps 40 --log-every 1 --save-every 4 --out killed >/dev/null 2>&1 &
until grep -qs '"step":10,' killed/metrics.jsonl; do sleep 0.05; done
kill -KILL $! && wait $! 2>/dev/null || true
printf '{"step":' >>killed/metrics.jsonl
expect 0 'killed while it wrote the last line' "$xtrain" verify killed
for steps in 14 16; do
  "$xtrain" --resume killed --steps $steps --stop-after 0 --quiet >/dev/null 2>&1
  expect 0 'proven: ' "$xtrain" verify killed
done
first=$(ls killed | grep '^state-' | head -n 1)
"$xtrain" --resume "killed/$first" --steps 16 --quiet >/dev/null 2>&1
expect 0 'proven: ' "$xtrain" verify killed

# A run of a version before chains, whose weights know of none, and one that somebody has made look like that.
cp -r run old && sed -i 's/,"chain":"[^"]*"//' old/metrics.jsonl && sed -i 's/,"chain":{.*/}/; s/"config.yaml":{[^}]*},//' old/proof.json
expect 1 'its run had a chain, which proof.json lacks' "$xtrain" verify old
rm old/*.safetensors && sed -i 's/"files":{.*/"files":{}}/' old/proof.json
expect 0 'recorded before chains' "$xtrain" verify old
expect 0 '"proven":false' "$xtrain" verify old --json

# Unusable records; a run continues nevertheless.
cp -r run odd && echo '{' >odd/proof.json
expect 3 'odd/proof.json is damaged' "$xtrain" verify odd
expect 0 'a new record is begun' "$xtrain" --resume odd --steps 8 --quiet
expect 1 'proof.json of the lines so far is missing' "$xtrain" verify odd
rm odd/proof.json
expect 3 'odd has no proof.json' "$xtrain" verify odd
sed 's/"last.safetensors"/"..\/x"/' run/proof.json >odd/proof.json
expect 3 'names a file outside the folder' "$xtrain" verify odd
expect 3 'holds no run' "$xtrain" verify .
expect 2 'verify needs RUN' "$xtrain" verify
