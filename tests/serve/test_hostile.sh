#!/usr/bin/env bash
# The service under hostile clients, and under load: it keeps responding, in constant memory.
. tests/serve/common.sh
command -v python3 >/dev/null || { echo 'skipped: python3 is not here'; exit 77; }
image=$images/ycc_444.jpg

begin --request-timeout 1s --idle-timeout 1s --max-body 1 --max-connections 24
python3 "$client" hostile "$url" "$image" $service || fail "$(cat said)"
python3 "$client" steady "$url" "$image" $service || fail "$(cat said)"
finish 0

# The tool that users aim at their own service: all holds; what does not is said by exit code 1.
begin --request-timeout 1s --idle-timeout 1s
expect 0 ' held, 0 did not' "$xtrain" serve --selftest "$url"
expect 2 'this is another machine' "$xtrain" serve --selftest http://192.0.2.1:80
expect 2 'takes the address of a service' "$xtrain" serve --selftest https://localhost
expect 2 'leave out' "$xtrain" serve "$weights" --selftest "$url"
finish 0
expect 1 'no service of xtrain answers' "$xtrain" serve --selftest "$url"
begin --request-timeout 1s --idle-timeout 1s --allow-host evil.example
expect 1 '"attack":"a foreign Host (DNS rebinding)","held":false' "$xtrain" serve --selftest "$url" --json
finish 0

# Slow headers have less time than slow bodies, and an idle client its own.
begin --request-timeout 7s --idle-timeout 2s
python3 "$client" slow "$url" "$image" || fail "$(cat said)"
finish 0

begin --allow-host my.plates.example,other.example
python3 "$client" browsers "$url" "$image" || fail "$(cat said)"
finish 0

begin --max-connections 24 --request-timeout 60s --idle-timeout 60s --max-body 16
python3 "$client" crowd "$url" "$image" || fail "$(cat said)"
python3 "$client" apart "$url" "$image" || fail "$(cat said)"
finish 0
begin --max-decode 0.01s
python3 "$client" costly "$url" "$image" || fail "$(cat said)"
finish 0

# More clients than files may be open: it neither fails nor goes round in circles. Where it may open more, it does.
whole=("${serve[@]}")
serve=(bash -c 'ulimit -n 40; exec "$@"' - "${whole[@]}")
begin --request-timeout 1s --idle-timeout 1s
grep -q 'it serves 8 clients at once' said || fail 'the limit is not said' "$(cat said)"
python3 "$client" many "$url" "$image" $service || fail "$(cat said)"
finish 0
serve=(bash -c 'ulimit -Sn 40; exec "$@"' - "${whole[@]}")
begin
! grep -q 'clients at once' said && [ "$(awk '/^Max open files/ { print $4 }' /proc/$service/limits)" -ge 256 ] || fail 'it did not ask for files'
finish 0
serve=("${whole[@]}")

# More than may wait: some are told to retry, the others answered.
begin --batch 1 --max-queue 1
python3 "$client" busy "$url" "$image" || fail "$(cat said)"
finish 0

# What each request left behind would show after some thousand. ab is a client quick enough.
command -v ab >/dev/null || { echo 'skipped: ab (apache2-utils) is not here'; exit 77; }
begin
load() { ab -q -k -n "$1" -c 8 -p "$image" -T image/jpeg "$url/predict" >ab 2>&1 || fail "$(cat ab)"; }
resident() { awk '/^VmRSS/ { print $2 }' /proc/$service/status; }
load 500
before=$(resident)
load 2000
after=$(resident)
grep -q '^Failed requests: *0$' ab && ! grep -q '^Non-2xx' ab || fail 'requests failed' "$(cat ab)"
echo "2000 requests: $before kB before, $after kB after"
[ $((after - before)) -lt 1500 ] || fail 'memory grows with requests'
finish 0
