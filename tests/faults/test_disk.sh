#!/usr/bin/env bash
# A full disk, and a folder that cannot be written, while a run saves: exit code 1 and a sentence, and the checkpoint
# before stays whole.
. tests/cli/common.sh
cd "$tree"
train=("$xtrain" "${small[@]}" --threads 1 --save-every 3)
"${train[@]}" --steps 3 --out a --quiet

# Every size at which a write may fail, by a limit on the size of files: in weights, checkpoint, record.
for blocks in 1 2 1000 3000 5200; do # of 1024 bytes
  rm -rf b && cp -r a b
  (ulimit -f $blocks; trap '' XFSZ; exec "${train[@]}" --steps 6 --log-every 1 --resume b) >said 2>&1 && code=0 || code=$?
  [ $code = 1 ] && grep -q '^xtrain: error: cannot write b/.*: File too large' said ||
    fail "with files of at most $blocks KB it ended with code $code" "$(cat said)"
  grep -q '/config.yaml\|/proof.json\|; resume from the checkpoint of step 3 with: .* --resume b$' said || fail 'what is left is not said' "$(cat said)"
  cmp a/state-00000003.safetensors b/state-00000003.safetensors || fail 'the checkpoint before is not whole'
  [ -z "$(find b -name '*.part-*')" ] || fail 'a half-written file was left' "$(ls b)"
  "${train[@]}" --steps 6 --resume b --quiet || fail 'it cannot be gone on with'
done

# A disk that is really full, where a small one may be mounted.
mkdir small
if unshare -m true 2>/dev/null && unshare -m bash -c 'mount -t tmpfs -o size=12m tmpfs small' 2>/dev/null; then
  unshare -m bash -euc '
    mount -t tmpfs -o size=12m tmpfs small
    code=0
    "$@" --steps 1000 --keep 3 --out small/run >said 2>&1 || code=$?
    [ $code = 1 ] && grep -q "No space left on device" said || { echo "code $code"; cat said; exit 1; }
    cp -r small/run copy
  ' small "${train[@]}" || fail 'a full disk is not what it should be'
  expect 0 'resuming from copy/state-' "${train[@]}" --steps 7 --resume copy
fi

# A folder that is taken away, and one that cannot be made.
"${train[@]}" --steps 100000 --out gone >said 2>&1 &
for ((i = 0; i < 200; i++)); do ls gone/state-* >list 2>/dev/null && break; sleep 0.1; done
mv gone was && touch gone
code=0
wait $! || code=$?
[ $code = 1 ] && grep -q '^xtrain: error: cannot write gone/' said || fail "without its folder it ended with $code" "$(cat said)"
expect 0 '' "${train[@]}" --steps 100000 --max-time 1s --resume was --quiet
expect 1 'cannot create the folder gone/run' "${train[@]}" --steps 1 --out gone/run
