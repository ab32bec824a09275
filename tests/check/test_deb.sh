#!/usr/bin/env bash
# The files of the Debian package; with XTRAIN_TEST_ALL=1 also the package, built and unpacked.
. tests/cli/common.sh
unit=debian/xtrain.service
# The unit and its options are ones that systemd and the program take.
. debian/xtrain.default
[ -z "$WEIGHTS" ] || fail 'weights are configured from the start'
command=$(sed -n 's/^ExecStart=[^ ]*xtrain serve \$WEIGHTS \$//p' $unit)
# shellcheck disable=SC2086 # options
expect 0 'log_time: true' "$xtrain" serve best.safetensors ${!command} --print-config
# shellcheck disable=SC2086
expect 2 'serve needs WEIGHTS' "$xtrain" serve $WEIGHTS ${!command}
if command -v systemd-analyze >/dev/null; then
  sed "s|/usr/bin/xtrain|$xtrain|; /^Documentation/d" $unit >"$tree/xtrain.service"
  said=$(systemd-analyze verify "$tree/xtrain.service" 2>&1) && [ -z "$said" ] || fail 'the unit' "$said"
fi

[ -n "${XTRAIN_TEST_ALL:-}" ] || exit 0
command -v dh_builddeb >/dev/null || { echo 'skipped: debhelper is not here'; exit 77; }
version=$("$xtrain" --version | sed -n '1s/^xtrain //p')
scripts/deb.sh "$xtrain" "$version" "$tree" >"$tree/said" 2>&1 || fail 'no package' "$(cat "$tree/said")"
package=$(echo "$tree"/xtrain_*.deb)
[ "$(dpkg-deb -f "$package" Version)" = "$version-1" ] || fail 'its version' "$(dpkg-deb -f "$package")"
grep -q 'libarchive.*libc6' <<<"$(dpkg-deb -f "$package" Depends)" || fail 'what it depends on' "$(dpkg-deb -f "$package")"
if command -v lintian >/dev/null; then lintian --fail-on error "$package" >"$tree/said" 2>&1 || fail 'lintian' "$(cat "$tree/said")"; fi
dpkg-deb -x "$package" "$tree/root"
cd /
expect 0 "xtrain $version" env -i "$tree/root/usr/bin/xtrain" --version
expect 0 'model: lprnet ' env -i "$tree/root/usr/bin/xtrain" --config lprnet --print-config
for file in etc/default/xtrain usr/include/xtrain.h usr/lib/libxtrain.so.1 usr/share/man/man1/xtrain-serve.1.gz usr/share/doc/xtrain/copyright \
  usr/share/bash-completion/completions/xtrain usr/lib/python3/dist-packages/xtrain/py.typed usr/share/doc/xtrain/docs/install.md; do
  [ -e "$tree/root/$file" ] || fail "$file is not in it"
done
