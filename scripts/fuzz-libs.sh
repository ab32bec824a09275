#!/usr/bin/env bash
# libjpeg-turbo and libpng for the fuzzers, built by clang with coverage and sanitizers, from Debian's source packages of
# the versions that are installed: without them a fuzzer of images sees this program's code alone. Nothing of the system
# is changed: apt gets its lists and its state in a folder of our own.
#
#   scripts/fuzz-libs.sh FOLDER       FOLDER/lib/libjpeg.a and libpng.a, FOLDER/include
set -euo pipefail
stop() { printf 'fuzz-libs: %s\n' "$1" >&2; exit 1; }
to=$(realpath -m "${1:?the folder to build in}")
# Without the checks for undefined behaviour, with which clang 14 takes minutes over one file.
flags='-O1 -g -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer'
for tool in clang cmake apt-get dpkg-source; do
  command -v "$tool" >/dev/null || stop "$tool is missing (apt-get install clang cmake dpkg-dev); the fuzzers of images stay blind in the libraries"
done
. /etc/os-release
[ "$ID" = debian ] || stop "Debian's source packages fit Debian's libraries; the fuzzers of images stay blind in the libraries"
rm -rf "$to/source" "$to/jpeg" "$to/png"
mkdir -p "$to/apt/lists/partial" "$to/apt/archives/partial" "$to/source" "$to/lib"
echo "deb-src [signed-by=/usr/share/keyrings/$ID-archive-keyring.gpg] http://deb.debian.org/debian $VERSION_CODENAME main" >"$to/apt/sources.list"
apt=(apt-get -q -o "Dir::Etc::SourceList=$to/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State=$to/apt"
  -o "Dir::State::Lists=$to/apt/lists" -o "Dir::Cache=$to/apt" -o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User=)
"${apt[@]}" -qq update || stop 'no list of source packages can be had here'
(cd "$to/source" && "${apt[@]}" source -qq libjpeg-turbo libpng1.6 >"$to/source.log" 2>&1) || stop 'no source packages can be had here'

cmake -S "$to"/source/libjpeg-turbo-*/ -B "$to/jpeg" -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS="$flags" -DWITH_SIMD=0 -DENABLE_SHARED=0 \
  -DWITH_TURBOJPEG=0 -DWITH_JPEG8=0 -DCMAKE_BUILD_TYPE=None >"$to/jpeg.log"
cmake --build "$to/jpeg" --target jpeg-static >>"$to/jpeg.log" || stop "libjpeg-turbo does not build: $to/jpeg.log"
cmake -S "$to"/source/libpng1.6-*/ -B "$to/png" -DCMAKE_C_COMPILER=clang -DCMAKE_C_FLAGS="$flags" -DPNG_SHARED=OFF -DPNG_TESTS=OFF \
  -DPNG_HARDWARE_OPTIMIZATIONS=OFF -DCMAKE_BUILD_TYPE=None >"$to/png.log"
cmake --build "$to/png" --target png_static >>"$to/png.log" || stop "libpng does not build: $to/png.log"
cp "$to/jpeg/libjpeg.a" "$to"/png/libpng*.a "$to/lib/"
echo "fuzz-libs: $(ls "$to/lib" | tr '\n' ' ')in $to/lib"
