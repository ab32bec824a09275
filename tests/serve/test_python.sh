#!/usr/bin/env bash
# The module xtrain reads pictures with the library of the build tree; with XTRAIN_TEST_ALL=1 also out of the wheel, in an
# empty virtual environment without numpy.
. tests/serve/common.sh
root=$OLDPWD
python=${XTRAIN_PYTHON:-$root/deps/python/bin/python}
[ -x "$python" ] || python=$(command -v python3) || { echo 'skipped: python3 is not here'; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
PYTHONPATH=$root/python XTRAIN_LIBRARY=$(dirname "$xtrain")/libxtrain.so.1 "$python" "$root/tests/serve/read_module.py" "$weights" ||
  fail 'the module'
# Without the library a sentence of the loader says what is missing.
expect 1 'nowhere.so' env PYTHONPATH="$root/python" XTRAIN_LIBRARY=nowhere.so "$python" -c 'import xtrain; xtrain.version()'

[ -n "${XTRAIN_TEST_ALL:-}" ] || exit 0
python3 -c 'import venv, ensurepip' 2>/dev/null || { echo 'skipped: python3-venv is not here'; exit 77; }
unset XTRAIN_DNNL
version=$("$xtrain" --version | sed -n '1s/^xtrain //p')
"$root/scripts/wheel.sh" "$xtrain" "$version" "$tree/dist" >said || fail 'no wheel' "$(cat said)"
python3 -m venv "$tree/venv"
expect 0 '' "$tree/venv/bin/pip" install --no-index --disable-pip-version-check dist/*.whl
expect 0 "xtrain $version" "$tree/venv/bin/xtrain" --version
expect 0 'model: lprnet ' "$tree/venv/bin/xtrain" --config lprnet --print-config
expect 0 '' "$tree/venv/bin/xtrain" selftest --small --threads 1
expect 0 'without numpy' "$tree/venv/bin/python" "$root/tests/serve/read_module.py" "$weights"
# On a machine without libgomp of its own.
libgomp=$(realpath "$(/sbin/ldconfig -p | awk '$1 == "libgomp.so.1" { print $NF; exit }')")
if unshare -m mount --bind /dev/null "$libgomp" 2>/dev/null; then
  expect 0 'without numpy' unshare -m sh -c 'mount --bind /dev/null "$1" && shift && "$@"' sh "$libgomp" \
    "$tree/venv/bin/python" "$root/tests/serve/read_module.py" "$weights"
fi
[ -s venv/share/man/man1/xtrain.1 ] || fail 'no manual page' "$(find venv/share)"
expect 0 "Successfully uninstalled" "$tree/venv/bin/pip" uninstall -y xtrain
left=$(find venv -path '*xtrain*' -not -name '*.pyc' -type f)
[ -z "$left" ] || fail 'these files stay' "$left"
