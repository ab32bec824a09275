#!/usr/bin/env bash
# The service over HTTP: answers, health, metrics, addresses, its end.
. tests/serve/common.sh
command -v python3 >/dev/null || { echo 'skipped: python3 is not here'; exit 77; }
image=$images/ycc_444.jpg

# Where it cannot begin.
expect 3 'nowhere.safetensors' "$xtrain" serve nowhere.safetensors --listen 127.0.0.1:0
expect 3 'is a checkpoint' "$xtrain" serve run/state-*.safetensors --model lprnet --listen 127.0.0.1:0
expect 2 'serve takes one file of weights' "${serve[@]}" car.jpg
expect 2 'add --allow-remote if that is intended' "${serve[@]}" --listen 0.0.0.0:0
expect 2 'add --allow-remote if that is intended' "${serve[@]}" --listen '[::]:0'
for wrong in 8080 :8080 127.0.0.1:x 127.0.0.1:99999 example.org:80 ::1:80 ''; do
  expect 2 '--listen' "${serve[@]}" --listen "$wrong"
done
expect 1 'cannot create a socket there' "${serve[@]}" --listen unix:nowhere/x.sock
expect 1 'does not have that address' "${serve[@]}" --listen 192.0.2.1:0 --allow-remote
expect 1 'may open 32 files, too few' bash -c 'ulimit -n 32; exec "$@"' - "${serve[@]}" --listen 127.0.0.1:0
expect 2 'has 1 to 107 bytes' "${serve[@]}" --listen "unix:$(printf 'x%.0s' {1..120})"
expect 2 '--max-queue 3 is less than one batch' "${serve[@]}" --batch 4 --max-queue 3 --listen 127.0.0.1:0
expect 2 '--top: lprnet reads plates' "${serve[@]}" --top 3 --listen 127.0.0.1:0
touch file
expect 1 'that file exists and is not a socket' "${serve[@]}" --listen unix:file

begin --max-body 1
expect 1 'another process listens there' "${serve[@]}" --listen "${url#http://}"
expect 0 '' "$xtrain" predict "$weights" "$image" --threads 1 --quiet --json
python3 "$client" answers "$url" "$image" "$(head -n 1 <<<"$said")" || fail "$(cat said)"
finish 0
grep -q 'stopping after what is in hand' said || fail 'its end is not said' "$(cat said)"

# On a request to stop a complete request is answered; a partial one gets its time; a second signal stops at once.
begin --max-latency 1500ms --request-timeout 3s
python3 "$client" drains "$url" "$image" $service || fail "$(cat said)"
finish 0 asked
begin --request-timeout 1h
exec 7<>"/dev/tcp/127.0.0.1/${url##*:}"
printf 'POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf' >&7
sleep 0.5 && kill -TERM $service && sleep 2.5 && kill -0 $service || fail 'it did not wait for the request' "$(cat said)"
finish 143
exec 7>&-

# Unix sockets: a live one is left alone, one that a dead process left is replaced, and it is gone in the end.
serve_unix() { : >said; "${serve[@]}" --listen unix:here.sock 2>said & service=$!; }
waits() { for ((i = 0; i < 200; i++)); do grep -q '^listening' said && return; sleep 0.05; done; fail 'it does not listen' "$(cat said)"; }
serve_unix && waits
python3 "$client" unix here.sock "$image" || fail "$(cat said)"
expect 1 'another process listens there' "${serve[@]}" --listen unix:here.sock
kill -KILL $service && wait $service 2>/dev/null || true
[ -S here.sock ] || fail 'the dead process left no socket'
serve_unix && waits
python3 "$client" unix here.sock "$image" || fail "$(cat said)"
finish 0 INT
[ ! -e here.sock ] || fail 'the socket stays'
