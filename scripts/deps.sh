#!/usr/bin/env bash
# Installs what the build needs, and only what is missing: packages of the system (by apt, as root or through a sudo
# that asks for no password) and oneDNN. Where packages are missing and cannot be installed, it prints the line that
# does and stops with exit code 2. Run again, it finds everything there and does nothing.
#
#   scripts/deps.sh           what `make`, `make demo` and `make test` need
#   scripts/deps.sh --check   also what `make check` and the fuzzers need (clang and its tools)
#   scripts/deps.sh --probe   only look; exit code 1 where something is missing
#   scripts/deps.sh --fuzzer  only look whether fuzzers can be built
#
# oneDNN comes from DNNL_ROOT where that is set, else from the system where it is recent enough, else from PyPI: two
# wheels whose checksums are pinned below, fetched by pip into deps/dnnl.
set -euo pipefail
cd "$(dirname "$0")/.."

DNNL_LEAST=3.2
WHEELS='onednn-cpu-gomp==2023.2.0 --hash=sha256:2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb
onednn-devel-cpu-gomp==2023.2.0 --hash=sha256:9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284'

# what to look for | Debian, Ubuntu | Fedora, RHEL
NEEDED='command:gcc|gcc libc6-dev|gcc
command:make|make|make
header:turbojpeg.h|libturbojpeg0-dev|turbojpeg-devel
header:png.h|libpng-dev|libpng-devel
header:yaml.h|libyaml-dev|libyaml-devel
header:cjson/cJSON.h|libcjson-dev|cjson-devel
header:archive.h|libarchive-dev|libarchive-devel
header:cmocka.h|libcmocka-dev|libcmocka-devel'
NEEDED_FOR_WHEELS='python:ensurepip|python3-venv ca-certificates|python3 python3-pip'
NEEDED_FOR_CHECK='command:clang|clang libclang-rt-dev|clang compiler-rt
fuzzer:|clang libclang-rt-dev|clang compiler-rt
omp:|libomp-dev|libomp-devel
command:clang-format|clang-format|clang-tools-extra
command:clang-tidy|clang-tidy|clang-tools-extra'

say() { printf 'deps: %s\n' "$*"; }
stop() { printf 'deps: %s\n' "$*" >&2; exit 2; }

# --- is it there? --------------------------------------------------------------------------------
headers_compile() {
  local header
  for header in "$@"; do echo "#include <$header>"; done |
    gcc -xc -fsyntax-only -include stdarg.h -include stddef.h -include stdint.h -include stdio.h -include setjmp.h - 2>/dev/null
}

is_there() {
  local kind=${1%%:*} name=${1#*:}
  case $kind in
    command) command -v "$name" >/dev/null ;;
    header) headers_compile "$name" ;;
    python) python3 -c "import venv, $name" 2>/dev/null ;;
    omp) echo '#include <omp.h>' | clang -xc -fsyntax-only - 2>/dev/null ;;
    fuzzer) echo 'int LLVMFuzzerTestOneInput(const char *p, long n) { return !p && n; }' |
      clang -xc - -fsanitize=fuzzer,address -o /dev/null 2>/dev/null ;;
  esac
}

# The lines of a table whose thing is not there.
missing_of() {
  local what apt dnf
  while IFS='|' read -r what apt dnf; do
    is_there "$what" || printf '%s|%s|%s\n' "$what" "$apt" "$dnf"
  done <<<"$1"
}

# --- oneDNN --------------------------------------------------------------------------------------
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The version that the headers in a folder state.
dnnl_header_version() {
  local file=$1/oneapi/dnnl/dnnl_version.h
  [ -f "$file" ] || file=$1/oneapi/dnnl/dnnl_version.h.in
  [ -f "$file" ] || return 0
  awk '$2 == "DNNL_VERSION_MAJOR" { major = $3 } $2 == "DNNL_VERSION_MINOR" { minor = $3 }
       END { if (major != "") print major "." minor }' "$file"
}

dnnl_in_deps() { [ -e deps/dnnl/lib/libdnnl.so.3 ] && [ -e deps/dnnl/include/oneapi/dnnl/dnnl.h ]; }

