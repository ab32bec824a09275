#!/usr/bin/env bash
# Installs what the build needs, and only what is missing: packages of the system (by apt, as root or through a sudo
# that asks for no password) and oneDNN. Where packages are missing and cannot be installed, it prints the line that
# does and stops with exit code 2. Run again, it finds everything there and does nothing.
#
#   scripts/deps.sh           what `make`, `make demo` and `make test` need
#   scripts/deps.sh --check   also what `make check`, the fuzzers and the tests of reports, services and exported models need
#                             (clang and its tools, abidiff, ab, curl, Chromium, and a Python with onnxruntime, openvino
#                             and TensorBoard in deps/python)
#   scripts/deps.sh --probe   only look; exit code 1 where something is missing
#   scripts/deps.sh --fuzzer  only look whether fuzzers can be built
#
# With XPU=1 in the environment also what Intel GPUs need: oneDNN's GPU build in deps/xpu (from DNNL_ROOT_XPU where that
# is set, else wheels from PyPI) and the Level Zero loader; with --check also what the XPU tests need: Debian 12's OpenCL
# driver, and a current one unpacked in deps/driver, pinned by hash, which is not installed (DRIVER_ANY=1: whichever
# version the mirror has). With MPI=1 also
# Open MPI, with which several processes train together.
#
# oneDNN comes from DNNL_ROOT where that is set, else from the system where it is recent enough, else from PyPI: two
# wheels whose checksums are pinned below, fetched by pip into deps/dnnl.
set -euo pipefail
cd "$(dirname "$0")/.."

DNNL_LEAST=3.2
WHEELS='onednn-cpu-gomp==2023.2.0 --hash=sha256:2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb
onednn-devel-cpu-gomp==2023.2.0 --hash=sha256:9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284'

# The GPU build and what it loads; what it does not load (icpx's parts, OpenMP, the JIT of SYCL) is omitted.
XPU_WHEELS='onednn==2026.1.0 --hash=sha256:b04a8ffa6ebcd011f1091902d59d9707c2f620cce626fba2961520c671f3247f
intel-sycl-rt==2026.2.0 --hash=sha256:ad920da1ffcb43edbc03422a7c85094997e6d578f9ab534743442af70bcbfaa1
intel-cmplr-lib-rt==2026.2.0 --hash=sha256:9f713083073a820d2496a6da8e8d4f3482aba6640f74521d25ea48dcebe72748
intel-cmplr-lib-ur==2026.2.0 --hash=sha256:0d0a5099aa2e1e38375b509c2a8182e719ed74aa656b2a800ddf6cfbd3384b80
intel-opencl-rt==2026.2.0 --hash=sha256:6b6215a420598b4999ee01caca6d5cbe106aa4155c46c52377619c5aafce9f67
tbb==2023.2.0 --hash=sha256:7d80615b6e970f11671fa05b6eaa9483ac864fbfe525ac280271a78b37870b7c
tcmlib==1.6.0 --hash=sha256:46c2491988bfd18c4733eeb08aca6a386706a497b92cc51d155f37ddea003c14
umf==1.2.0 --hash=sha256:238d186fdd9e9c0fe1489da95b19b0b79045fe26c4aa98bd0a022a2a3603c195'

# A current OpenCL driver for Intel GPUs and what it needs, up to the C library, as Debian packages: a suite, then
# package=version and SHA-256.
DRIVER_SUITE=forky
DRIVER_DEBS='intel-opencl-icd=26.27.39122.14-1 40e8379998daa61a60eee8aa4abf94e11e5091fcc27331ce01b77af42bebc1e0
libigc2=2.40.14-1 5ccd335c0427ece223409aafa83e7fbf0980663015dd31cf0bbd4268bb7b4831
libigdfcl2=2.40.14-1 c9e5330906410dec170ffc11427255af0fb66f7914eb8a2cb789496443b9a384
libigdgmm12=22.10.2+ds1-1 d2ea0471f2a5c874ef27097bcf0eb484adea18ad24ce5c1f8006d33517de15e2
libc6=2.43-7 5c71715c51103beb4fbba9fe9f8dff604af6610dfa71c70bff342f54a7860803
libgcc-s1=16.2.0-3 e716dc8baad27e884c45ff83a76955047a7a9e33a80e94f9459ee996ebb800b0
libstdc++6=16.2.0-3 7c9e1a89e6c0b9202699957b469c06d0b86f5c97e86c1ff912b6502ddd8793b6
zlib1g=1:1.3.dfsg+really1.3.2-3 52c585b07bea72ef36df9ddd5d1937f4739d3caec057d827954baec256292651'

