#!/usr/bin/env bash
# xtrain data get against a server on the loopback: whole, cut off and continued, of wrong bytes, onto a full disk.
. tests/cli/common.sh
command -v python3 >/dev/null || { echo 'skipped: no python3'; exit 77; }
command -v curl >/dev/null || { echo 'skipped: no curl'; exit 77; }
check=$PWD/tests/cli/check_json.py page=$PWD/docs/json.md
writer=$PWD/tests/cli/write_cifar.py
server=$PWD/tests/cli/serve_ranges.py
cd "$tree"
python3 "$writer" cifar-10-batches-py 10
tar -czf archive cifar-10-batches-py
bytes=$(stat -c %s archive)
export XTRAIN_DATA_PIN=$bytes:$(sha256sum archive | cut -d' ' -f1)
get=("$xtrain" data get cifar10)
children=()
trap 'kill "${children[@]}" 2>/dev/null; rm -rf "$tree"' EXIT

# serve FILE WORD...: starts a server, whose requests are listed in `asked`.
serve() {
  : >asked; : >address
  python3 "$server" "$1" asked "${@:2}" >address &
  children+=($!)
  until [ -s address ]; do sleep 0.02; done
  XTRAIN_DATA_URL=$(cat address)
  export XTRAIN_DATA_URL
}

# The archive comes whole, is not fetched twice, and --data takes its folder.
serve archive
expect 0 'new/sets/cifar-10-python.tar.gz is fetched' "${get[@]}" new/sets
cmp archive new/sets/cifar-10-python.tar.gz
[ -z "$(find new -name '*.part')" ] || fail 'an unfinished file is left'
expect 0 'was there, with the size and SHA-256' "$xtrain" data get CIFAR-10 new/sets
[ "$(wc -l <asked)" = 1 ] || fail 'an archive that was there was fetched' "$(cat asked)"
expect 0 '100 images of 10 classes' "$xtrain" data check new/sets
expect 0 '"fetched":false' "${get[@]}" new/sets --json
echo "$said" >1.data-get.0
python3 "$check" "$xtrain" "$page" 1.data-get.0 || fail 'the JSON is not as its schema says' "$said"

# Cut off again and again, it is continued where it was; in another start too.
serve archive cut=$((bytes / 3 + 1))
expect 0 'the connection was cut off after' "${get[@]}" cut
cmp archive cut/cifar-10-python.tar.gz
[ "$(cat asked)" = "/cifar-10-python.tar.gz all
/cifar-10-python.tar.gz bytes=$((bytes / 3 + 1))-
/cifar-10-python.tar.gz bytes=$(((bytes / 3 + 1) * 2))-" ] || fail 'it was not continued' "$(cat asked)"
serve archive
mkdir later
head -c 1000 archive >later/.cifar-10-python.tar.gz.part
expect 0 'is fetched' "${get[@]}" later
[ "$(cat asked)" = '/cifar-10-python.tar.gz bytes=1000-' ] || fail 'it was not continued by another start' "$(cat asked)"
cmp archive later/cifar-10-python.tar.gz

# A server that cannot continue sends all of it again.
serve archive ranges=no
mkdir anew
head -c 1000 archive >anew/.cifar-10-python.tar.gz.part
expect 0 'the server cannot continue' "${get[@]}" anew
cmp archive anew/cifar-10-python.tar.gz

# Wrong bytes never get the name, and are not continued; nor is a longer file, or one of the same name that is another.
{ head -c $((bytes - 1)) archive; printf x; } >wrong
serve wrong
expect 3 'is not the archive: its SHA-256 begins with' "${get[@]}" bad
[ ! -e bad/cifar-10-python.tar.gz ] && [ -e bad/cifar-10-python.tar.gz.wrong ] || fail 'wrong bytes were taken' "$(ls -A bad)"
cat archive archive >long
serve long
expect 1 'put it at long-set/cifar-10-python.tar.gz' "${get[@]}" long-set
echo other >bad/cifar-10-python.tar.gz
expect 3 'rename it, or name another folder' "${get[@]}" bad
mkdir linked
ln -s ../victim linked/.cifar-10-python.tar.gz.part
expect 1 'is a symbolic link' "${get[@]}" linked
[ ! -e victim ] || fail 'it wrote through a link'

# Without a network, or curl, it says what to do.
kill "${children[@]}"
wait "${children[@]}" 2>/dev/null || true
expect 1 "or fetch $XTRAIN_DATA_URL/cifar-10-python.tar.gz on a machine with a network, put it at none/cifar-10-python.tar.gz" "${get[@]}" none
expect 1 'curl is not installed' /usr/bin/env PATH=/nowhere "${get[@]}" none
expect 2 'data get fetches cifar10 or cifar100, not "mnist"' "$xtrain" data get mnist none

# A full disk is named, and what came is continued when there is room.
mkdir full
serve archive
if unshare -rm true 2>/dev/null; then
  unshare -rm bash -c 'mount -t tmpfs -o size=64k none full && "$@"' - "${get[@]}" full >said 2>&1 && fail 'it succeeded on a full disk'
  grep -q 'is the disk full?' said || fail 'a full disk is not named' "$(cat said)"
fi

# curl never comes from the current folder, and ends with xtrain.
mkdir planted && printf '#!/bin/sh\ntouch %s/was-run\n' "$tree" >planted/curl && chmod +x planted/curl
(cd planted && PATH=.::$PATH expect 0 'is fetched' "${get[@]}" safe) || fail 'it was not fetched'
[ ! -e was-run ] || fail 'curl came from the current folder'
serve archive cut=$((bytes / 2)) then=hang
"${get[@]}" hanging >said 2>&1 &
getting=$!
until [ -s hanging/.cifar-10-python.tar.gz.part ]; do sleep 0.02; done
child=$(pgrep -P $getting)
kill -KILL $getting
wait $getting || true
runs() { grep -qs '^State:.[^Z]' /proc/$child/status; }
for ((i = 0; i < 50; i++)); do runs || break; sleep 0.02; done
! runs || fail 'curl goes on without xtrain'