dnnl_of_system() {
  local folder version
  for folder in /usr/include /usr/local/include /usr/include/x86_64-linux-gnu; do
    version=$(dnnl_header_version "$folder")
    if [ -n "$version" ] && at_least "$version" "$DNNL_LEAST"; then return 0; fi
  done
  return 1
}

dnnl_is_there() {
  if [ -n "${DNNL_ROOT:-}" ]; then
    [ "$(cat deps/dnnl/from 2>/dev/null)" = "$DNNL_ROOT" ] && dnnl_in_deps
  else
    dnnl_in_deps || dnnl_of_system
  fi
}

# Puts a new deps/dnnl in place of an old one, whole or not at all.
place_dnnl() { rm -rf deps/dnnl && mv deps/dnnl.part deps/dnnl; }

dnnl_from_root() {
  local version lib
  version=$(dnnl_header_version "$DNNL_ROOT/include")
  [ -n "$version" ] || stop "DNNL_ROOT=$DNNL_ROOT holds no oneDNN: include/oneapi/dnnl/dnnl_version.h is missing there"
  at_least "$version" "$DNNL_LEAST" || stop "DNNL_ROOT=$DNNL_ROOT is oneDNN $version; $DNNL_LEAST or later is needed"
  for lib in "$DNNL_ROOT"/lib "$DNNL_ROOT"/lib64 "$DNNL_ROOT"/lib/*-linux-gnu; do
    [ -e "$lib/libdnnl.so.3" ] && break
  done
  [ -e "$lib/libdnnl.so.3" ] || stop "DNNL_ROOT=$DNNL_ROOT has no lib/libdnnl.so.3"
  rm -rf deps/dnnl.part && mkdir -p deps/dnnl.part
  ln -s "$(realpath "$DNNL_ROOT/include")" deps/dnnl.part/include
  ln -s "$(realpath "$lib")" deps/dnnl.part/lib
  echo "$DNNL_ROOT" >deps/dnnl.part/from
  place_dnnl
  say "oneDNN $version from $DNNL_ROOT"
}

# Of the wheels' files, the library once (they carry it under three names), the headers and the licences.
unpack_wheels='
import pathlib, shutil, sys, zipfile
target = pathlib.Path(sys.argv[1])
for wheel in sys.argv[2:]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, data, path = name.partition(".data/data/")
            if not data or path in ("lib/libdnnl.so", "lib/libdnnl.so.3.2") or path.startswith("lib/cmake/"):
                continue
            place = target / path
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, open(place, "wb") as out:
                shutil.copyfileobj(source, out)
(target / "lib/libdnnl.so.3").chmod(0o755)
'

dnnl_from_wheels() {
  local log=deps/pip.log reason
  say "fetching oneDNN 3.2 (PyPI: onednn-cpu-gomp 2023.2.0, 39 MB) into deps/dnnl"
  rm -rf deps/venv deps/wheels deps/dnnl.part
  mkdir -p deps/wheels
  python3 -m venv deps/venv >"$log" 2>&1 || stop "python3 -m venv failed: $(tail -n 1 "$log")"
  printf '%s\n' "$WHEELS" >deps/wheels/requirements.txt
  if ! deps/venv/bin/pip download --disable-pip-version-check --progress-bar off --no-input --no-cache-dir --no-deps \
    --require-hashes --only-binary :all: -d deps/wheels -r deps/wheels/requirements.txt >>"$log" 2>&1; then
    if grep -q 'DO NOT MATCH THE HASHES' "$log"; then
      reason='a downloaded wheel is not the one whose checksum is pinned here, and was thrown away; look at your package mirror'
    elif grep -qiE 'connection|name resolution|timed out|proxy|from versions: none' "$log"; then
      reason='PyPI could not be reached from here, or does not have it: look at the network, proxy and mirror settings'
    else
      reason="pip could not fetch oneDNN: $(grep -a ERROR "$log" | tail -n 1)"
    fi
    rm -rf deps/venv deps/wheels
    stop "$reason (the whole of it: $log). Run \"make deps\" again, or set DNNL_ROOT to an oneDNN $DNNL_LEAST or later of your own"
  fi
  deps/venv/bin/python -c "$unpack_wheels" deps/dnnl.part deps/wheels/*.whl
  echo 'PyPI onednn-cpu-gomp 2023.2.0' >deps/dnnl.part/from
  place_dnnl
  rm -rf deps/venv deps/wheels "$log"
}

# --- packages ------------------------------------------------------------------------------------
unique() { tr ' ' '\n' | awk 'NF && !seen[$0]++' | paste -sd ' '; }

SUDO=
can_be_root() {
  [ "$(id -u)" = 0 ] && return 0
  command -v sudo >/dev/null && sudo -n true 2>/dev/null && SUDO='sudo -n'
}

apt_install() {
  local log
  log=$(mktemp)
  apt_once() {
    $SUDO env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=120 \
      -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1
  }
  # Old package lists ask for files that are gone: one fresh look at the mirror, and again.
  if ! apt_once "$@"; then
    apt_update
    apt_once "$@" || { cat "$log" >&2; rm -f "$log"; stop 'apt-get could not install the packages: see above'; }
  fi
  rm -f "$log"
}

apt_update() { $SUDO apt-get update -qq </dev/null || stop 'apt-get update failed: see above'; }

apt_candidate() { apt-cache policy "$1" 2>/dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'; }

# What the missing packages are called here; the line to type where they cannot be installed from here.
install_packages() {
  local missing=$1 apt dnf
  apt=$(cut -d '|' -f 2 <<<"$missing" | unique)
  dnf=$(cut -d '|' -f 3 <<<"$missing" | unique)
  if command -v apt-get >/dev/null; then
    can_be_root || stop "packages are missing and this is not root. Type:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends $apt
and then the same make command again."
    say "installing $apt"
    # shellcheck disable=SC2086 # a list of names
    apt_install $apt
  elif command -v dnf >/dev/null; then
    stop "packages are missing. Type:
  sudo dnf install -y $dnf
and then the same make command again."
  else
    stop "packages are missing, and this system has neither apt nor dnf. They are called on Debian: $apt; on Fedora: $dnf"
  fi
}

# --- main ----------------------------------------------------------------------------------------
mode=${1:-}
case $mode in
  '' | --check | --probe) ;;
  --fuzzer)
    is_there fuzzer: && is_there omp:
    exit
    ;;
  *) stop "unknown option $mode (--check, --probe and --fuzzer are known)" ;;
esac

all_headers=$(sed -n 's/^header:\([^|]*\)|.*/\1/p' <<<"$NEEDED")
# shellcheck disable=SC2086 # one look at all headers is ten times quicker than one at each
if headers_compile $all_headers; then missing=; else missing=$(missing_of "$NEEDED"); fi

if [ "$mode" = --probe ]; then
  [ -z "$missing" ] && dnnl_is_there && exit 0
  echo 'Some of what the build needs is missing. Run: make deps' >&2
  exit 1
fi
[ "$mode" != --check ] || missing+=${missing:+$'\n'}$(missing_of "$NEEDED_FOR_CHECK")

if ! dnnl_is_there && [ -z "${DNNL_ROOT:-}" ]; then
  if command -v apt-get >/dev/null; then
    if [ -z "$(apt_candidate libturbojpeg0-dev)" ] && can_be_root; then apt_update; fi
    candidate=$(apt_candidate libdnnl-dev)
  fi
  if [ -n "${candidate:-}" ] && at_least "$candidate" "$DNNL_LEAST"; then
    missing+=${missing:+$'\n'}'header:oneapi/dnnl/dnnl.h|libdnnl-dev|onednn-devel'
  else
    [ "$(uname -m)" = x86_64 ] ||
      stop "PyPI has no oneDNN for $(uname -m): set DNNL_ROOT to an oneDNN $DNNL_LEAST or later of your own"
    lack=$(missing_of "$NEEDED_FOR_WHEELS")
    missing+=${missing:+${lack:+$'\n'}}$lack
  fi
fi

[ -z "$missing" ] || install_packages "$missing"
if ! dnnl_is_there; then
  mkdir -p deps
  if [ -n "${DNNL_ROOT:-}" ]; then dnnl_from_root; else dnnl_from_wheels; fi
fi
[ -z "$missing" ] || say 'everything is there'