# What runs exported models and reads events in tests: these, and what they bring. Without it the tests are skipped.
PYTHON_WHEELS='numpy<3
onnx==1.23.2
onnxruntime==1.31.1
openvino==2026.4.1
pillow<13
tensorboard==2.21.0'

# what to look for | Debian, Ubuntu | Fedora, RHEL
NEEDED='command:gcc|gcc libc6-dev|gcc
command:g++|g++|gcc-c++
command:make|make|make
header:png.h|libpng-dev|libpng-devel
header:webp/decode.h|libwebp-dev|libwebp-devel
header:libexif/exif-data.h|libexif-dev|libexif-devel
header:yaml.h|libyaml-dev|libyaml-devel
header:cjson/cJSON.h|libcjson-dev|cjson-devel
header:archive.h|libarchive-dev|libarchive-devel
header:jpeglib.h|libjpeg-dev|libjpeg-turbo-devel
header:protobuf-c/protobuf-c.h|libprotobuf-c-dev|protobuf-c-devel
command:protoc-c|protobuf-c-compiler|protobuf-c-compiler
schema:onnx|libonnx-dev|onnx-devel
header:level_zero/zes_api.h|libze-dev|oneapi-level-zero-devel
header:microhttpd.h|libmicrohttpd-dev|libmicrohttpd-devel
header:cmocka.h|libcmocka-dev|libcmocka-devel'
NEEDED_FOR_WHEELS='python:ensurepip|python3-venv ca-certificates|python3 python3-pip'
NEEDED_FOR_CHECK='command:clang|clang libclang-rt-dev|clang compiler-rt
fuzzer:|clang libclang-rt-dev|clang compiler-rt
omp:|libomp-dev|libomp-devel
command:clang-format|clang-format|clang-tools-extra
command:clang-tidy|clang-tidy|clang-tools-extra
command:abidiff|abigail-tools|libabigail
command:ab|apache2-utils|httpd-tools
command:curl|curl ca-certificates|curl
command:pkg-config|pkgconf|pkgconf-pkg-config'
NEEDED_FOR_XPU='library:libze_loader.so.1|libze1|oneapi-level-zero'
# The capture mode of Intel's driver is tested with Debian 12's alone.
NEEDED_FOR_XPU_CHECK='library:intel-opencl/libigdrcl.so|intel-opencl-icd|intel-opencl'

NEEDED_FOR_MPI='command:mpicc|libopenmpi-dev|openmpi-devel
command:mpirun|openmpi-bin|openmpi'

say() { printf 'deps: %s\n' "$*"; }
stop() { printf 'deps: %s\n' "$*" >&2; exit 2; }

# --- is it there? --------------------------------------------------------------------------------
headers_compile() {
  local header
  for header in "$@"; do echo "#include <$header>"; done |
    gcc -xc -fsyntax-only -include stdarg.h -include stddef.h -include stdint.h -include stdio.h -include setjmp.h - 2>/dev/null
}

