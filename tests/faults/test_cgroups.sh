#!/usr/bin/env bash
# Limits of a cgroup, v1 or v2, under training and serving: memory that is not there is refused with a sentence before the
# kernel kills; what a service has left bounds the pictures that it decodes; a share of a CPU is one thread; with too few
# threads (pids.max) each command ends with exit code 5 and a sentence, or does its work.
. tests/serve/common.sh
image=$images/ycc_444.jpg

# group CONTROLLER FILE...: makes $group, as root and where a hierarchy of the controller can be written; $limit is the
# first of the files that it has.
groups=()
group() {
  local root=/sys/fs/cgroup/$1 file
  [ -d "$root" ] || root=/sys/fs/cgroup
  group=$root/xtrain-test-$$-$1
  mkdir "$group" 2>/dev/null || return 1
  groups+=("$group")
  for file in "${@:2}"; do limit=$group/$file && [ -e "$limit" ] && return; done
  return 1
}
trap '[ -z "$service" ] || { kill -KILL $service; wait $service; } 2>/dev/null || :; for one in "${groups[@]}"; do rmdir "$one"; done; rm -rf "$tree"' EXIT
within() { # COMMAND...: in the group
  bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"
}
played=

if group memory memory.max memory.limit_in_bytes; then
  played+=' memory'
  echo $((50 << 20)) >"$limit"
  expect 5 ' needs about 0.' within "$xtrain" "${small[@]}" --batch 24 --threads 1 --steps 1 --out large
  expect 5 'give a smaller one' within "$xtrain" serve "$weights" --threads 1 --batch 32 --stdin paths
  expect 0 '' within "$xtrain" predict "$weights" "$image" --threads 1

  # One picture of 32 million pixels killed the service here.
  echo $((120 << 20)) >"$limit"
  serve=(bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "${serve[@]}")
  begin --workers 3
  pixels=$(sed -n 's/.* images of up to \([0-9]*\)\.\([0-9]\) million pixels are decoded; larger ones are refused/\1\200000/p' said)
  [ -n "$pixels" ] || fail 'that larger pictures are refused is not said' "$(cat said)"
  python3 "$client" short "$url" "$image" "$pixels" || fail "$(cat said)"
  finish 0
fi

if group cpu cpu.max cpu.cfs_quota_us; then
  played+=' cpu'
  echo 50000 >"$limit"
  expect 0 '' within "$xtrain" "${small[@]}" --steps 1 --out half --quiet
  grep -q '"threads":"1"' half/proof.json || fail 'half a CPU is not one thread' "$(cat half/proof.json)"
  [ "$(nproc)" = 1 ] || expect 0 "the cgroup's CPU limit" within "$xtrain" devices
fi

# attempt COMMAND...: with so few threads it fails with a sentence, or not.
attempt() {
  local code=0
  within timeout 60 "$xtrain" "$@" </dev/null >said 2>&1 || code=$?
  codes+=" $code"
  [ $code = 0 ] || { [ $code = 5 ] && [ "$(grep -c '^xtrain: error: ' said)" = 1 ]; } ||
    fail "with $(cat "$limit") threads $1 ended with code $code" "$(tail -5 said)"
}
if group pids pids.max; then
  played+=' pids'
  codes=
  for most in 3 4 5; do
    echo $most >"$limit"
    rm -rf r
    attempt "${small[@]}" --threads 2 --oversubscribe --steps 1 --out r --quiet
    attempt eval "$weights" --data 'synth:plates?count=8' --threads 2 --oversubscribe
    attempt predict "$weights" "$image" --threads 2 --oversubscribe
    attempt serve "$weights" --stdin paths --threads 2 --oversubscribe
  done
  [[ "$codes" == *5* ]] || fail 'no number of threads was too small' "$codes"
fi
[ -n "$played" ] || { echo 'skipped: no cgroup can be made here'; exit 77; }
echo "limits of:$played"
