# What the tests of the service share; sourced by them from the root of the tree. Weights of a plate network lie in
# $tree/run, and pictures in $images.
. tests/cli/common.sh
images=$PWD/tests/fuzz/corpus/image
client=$PWD/tests/serve/client.py
cd "$tree"
"$xtrain" "${small[@]}" --threads 1 --steps 2 --lr 1e-9 --out run --quiet >/dev/null
weights=$tree/run/last.safetensors
serve=("$xtrain" serve "$weights" --threads 1)

# begin OPTION...: a service, whose address is $url, process $service and messages $tree/said.
begin() {
  : >"$tree/said" # what the one before said
  "${serve[@]}" --listen 127.0.0.1:0 "$@" 2>"$tree/said" &
  service=$!
  for ((i = 0; i < 300; i++)); do
    url=$(sed -n 's/^listening at \(.*\): POST.*/\1/p' "$tree/said")
    [ -z "$url" ] || return 0
    kill -0 $service 2>/dev/null || break
    sleep 0.05
  done
  fail 'the service does not begin' "$(cat "$tree/said")"
}

# finish CODE [SIGNAL|asked]: it exits with this code; asked: a stop was requested before.
finish() {
  local code=0
  [ "${2-}" = asked ] || kill -"${2:-TERM}" $service
  for ((i = 0; i < 200; i++)); do kill -0 $service 2>/dev/null || break; sleep 0.05; done
  kill -KILL $service 2>/dev/null && fail 'still running ten seconds after the signal' "$(cat "$tree/said")"
  wait $service || code=$?
  service=
  [ "$code" = "$1" ] || fail "the service ended with $code, not $1" "$(cat "$tree/said")"
}

# Whatever becomes of the test, no service stays.
service=
trap '[ -z "$service" ] || kill -KILL $service 2>/dev/null || true; rm -rf "$tree"' EXIT
