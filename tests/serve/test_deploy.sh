#!/usr/bin/env bash
# libxtrain as it is installed, and the commands and programs of docs/deploy.md: each is run as it stands there.
. tests/serve/common.sh
root=$OLDPWD
page=$root/docs/deploy.md
image=$images/ycc_444.jpg
for tool in python3 curl pkg-config; do command -v $tool >/dev/null || { echo "skipped: $tool is not here"; exit 77; }; done

# The block of a language in a section of the page.
block() { awk -v section="## $1" -v fence="\`\`\`$2" '/^##* /{ here = ($0 == section) } /^```$/{ inside = 0 } inside; here && index($0, fence) == 1 { inside = 1 }' "$page"; }

(cd "$root" && scripts/install.sh "$xtrain" "$tree/prefix") >said || fail "$(cat said)"
cp "$image" car.jpg && ln -s run/last.safetensors best.safetensors && mkdir runs && ln -s "$tree/run" runs/a
expect 0 '' "$xtrain" predict best.safetensors car.jpg --threads 1 --quiet
answer=$(cut -f 1-3 <<<"$said")

# Nothing but the functions of the header can be seen, in their version.
nm -D --defined-only prefix/lib/libxtrain.so.1 | awk '$2 != "A" { print $3 }' | sort >seen
grep -oE '\bxtrain_[a-z_]+\(' prefix/include/xtrain.h | tr -d '(' | sort -u | sed 's/$/@@XTRAIN_1/' >meant
diff meant seen || fail 'not the functions of xtrain.h'
[ "$(readelf -d prefix/lib/libxtrain.so.1 | sed -n 's/.*soname: \[\(.*\)\]/\1/p')" = libxtrain.so.1 ] || fail 'the soname'

# The program in C, and in C++; from a folder from which oneDNN is only found beside the library.
unset XTRAIN_DNNL
export PKG_CONFIG_PATH=$tree/prefix/lib/pkgconfig LD_LIBRARY_PATH=$tree/prefix/lib OMP_NUM_THREADS=1
block C c >read.c
[ "$(wc -l <read.c)" -le 31 ] || fail 'the example is long'
bash -euo pipefail <(block C 'sh not-run: tests/serve') >out 2>said || fail "$(cat out said)"
[ "$(cut -f 1-3 out)" = "$answer" ] || fail 'the program in C says something else' "$(cat out)" "$answer"
[ ! -s said ] || fail 'it prints on its own' "$(cat said)"
expect 1 'nowhere.safetensors' ./read nowhere.safetensors
# A guest: it asks OpenMP for a short spin, but not one that the process had before.
expect 0 "GOMP_SPINCOUNT = '600'" env OMP_DISPLAY_ENV=verbose ./read best.safetensors car.jpg
expect 0 "GOMP_SPINCOUNT = '300000'" env OMP_DISPLAY_ENV=verbose LD_PRELOAD=libgomp.so.1 ./read best.safetensors car.jpg
expect 0 'not a JPEG, PNG or WebP' ./read best.safetensors read.c
cc -std=c99 -pedantic -Wall -Werror -fsyntax-only $(pkg-config --cflags xtrain) read.c
if command -v g++ >/dev/null; then echo '#include <xtrain.h>' | g++ -xc++ -Wall -Werror -fsyntax-only $(pkg-config --cflags xtrain) -; fi

# The one in Python.
block Python python >read.py
PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1 python3 read.py best.safetensors car.jpg >out || fail 'the program in Python fails'
[ "$(cat out)" = "$answer" ] || fail 'the program in Python says something else' "$(cat out)" "$answer"

# The commands, with a free port; a service is ready when it says so.
unset LD_LIBRARY_PATH
mkdir bin && printf '#!/bin/sh\nexec "%s" "$@" --threads 1\n' "$xtrain" >bin/xtrain && chmod +x bin/xtrain
PATH=$tree/bin:$PATH
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
curl_waits="curl() { command curl -sS --fail --retry 100 --retry-delay 1 --retry-connrefused --retry-all-errors --max-time 20 \"\$@\"; echo; }"
cp car.jpg street.jpg
python3 -c 'import sys; sys.stdout.buffer.write(bytes(640 * 480 * 3 * 2))' >frames.rgb
python3 -c 'import sys; b = open("car.jpg", "rb").read(); sys.stdout.buffer.write(len(b).to_bytes(4, "big") + b)' >images.bin
echo car.jpg >list.txt
top() { awk '/^```$/{ exit } inside; /^```sh not-run: tests\/serve/{ inside = 1 }' "$page"; }
{ echo 'set -m'; echo "$curl_waits"; top | sed "s/127.0.0.1:8080/127.0.0.1:$port/g; s/310,200,94,24/2,2,9,9/; s/310 200 94 24/2 2 9 9/"; echo 'wait'; } >commands.sh
bash -euo pipefail commands.sh >out 2>said || fail 'the commands at the top fail' "$(cat out said)"
[ "$(grep -c '^{"prediction":' out)" = 2 ] && grep -q '^xtrain_requests_total{code="200"} 2$' out && grep -q $'^street.jpg 2 2 9 9\t' out ||
  fail 'not the answers' "$(cat out said)"
{ echo "$curl_waits"; block 'HTTP service' 'sh not-run: tests/serve'; echo 'kill %1; wait %1'; } >commands.sh
bash -m -euo pipefail commands.sh >out 2>said || fail 'the commands of the service fail' "$(cat out said)"
grep -q '^{"prediction":' out || fail 'no answer over the socket' "$(cat out said)"
bash -euo pipefail <(awk '/^##* /{ here = ($0 == "### Streams") } /^```$/{ inside = 0 } inside; here && /^```sh/{ inside = 1 }' "$page") >out 2>said ||
  fail 'the commands of streams fail' "$(cat out said)"
[ "$(cut -f 1 out | paste -sd ,)" = 'car.jpg,frame 0,frame 1,image 0' ] || fail 'not the answers of streams' "$(cat out)"

# A function that was taken away is noticed, and a structure that is another.
cd "$root"
library=$(dirname "$xtrain")/libxtrain.so.1
sed 's/xtrain_ready/xtrain_gone/g' infer/session/xtrain.abi >"$tree/gone.abi"
if command -v abidiff >/dev/null && grep -q debug_info <<<"$(readelf -S "$library")"; then
  expect 0 'is as it was recorded' scripts/abi.sh "$library" infer/session/xtrain.abi
  expect 1 'xtrain_gone' scripts/abi.sh "$library" "$tree/gone.abi"
  sed "s/'batch'/'-'/; s/'threads'/'batch'/; s/'-'/'threads'/" infer/session/xtrain.abi >"$tree/swapped.abi"
  expect 1 "'int batch' offset changed" scripts/abi.sh "$library" "$tree/swapped.abi"
fi
