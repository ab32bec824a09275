#!/usr/bin/env bash
# eval --errors: every wrong image, worst first, the confusions, and for classes the matrix; as JSON, as tables
# and as a page. Names from files stay in their cell.
. tests/cli/common.sh
images=$PWD/tests/fuzz/corpus/image
cd "$tree"
"$xtrain" "${small[@]}" --threads 1 --steps 2 --out run --quiet >/dev/null
mkdir odd && cp "$images/ycc_444.jpg" $'odd/京A12311_\t<b>\n.jpg' && cp "$images/rgba.png" odd/沪B54311_1.png
eval=("$xtrain" eval --init run --data odd --threads 1)

expect 0 '2 wrong images, worst first: e.tsv' "${eval[@]}" --errors e.tsv
[ "$(wc -l <e.tsv)" = 3 ] && [ "$(awk -F'\t' '{ print NF }' e.tsv | sort -u)" = 5 ] || fail 'the table is not whole' "$(cat e.tsv)"
[ "$(head -1 e.tsv)" = $'path\texpected\tread\tconfidence\tparts' ] || fail 'the table has no head' "$(cat e.tsv)"
grep -qF 'odd/京A12311_\x09<b>\x0A.jpg' e.tsv || fail 'a name is not escaped' "$(cat e.tsv)"
awk -F'\t' 'NR > 2 && $4 > before { exit 1 } { before = $4 }' e.tsv || fail 'the worst is not the first' "$(cat e.tsv)"
[ "$(head -1 e-confused.tsv)" = $'expected\tread\tcount\tof' ] || fail 'the pairs have no head' "$(cat e-confused.tsv)"
[ "$(awk -F'\t' 'NR > 1 && $1 != "" { n += $3 } END { print n + 0 }' e-confused.tsv)" -ge 2 ] || fail 'no pairs' "$(cat e-confused.tsv)"
[ ! -e e-matrix.tsv ] || fail 'plates have a matrix of classes'

expect 0 '"error_files":["e.jsonl","e-confused.jsonl"]' "${eval[@]}" --errors e.jsonl --json
[ "$(wc -l <e.jsonl)" = 2 ] && [ "$(grep -c '^{"path":"odd/.*","expected":".*","read":".*","confidence":[0-9.e-]*,"parts":\[.*\],"steps":\[\[.*\]\]}$' e.jsonl)" = 2 ] ||
  fail 'the lines are not what they should be' "$(cat e.jsonl)"
grep -qF 'odd/京A12311_\t<b>\n.jpg' e.jsonl || fail 'a name is not escaped' "$(cat e.jsonl)"
[ "$(sed 's/.*"steps":\[//' e.jsonl | head -1 | grep -o '\["' | wc -l)" = 18 ] || fail 'not 18 time steps' "$(cat e.jsonl)"
grep -q '^{"expected":".*","read":".*","count":[0-9]*,"of":[0-9]*}$' e-confused.jsonl || fail 'no pairs' "$(cat e-confused.jsonl)"

expect 0 'worst first: e.html' "${eval[@]}" --errors e.html
grep -q '"evaluation":{.*"picture":"data:image/png' e.html && grep -qF '\u003cb>' e.html || fail 'the page lacks pictures, or a name in it is not escaped'
expect 0 'worst first: e.html' "${eval[@]}" --errors e.html --no-images
! grep -q '"picture"' e.html || fail 'a page without images has some'

expect 2 '--errors e.txt: the extension chooses the format: .jsonl, .tsv or .html' "${eval[@]}" --errors e.txt
expect 1 'cannot write nowhere/e.tsv' "${eval[@]}" --errors nowhere/e.tsv
expect 2 '--errors lists the wrong predictions of one type' "${eval[@]}" --errors e.tsv --compare f32,f32

printf 'odd/沪B54311_1.png\t沪B54311\n' >list.tsv
expect 2 '--errors list.tsv would overwrite the evaluated data' "$xtrain" eval --init run --data list.tsv --threads 1 --errors list.tsv

# Classes: their matrix adds up to the images.
mkdir -p two/cat 'two/small dog' && cp "$images/ycc_444.jpg" two/cat/ && cp "$images/rgba.png" 'two/small dog/'
"$xtrain" --model resnet18 --data two --image-size 32 --batch 2 --threads 1 --steps 1 --lr 1e-6 --out classes --quiet >/dev/null
expect 0 'how often each class was read as which: c-matrix.tsv' "$xtrain" eval --init classes --data two --threads 1 --errors c.tsv
[ "$(head -1 c-matrix.tsv)" = $'expected\tcat\tsmall dog' ] || fail 'the matrix does not name its columns' "$(cat c-matrix.tsv)"
[ "$(awk -F'\t' 'NR > 1 { n += $2 + $3 } END { print NR, n }' c-matrix.tsv)" = '3 2' ] || fail 'the matrix does not add up' "$(cat c-matrix.tsv)"
expect 0 '"c-matrix.jsonl"]' "$xtrain" eval --init classes --data two --threads 1 --errors c.jsonl --json
[ "$(wc -l <c-matrix.jsonl)" = 2 ] && grep -q '^{"expected":"small dog","read":{' c-matrix.jsonl || fail 'the matrix has no lines' "$(cat c-matrix.jsonl)"
# Labels with blanks are words of their line.
expect 0 '  "small dog"  read as  ' "$xtrain" eval --init classes --data two --threads 1 --show 2
grep -qE '^  (right|wrong)  cat  read as  (cat|"small dog")  confidence ' <<<"$said" || fail 'a label is not shown as it is' "$said"