library_is_there() {
  local folder
  for folder in /usr/lib/*-linux-gnu /usr/lib64 /usr/lib /usr/local/lib /usr/local/lib64; do
    [ ! -e "$folder/$1" ] || return 0
  done
  return 1
}

is_there() {
  local kind=${1%%:*} name=${1#*:}
  case $kind in
    command) command -v "$name" >/dev/null ;;
    library) library_is_there "$name" ;;
    header) headers_compile "$name" ;;
    schema) compgen -G "/usr/include/$name/$name*.proto" >/dev/null || compgen -G "/usr/local/include/$name/$name*.proto" >/dev/null ;;
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

# Fetches the wheels of a table into deps/wheels, with a Python in deps/venv, or says why not. $2: what to set instead.
fetch_wheels() {
  local log=deps/pip.log reason
  rm -rf deps/venv deps/wheels
  mkdir -p deps/wheels
  python3 -m venv deps/venv >"$log" 2>&1 || stop "python3 -m venv failed: $(tail -n 1 "$log")"
  printf '%s\n' "$1" >deps/wheels/requirements.txt
  if ! deps/venv/bin/pip download --disable-pip-version-check --progress-bar off --no-input --no-cache-dir --no-deps \
    --require-hashes --only-binary :all: -d deps/wheels -r deps/wheels/requirements.txt >>"$log" 2>&1; then
    if grep -q 'DO NOT MATCH THE HASHES' "$log"; then
      reason='a downloaded wheel is not the one whose checksum is pinned here, and was thrown away; look at your package mirror'
    elif grep -qiE 'connection|name resolution|timed out|proxy|from versions: none' "$log"; then
      reason='PyPI could not be reached from here, or does not have it: look at the network, proxy and mirror settings'
    elif grep -qi 'no space left' "$log"; then
      reason='the disk is full'
    else
      reason="pip could not fetch oneDNN: $(grep -a ERROR "$log" | tail -n 1)"
    fi
    rm -rf deps/venv deps/wheels
    stop "$reason (the whole of it: $log). Run \"make deps\" again, or set $2 to an oneDNN $DNNL_LEAST or later of your own"
  fi
}

dnnl_from_wheels() {
  say "fetching oneDNN 3.2 (PyPI: onednn-cpu-gomp 2023.2.0, 39 MB) into deps/dnnl"
  rm -rf deps/dnnl.part
  fetch_wheels "$WHEELS" DNNL_ROOT
  deps/venv/bin/python -c "$unpack_wheels" deps/dnnl.part deps/wheels/*.whl
  echo 'PyPI onednn-cpu-gomp 2023.2.0' >deps/dnnl.part/from
  place_dnnl
  rm -rf deps/venv deps/wheels deps/pip.log
}

# --- oneDNN's GPU build --------------------------------------------------------------------------
xpu_in_deps() { [ -e deps/xpu/lib/libdnnl.so.3 ] && [ -e deps/xpu/from ]; }

xpu_is_there() {
  if [ -n "${DNNL_ROOT_XPU:-}" ]; then
    xpu_in_deps && [ "$(cat deps/xpu/from)" = "$DNNL_ROOT_XPU" ]
  else
    xpu_in_deps
  fi
}

place_xpu() { rm -rf deps/xpu && mv deps/xpu.part deps/xpu; }

xpu_from_root() {
  local lib
  for lib in "$DNNL_ROOT_XPU"/lib "$DNNL_ROOT_XPU"/lib64 "$DNNL_ROOT_XPU"/lib/*-linux-gnu; do
    [ -e "$lib/libdnnl.so.3" ] && break
  done
  [ -e "$lib/libdnnl.so.3" ] || stop "DNNL_ROOT_XPU=$DNNL_ROOT_XPU has no lib/libdnnl.so.3"
  rm -rf deps/xpu.part && mkdir -p deps/xpu.part
  ln -s "$(realpath "$lib")" deps/xpu.part/lib
  echo "$DNNL_ROOT_XPU" >deps/xpu.part/from
  place_xpu
  say "oneDNN's GPU build from $DNNL_ROOT_XPU; \"xtrain doctor\" says whether it serves"
}

# Of each wheel the libraries that are used, once: they carry a library under up to three names, of which the longest
# is the file here and the others are links. And every licence.
unpack_xpu='
import hashlib, os, pathlib, re, shutil, sys, zipfile
target = pathlib.Path(sys.argv[1])
wanted = re.compile(r"lib/(libdnnl|libsycl|libur_loader|libur_adapter_level_zero(_v2)?|libOpenCL|libintelocl|libcommon_clang|"
                    r"libocl_svml_..|libimf|libsvml|libirng|libintlc|libtbb|libtbbmalloc|libtbbbind(_2_[05])?|libhwloc|"
                    r"libumf)[.]so[0-9.]*|lib/cl[a-z0-9]*[.](rtl|o|cfg)|include/CL/(cl[a-z_0-9]*|opencl)[.]h")
(target / "lib").mkdir(parents=True)
for wheel in sys.argv[2:]:
    package = pathlib.Path(wheel).name.split("-")[0]
    with zipfile.ZipFile(wheel) as archive:
        first = {}
        for name in sorted(archive.namelist(), key=lambda name: (-len(name), name)):
            inner = name.partition(".data/data/")[2]
            if wanted.fullmatch(inner):
                with archive.open(name) as source:
                    digest = hashlib.file_digest(source, "sha256").digest() if hasattr(hashlib, "file_digest") \
                        else hashlib.sha256(source.read()).digest()
                place = target / inner
                if digest in first:
                    os.symlink(first[digest], place)
                    continue
                first[digest] = place.name
            elif ".dist-info/LICENSE" in name or re.search("share/doc/.*(license|EULA|third-party|_TPP)", inner, re.I):
                place = target / "licences" / (package + "-" + pathlib.Path(name).name)
            else:
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, open(place, "wb") as out:
                shutil.copyfileobj(source, out)
'

xpu_from_wheels() {
  local free
  [ "$(uname -m)" = x86_64 ] || stop "PyPI has no GPU build of oneDNN for $(uname -m): set DNNL_ROOT_XPU to one of your own"
  mkdir -p deps
  free=$(df -Pm deps | awk 'NR == 2 { print $4 }')
  [ "$free" -ge 1700 ] || stop "oneDNN's GPU build needs 1700 MB of disk while it is unpacked; $free MB are free here"
  say "fetching oneDNN 3.13 for Intel GPUs (PyPI: onednn 2026.1.0 and what it loads, 580 MB) into deps/xpu"
  rm -rf deps/xpu.part
  fetch_wheels "$XPU_WHEELS" DNNL_ROOT_XPU
  deps/venv/bin/python -c "$unpack_xpu" deps/xpu.part deps/wheels/*.whl
  echo 'PyPI onednn 2026.1.0' >deps/xpu.part/from
  place_xpu
  rm -rf deps/venv deps/wheels deps/pip.log
}

# --- what the test of a run's page looks with ----------------------------------------------------
# It is skipped without: where it is not to be had (Ubuntu has Chromium as a snap alone), that is said, and no more.
browser_for_tests() {
  ! command -v chromium >/dev/null || return 0
  if command -v apt-get >/dev/null && can_be_root; then
    [ -n "$(apt_candidate chromium)" ] || apt_update
    if [ -n "$(apt_candidate chromium)" ]; then
      say 'installing chromium fonts-noto-cjk'
      apt_install chromium fonts-noto-cjk
      return
    fi
  fi
  say 'Chromium is not here and not to be had: the test that looks at pages will be skipped'
}

# --- a Python that runs exported models and reads events ------------------------------------------
python_is_there() { [ "$(cat deps/python/from 2>/dev/null)" = "$PYTHON_WHEELS" ]; }

# No failure: all else can be done without.
fetch_python() {
  local log=deps/pip-python.log
  rm -rf deps/python
  say "fetching onnxruntime, openvino and TensorBoard (PyPI, 140 MB) into deps/python, for the tests of exported models and events"
  if python3 -m venv deps/python >"$log" 2>&1 &&
    deps/python/bin/pip install --disable-pip-version-check --progress-bar off --no-input --no-cache-dir \
      --only-binary :all: -r <(printf '%s\n' "$PYTHON_WHEELS") >>"$log" 2>&1; then
    printf '%s\n' "$PYTHON_WHEELS" >deps/python/from
    rm -f "$log"
  else
    rm -rf deps/python
    say "they could not be had, so those tests will be skipped: $(grep -aE 'ERROR|rror:' "$log" | tail -n 1) (the whole of it: $log)"
  fi
}

# --- a current driver for Intel GPUs, for tests in its capture mode -------------------------------
driver_is_there() {
  [ "$(cat deps/driver/from 2>/dev/null)" = "$DRIVER_DEBS" ] || { [ "${DRIVER_ANY:-0}" = 1 ] && [ -e deps/driver/from ]; }
}

# apt with an empty state of its own: nothing of the system is read or changed but its trusted keys.
driver_apt() {
  local at=$PWD/deps/driver.part
  (cd "$at" && DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dir::State="$at/state" -o Dir::State::status="$at/status" \
    -o Dir::Cache="$at/cache" -o Dir::Etc::sourcelist="$at/sources.list" -o Dir::Etc::sourceparts=- -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o APT::Install-Recommends=0 "$@" </dev/null >>"$at/log" 2>&1)
}

# The packages into deps/driver.part/debs; on failure the reason in $reason.
driver_debs() {
  local at=deps/driver.part mirror keys= pin hash keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
  [ -n "$mirror" ] || { reason='apt here has no mirror of Debian'; return 1; }
  mkdir -p $at/state/lists/partial $at/cache/archives/partial $at/debs
  : >$at/status
  [ ! -e $keyring ] || keys="[signed-by=$keyring]"
  echo "deb $keys $mirror $DRIVER_SUITE main" >$at/sources.list
  driver_apt update || { reason="apt could not read $DRIVER_SUITE: $(tail -n 1 $at/log)"; return 1; }
  if [ "${DRIVER_ANY:-0}" = 1 ]; then
    driver_apt install -y -d intel-opencl-icd || { reason="apt could not fetch it: $(tail -n 1 $at/log)"; return 1; }
    mv $at/cache/archives/*.deb $at/debs
    return
  fi
  while read -r pin hash; do
    driver_apt download "$pin" || {
      reason="$pin is not on the mirror any more; DRIVER_ANY=1 takes the version that is there"
      return 1
    }
    echo "$hash  $(echo $at/"${pin%%=*}"_*.deb)" | sha256sum --quiet -c - >>$at/log 2>&1 || {
      reason="$pin is not the file whose checksum is pinned here"
      return 1
    }
    mv $at/"${pin%%=*}"_*.deb $at/debs
  done <<<"$DRIVER_DEBS"
}

# No failure: the tests of other GPUs than an A770 are skipped without.
fetch_driver() {
  local reason deb at=deps/driver.part
  [ "$(uname -m)" = x86_64 ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    say 'a current OpenCL driver is taken from Debian packages alone: tests with it will be skipped'
    return
  }
  rm -rf $at
  mkdir -p $at/root
  say "fetching Intel's OpenCL driver of Debian $DRIVER_SUITE (75 MB) into deps/driver, for tests as GPUs that are not here"
  if ! driver_debs; then
    cp $at/log deps/driver.log 2>/dev/null || true
    rm -rf $at
    say "it could not be had, so those tests will be skipped: $reason (the whole of it: deps/driver.log)"
    return
  fi
  for deb in $at/debs/*.deb; do dpkg-deb -x "$deb" $at/root; done
  # The OpenCL loader is oneDNN's.
  rm -f $at/root/usr/lib/*/libOpenCL.so*
  if [ "${DRIVER_ANY:-0}" = 1 ]; then ls $at/debs; else echo "$DRIVER_DEBS"; fi >$at/root/from
  rm -rf deps/driver
  mv $at/root deps/driver
  rm -rf $at
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
if headers_compile $all_headers && is_there command:g++ && is_there command:protoc-c && is_there schema:onnx; then missing=; else missing=$(missing_of "$NEEDED"); fi

if [ "$mode" = --probe ]; then
  [ -z "$missing" ] && dnnl_is_there && exit 0
  echo 'Some of what the build needs is missing. Run: make deps' >&2
  exit 1
fi
[ "$mode" != --check ] || missing+=${missing:+$'\n'}$(missing_of "$NEEDED_FOR_CHECK"$'\n'"$NEEDED_FOR_WHEELS")

if ! dnnl_is_there && [ -z "${DNNL_ROOT:-}" ]; then
  if command -v apt-get >/dev/null; then
    if [ -z "$(apt_candidate libpng-dev)" ] && can_be_root; then apt_update; fi
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

xpu=
if [ "${XPU:-0}" = 1 ]; then
  xpu=yes
  table=$NEEDED_FOR_XPU
  [ -n "${DNNL_ROOT_XPU:-}" ] || table+=$'\n'$NEEDED_FOR_WHEELS
  [ "$mode" != --check ] || table+=$'\n'$NEEDED_FOR_XPU_CHECK
  lack=$(missing_of "$table")
  missing+=${missing:+${lack:+$'\n'}}$lack
fi

if [ "${MPI:-0}" = 1 ]; then
  lack=$(missing_of "$NEEDED_FOR_MPI")
  missing+=${missing:+${lack:+$'\n'}}$lack
fi

[ -z "$missing" ] || install_packages "$missing"
if ! dnnl_is_there; then
  mkdir -p deps
  if [ -n "${DNNL_ROOT:-}" ]; then dnnl_from_root; else dnnl_from_wheels; fi
fi
if [ -n "$xpu" ] && ! xpu_is_there; then
  mkdir -p deps
  if [ -n "${DNNL_ROOT_XPU:-}" ]; then xpu_from_root; else xpu_from_wheels; fi
fi
if [ "$mode" = --check ]; then
  browser_for_tests
  python_is_there || fetch_python
  [ -z "$xpu" ] || driver_is_there || fetch_driver
fi
[ -z "$missing" ] || say 'everything is there'
