#!/usr/bin/env bash
# make uninstall says what it removed, and leaves what make install did not put there.
. tests/cli/common.sh
prefix=$tree/prefix
expect 1 'nothing was removed' scripts/install.sh --remove "$prefix"
mkdir -p "$prefix/bin" && echo other >"$prefix/bin/other"
expect 0 'installed xtrain in' scripts/install.sh "$xtrain" "$prefix"
[ -x "$prefix/bin/xtrain" ] && [ -s "$prefix/share/man/man1/xtrain.1" ] || fail 'it is not installed' "$(find "$prefix")"
[ -s "$prefix/share/doc/xtrain/README.md" ] && [ -s "$prefix/share/doc/xtrain/docs/tutorial.md" ] || fail 'no docs' "$(find "$prefix")"
# A manual page for each command, and pages whose links lead somewhere.
"$xtrain" man | sed -nE '/^[.]SH COMMANDS/,/^[.]SH OPTIONS/s/^[.]B xtrain ((bench|data) [a-z]+|[a-z]+).*/xtrain-\1.1/p' | tr ' ' - | sort >"$tree/wanted"
(cd "$prefix/share/man/man1" && printf '%s\n' xtrain-*.1) | sort | diff "$tree/wanted" - || fail 'not a manual page for each command'
grep -qx xtrain-data-check.1 "$tree/wanted" && grep -q '^.SH NAME' "$prefix"/share/man/man1/xtrain-schema.1 || fail 'no manual pages'
expect 0 'lead somewhere' scripts/check-links.sh "$prefix/share/doc/xtrain"
printf '[a](nowhere.md)\n' >"$tree/dead.md"
expect 1 'dead.md: nowhere.md is not there' scripts/check-links.sh "$tree"
(unset XTRAIN_DNNL; PATH=$prefix/bin:$PATH && expect 0 "$prefix/" xtrain version) || fail 'not in the PATH as README says'
# Its ready-made configs are found by name, wherever it is run.
for config in lprnet lprnet.yaml configs/lprnet.yaml; do
  (cd / && expect 0 'model: lprnet ' "$prefix/bin/xtrain" --config "$config" --print-config) || fail "$said"
done
echo mine >"$prefix/share/xtrain/configs/mine.yaml"
expect 0 "removed $prefix/bin/xtrain" scripts/install.sh --remove "$prefix"
grep -qF "left $prefix/share/xtrain: it holds what was not installed" <<<"$said" || fail 'what stays is not said' "$said"
[ "$(find "$prefix" -type f | sort)" = "$(printf '%s\n' "$prefix/bin/other" "$prefix/share/xtrain/configs/mine.yaml")" ] ||
  fail 'it removed too much or too little' "$(find "$prefix" -type f)"
make help | grep -q '^make uninstall' || fail 'make help does not know uninstall'
