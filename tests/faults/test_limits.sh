#!/usr/bin/env bash
# With too little address space (ulimit -v) each command ends with exit code 5 and a sentence, or does its work; at some
# limits, or with XTRAIN_TEST_ALL=1 at many.
. tests/cli/common.sh
image=$PWD/tests/fuzz/corpus/image/ycc_444.jpg
cd "$tree"
"$xtrain" "${small[@]}" --threads 1 --steps 1 --out w --quiet

# attempt LIMITED COMMAND...: in a shell of its own, LIMITED is run before the command.
attempt() {
  local limit=$1 code=0
  shift
  (eval "$limit" && exec timeout 60 "$xtrain" "$@" </dev/null) >said 2>&1 || code=$?
  codes+=" $code"
  [ $code = 0 ] || { [ $code = 5 ] && [ "$(grep -c '^xtrain: error: ' said)" = 1 ]; } ||
    fail "$limit: $1 ended with code $code" "$(tail -5 said)"
}
every_command() {
  rm -rf r
  attempt "$1" "${small[@]}" --threads 2 --oversubscribe --steps 1 --out r --quiet
  attempt "$1" eval --init w/last.safetensors --data 'synth:plates?count=8' --threads 2 --oversubscribe
  attempt "$1" predict w/last.safetensors "$image" --threads 2 --oversubscribe
  attempt "$1" serve w/last.safetensors --stdin paths --threads 2 --oversubscribe
}

codes=
step=35000
[ -z "${XTRAIN_TEST_ALL:-}" ] || step=2000
# Below this the dynamic linker itself has no room.
for ((kb = 70000; kb <= 220000; kb += step)); do every_command "ulimit -v $kb"; done
[[ "$codes" == *5* ]] || fail 'no limit was too small' "$codes"
