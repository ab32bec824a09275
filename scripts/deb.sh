#!/usr/bin/env bash
# Makes dist/xtrain_VERSION-1_ARCH.deb for the Debian that this is, from what `make install` installs and the files of
# debian/, by debhelper's tools. Needs no root. DEBEMAIL and DEBFULLNAME name its maintainer.
#
#   deb.sh PROGRAM VERSION [OUT]
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 version=$2 out=$(realpath -m "${3:-dist}")
command -v dh_builddeb >/dev/null || {
  echo 'deb: debhelper is not here: apt-get install debhelper' >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/debian/xtrain

cp -r debian "$work/"
[ -z "${DEBEMAIL:-}" ] || sed -i "s/^Maintainer: .*/Maintainer: ${DEBFULLNAME:-$DEBEMAIL} <$DEBEMAIL>/" "$work/debian/control"
# The date of the newest change, so that the same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Makefile)}
export SOURCE_DATE_EPOCH
printf 'xtrain (%s-1) unstable; urgency=medium\n\n  * Built from the sources of xtrain %s.\n\n -- %s  %s\n' "$version" "$version" \
  "$(sed -n 's/^Maintainer: //p' "$work/debian/control")" "$(date -uRd "@$SOURCE_DATE_EPOCH")" >"$work/debian/changelog"

XPU=0 scripts/install.sh "$program" "$root/usr" >/dev/null
install -D -m 644 -t "$root/usr/lib/python3/dist-packages/xtrain" python/xtrain/*.py python/xtrain/py.typed
rm "$root/usr/share/xtrain/installed"
# Debian's places.
mv "$root/usr/share/xtrain/licences" "$root/usr/share/doc/xtrain/"
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"

# The system's oneDNN, which is loaded by name, where none was fetched.
package=
if [ ! -e "$root/usr/lib/xtrain/libdnnl.so.3" ]; then
  library=$(/sbin/ldconfig -p | awk '$1 ~ /^libdnnl[.]so[.]3/ { print $NF; exit }')
  package=$(dpkg -S "$(realpath "$library")" | cut -d: -f1)
fi
echo "dnnl:Depends=$package" >"$work/debian/xtrain.substvars"

cd "$work"
dh_installchangelogs
dh_installdocs
dh_installsystemd --no-enable
dh_installinit --name=xtrain --no-scripts --no-enable --no-start
dh_compress -X.md
dh_fixperms
dh_strip --no-automatic-dbgsym
dh_makeshlibs -V
# MPI, where it was there, is loaded by those who train in several processes.
mpi=()
for file in debian/xtrain/usr/lib/xtrain/libxtrain_mpi*.so; do
  [ ! -e "$file" ] || mpi+=("$file")
done
dh_shlibdeps -Xlibxtrain_mpi -- -dSuggests "${mpi[@]/#/-e}" -dDepends
dh_installdeb
dh_gencontrol
dh_md5sums
mkdir -p "$out"
dh_builddeb --destdir="$out"
