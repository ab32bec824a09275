#!/usr/bin/env bash
# Broken and hostile images, through the program: named, listed, skipped, and too many of them fail the run. Evaluation
# and prediction, whose last batch is smaller.
. tests/cli/common.sh
images=$PWD/tests/fuzz/corpus/image fixtures=$PWD/tests/models/fixtures
cd "$tree"
run=("$xtrain" --model lprnet --batch 4 --threads 1)

# 60 good images, and each kind of bad one.
mkdir good bad
for i in $(seq 30); do
  cp "$images/ycc_444.jpg" "good/京A123$((10 + i))_1.jpg"
  cp "$images/rgba.png" "good/沪B543$((10 + i))_1.png"
done
mv "good/沪B54311_1.png" "good/沪B54311_1.jpg" # a wrong extension is no harm
: >bad/京A00000_zero.jpg
head -c 300 "$images/ycc_444.jpg" >bad/京A00001_cut.jpg
head -c 80 "$images/rgba.png" >bad/京A00002_cut.png
echo 'this is no image' >bad/京A00003_text.png
printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x75\x30\0\0\x75\x30\x08\x02\0\0\0\xe9\x45\x6f\xed\0\0\0\x11IDAT\x78\x9c\x63\x60\x18\x05' \
  >bad/京A00004_bomb.png
printf '\xff\xd8\xff\xc0\0\x11\x08\x75\x30\x75\x30\x03\x01\x11\0\x02\x11\0\x03\x11\0\xff\xda\0\x0c\x03\x01\0\x02\0\x03\0\0\x3f\0' \
  >bad/京A00005_bomb.jpg
ln -s nowhere.jpg bad/京A00006_gone.jpg
ln -s 京A00007_loop.jpg bad/京A00007_loop.jpg
kinds=$(ls bad | wc -l)
ln -s . good/again # a loop of folders

# predict names each bad file and reads the others; the last batch is smaller than the others.
"${run[@]}" --data good --steps 2 --out w --quiet
expect 3 "$kinds of $((kinds + 5)) files could not be read" \
  "$xtrain" predict w/last.safetensors --batch 4 --threads 1 bad/* good/京A1231[1-5]*
for file in bad/*; do grep -qF "$file" <<<"$said" || fail "predict does not name $file" "$said"; done
[ "$(grep -c '^good/' <<<"$said")" = 5 ] || fail 'predict does not answer for each good file' "$said"
for bomb in bad/*bomb*; do
  expect 3 "$bomb" bash -c "ulimit -v 2000000; exec '$xtrain' predict w/last.safetensors --threads 1 $bomb"
done

# A stop reports how far it came, with the total if that is known.
for ((i = 0; i < 100000; i++)); do echo good/京A12311_1.jpg; done >long.txt
for end in 'INT 130 interrupted' 'TERM 75 stopped'; do
  read -r signal code word <<<"$end"
  stops "$code" "$word after " "$signal" "$xtrain" predict w/last.safetensors --threads 1 - <long.txt
  grep -qE 'after [0-9]+ files?$' <<<"$said" || fail 'how far it came is not said' "$(tail -1 <<<"$said")"
  stops "$code" "$word after " "$signal" "$xtrain" predict w/last.safetensors --threads 1 long.txt
  grep -qF ' of 100000 files' <<<"$said" || fail 'how far it came is not said' "$(tail -1 <<<"$said")"
done

# The weights say which network they are of; where they do not, it has to be said.
expect 2 'does not name its network; name it with --model' \
  "$xtrain" predict "$fixtures/state.safetensors" good/京A12311_1.jpg
[ "$(ls good/京A1231* | "$xtrain" predict w/last.safetensors --threads 1 --json - | grep -o '"prediction"' | wc -l)" = 9 ] ||
  fail 'predict - does not answer for each line'

# Evaluation counts the last, smaller batch, and images that are bad: these are named.
expect 0 '"images":60,' "$xtrain" eval --init w/last.safetensors --data good --batch 32 --threads 1 --json
ln -s "$PWD"/bad/京A00000_zero.jpg good/
expect 0 'good/京A00000_zero.jpg is skipped' "$xtrain" eval --init w/last.safetensors --data good --batch 32 --threads 1
grep -qF ' of 60 plates' <<<"$said" || fail 'a bad image counts' "$said"
expect 3 'strict data was requested' "$xtrain" eval --init w/last.safetensors --data good --threads 1 --strict-data
expect 0 'no --data was given: evaluating on synth:plates' \
  timeout --preserve-status 60 "$xtrain" eval --init w/last.safetensors --threads 1 --batch 100

# A run's config file holds the training images; eval takes its validation images.
"${run[@]}" --data good --val 'synth:plates?count=7&seed=4' --steps 1 --out v >said
expect 0 'evaluating on `val` of v/config.yaml' "$xtrain" eval --config v/config.yaml --init v/last.safetensors --json
grep -qF '"images":7,' <<<"$said" || fail 'eval did not take the validation images' "$said"

# Training lists what it skips, once, over two starts; validation images too.
expect 0 'r/bad_images.txt says why' "${run[@]}" --data good --steps 16 --save-every 4 --out r
expect 0 '' "${run[@]}" --data good --steps 32 --val good --resume r
[ "$(wc -l <r/bad_images.txt)" = 1 ] && grep -qP '^good/京A00000_zero.jpg\t.+' r/bad_images.txt ||
  fail 'the list of bad images is not what it should be' "$(cat r/bad_images.txt)"
expect 3 'strict data was requested' "${run[@]}" --data good --steps 16 --strict-data --out strict
ln -s "$PWD"/bad/京A00001_cut.jpg good/
expect 3 'more than the 1 % that is let pass' "${run[@]}" --data good --steps 16 --out many
[ "$(wc -l <many/bad_images.txt)" = 2 ] || fail 'too many bad images are not listed' "$(cat many/bad_images.txt)"

# Labels that cannot be: refused before anything is trained.
mkdir labels && cp "$images/ycc_444.jpg" labels/京A12-45_1.jpg && cp "$images/ycc_444.jpg" labels/京A12345_1.jpg
expect 3 'blank' "$xtrain" --model lprnet --threads 1 --data labels --batch 1 --steps 1 --out l
[ ! -e l ] || fail 'refused labels left a folder'
