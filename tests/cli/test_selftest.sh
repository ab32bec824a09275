#!/usr/bin/env bash
# The self-test's command: a table and a verdict, JSON alone on standard output, and invalid requests.
. tests/cli/common.sh
expect 0 'all within their bounds' "$xtrain" selftest --model lprnet --batch 1 --amp off --threads 2 --oversubscribe
grep -q '^lprnet, 94x24, batch 1$' <<<"$said" || fail 'the network and its shape are named' "$said"
grep -Eq '^convolution +f32 +backward +[0-9]+ ' <<<"$said" || fail 'there is a row for each kind, type and pass' "$said"
said=$("$xtrain" selftest --small --json 2>/dev/null)
[[ $said = '{'*'"wrong":0'*'}' ]] || fail 'with --json there is nothing else on standard output' "$said"
expect 0 'all within their bounds' "$xtrain" selftest --small
[ "$(grep -c "^\(small shapes\|known, 16x16\), batch " <<<"$said")" = 2 ] && [ "$(grep -c ", batch " <<<"$said")" = 2 ] || fail 'with --small there are the small shapes alone' "$said"
expect 4 'does not train in fp16' "$xtrain" selftest --amp fp16
expect 2 'reads images of 94x24 only' "$xtrain" selftest --model lprnet --image-size 64
expect 2 '--lr belongs to train' "$xtrain" selftest --lr 1
