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

# Going on: a start that is alike is counted, another is listed, and what was recorded stays right.
"$xtrain" --resume run --steps 4 --quiet >/dev/null
grep -q '"count":2' run/proof.json || fail 'a second start' "$(cat run/proof.json)"
expect 0 'all is as recorded: ' "$xtrain" verify run
sed -i 's/"onednn":"[^"]*"/"onednn":"1.2.3"/' run/proof.json
expect 0 'versions or device have changed since' "$xtrain" verify run
grep -Eq '^onednn +1\.2\.3 .* changed$' <<<"$said" || fail 'which has changed' "$said"
"$xtrain" --resume run --steps 6 --quiet >/dev/null
expect 0 'after starts with other versions' "$xtrain" verify run

# What is not as it was.
cp -r run bad && printf x >>bad/last.safetensors && rm bad/best.safetensors
state=$(ls bad | grep '^state-' | tail -n 1)
printf X | dd of="bad/$state" bs=1 seek=100000 conv=notrunc status=none
expect 1 'error: not as recorded: 3 files of bad' "$xtrain" verify bad
for line in 'last.safetensors +changed' 'best.safetensors +missing' "$state +damaged" 'ema.safetensors +as recorded'; do
  grep -Eq "^$line *$" <<<"$said" || fail "not said: $line" "$said"
done
expect 1 '"file":"last.safetensors","state":"changed"' "$xtrain" verify bad --json
cp -r run cut && sed -i 's/"last.safetensors":{[^}]*}/"last.safetensors":{}/' cut/proof.json
expect 0 'the run was killed while it wrote this file' "$xtrain" verify cut

# Records that cannot be used; a run goes on all the same.
cp -r run odd && echo '{' >odd/proof.json
expect 3 'odd/proof.json is damaged' "$xtrain" verify odd
expect 0 'a new record is begun' "$xtrain" --resume odd --steps 8 --quiet
expect 0 'as recorded' "$xtrain" verify odd
rm odd/proof.json
expect 3 'odd has no proof.json' "$xtrain" verify odd
sed 's/"last.safetensors"/"..\/x"/' run/proof.json >odd/proof.json
expect 3 'names a file outside the folder' "$xtrain" verify odd
expect 3 'holds no run' "$xtrain" verify .
expect 2 'verify needs RUN' "$xtrain" verify
