#!/usr/bin/env bash
# The formula of docs/scaling.md beside measured steps, on slow links, of which most of a step is made: XTRAIN_TEST_ALL=1 and root. A
# third is let pass, as other work on the machine counts too.
[ -n "${XTRAIN_TEST_ALL:-}${LINKS_TEST:-}" ] || { echo 'skipped: it takes minutes: XTRAIN_TEST_ALL=1'; exit 77; }
. tests/mpi/common.sh
. "$OLDPWD/tests/mpi/hosts.sh"
why=$(hosts_possible) || { echo "skipped: $why"; exit 77; }
[ -c /dev/net/tun ] && command -v python3 >/dev/null || { echo 'skipped: no /dev/net/tun, or no python3'; exit 77; }
cd "$OLDPWD"
for norms in --sync-bn --no-sync-bn; do
  measured=$(RATES=100 DELAYS=20000 STEPS=10 ROUNDS=2 bash tests/mpi/links.sh lprnet 8 $norms) || fail "$measured"
  echo "$measured"
  awk '/Mbit|us / { n += $1 != 0; d = $5 < 0 ? -$5 : $5; if (d > worst) worst = d } END { exit !(n == 2 && worst <= 33) }' <<<"$measured" ||
    fail 'the formula does not hold'
done
