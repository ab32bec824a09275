#!/usr/bin/env bash
# doctor --merge: what differs between machines, from what doctor --json wrote on each.
. tests/cli/common.sh
cd "$tree"
"$xtrain" doctor --json >own.json 2>/dev/null || true
grep -q '"node":{"host":"[^"]*","xtrain":"' own.json || fail 'what doctor tells of the node' "$(cat own.json)"

node() { # host, driver, BAR, works
  printf '{"steps":[],"node":{"host":"%s","xtrain":"1","Resizable BAR":"%s","xpus":[{"name":"Arc","memory":"16.0 GB","driver":"%s"}]},"works":%s}\n' "$1" "$3" "$2" "$4" >"$1.json"
}
node n1 24.1 on true; node n2 24.1 on true; node n3 23.9 on true
expect 1 'the nodes differ: 1 difference; --xpu works on 3 of 3' "$xtrain" doctor --merge n1.json n2.json n3.json
grep -Eq '^n3 +xpu_0_driver +23\.9 +24\.1 +2 of 3$' <<<"$said" || fail 'the table' "$said"
grep -qx 'on all: xpu_0_memory: 16.0 GB' <<<"$said" || fail 'what is the same' "$said"
expect 1 '"differences":[{"name":"n3","what":"xpu_0_driver","here":"23.9","most":"24.1","most_count":2}]' \
  "$xtrain" doctor --merge n1.json n2.json n3.json --json
expect 0 '2 nodes, all alike' "$xtrain" doctor --merge n1.json n2.json

# One that lacks something or does not work; two files of one host go by their names.
sed 's/,"driver":"[^"]*"//; s/true/false/' n2.json >n4.json
expect 1 '--xpu does not work on n4.json' "$xtrain" doctor --merge n1.json n2.json n4.json
grep -Eq '^n4\.json +xpu_0_driver +none +24\.1 ' <<<"$said" || fail 'what it lacks' "$said"
node n5 24.1 on false; node n6 24.1 on false
expect 4 'works on none of 2 nodes' "$xtrain" doctor --merge n5.json n6.json

# What cannot be.
expect 2 'give the files of two or more' "$xtrain" doctor --merge n1.json
expect 2 'doctor checks this machine' "$xtrain" doctor n1.json
echo '{"steps":[],"works":true}' >old.json
expect 3 'old.json is not what "xtrain doctor --json"' "$xtrain" doctor --merge n1.json old.json
expect 3 'cannot open' "$xtrain" doctor --merge n1.json nowhere.json
