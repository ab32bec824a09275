#!/usr/bin/env bash
# Streams: each line is answered when it comes and in its turn, regions are cut out, images and raw frames come by
# standard input too; what cannot be read gets its line, and a sentence where the stream itself is wrong.
. tests/serve/common.sh
image=$images/ycc_444.jpg

# A line is answered while the input stays open: by predict, and by serve.
for command in "$xtrain predict $weights - --threads 1" "${serve[*]} --stdin paths"; do
  coproc answers { $command 2>"$tree/said"; }
  child=$answers_PID out=${answers[0]} in=${answers[1]}
  for i in 1 2 3; do
    echo "$image" >&"$in"
    IFS= read -r -t 20 line <&"$out" || fail "line $i is not answered: $command" "$(cat "$tree/said")"
    [ "${line%%$'\t'*}" = "$image" ] || fail "not the answer to line $i: $line"
  done
  eval "exec $in>&-"
  wait $child || fail "it failed: $command" "$(cat "$tree/said")"
done

# The parts of an answer but its path.
answer() { cut -f 2- <<<"$1"; }
expect 0 '' "$xtrain" predict "$weights" "$image" --threads 1 --quiet
whole=$(answer "$said")
size=$(file "$image" | sed -n 's/.*, \([0-9]*\)x\([0-9]*\),.*/\1 \2/p')
read -r width height <<<"${size:-32 24}"
cp "$image" "a b 1 2 3 4.jpg" && cp "$image" 'c 5 6'

# Regions; names with blanks and numbers are names where there is such a file.
printf '%s\n' "$image 0 0 10000 10000" "$image 0 0 $width 0 $width $height 0 $height" 'a b 1 2 3 4.jpg' 'c 5 6' \
  "$image 2 2 8 8" "c 5 6"$'\t0\t0\t9999\t9999' "$image 1 2 3" "$image 0 0 0 5" "$image 500000 0 5 5" "$image 0 0 0 9 9 9 9 0" \
  "$image 1e9 0 2e9 0 2e9 5 1e9 5"$'\r' "$image nan 0 1 1" nowhere.jpg "$weights" '' "$image"$'\t0 0 5 5 x' "$image 1 2 3 4 5 6 7 8 9" >lines
code=0
"${serve[@]}" --stdin paths --quiet <lines >out 2>said || code=$?
[ "$code" = 3 ] || fail "exit code $code" "$(cat said)"
grep -qF '10 of 16 files could not be read' said || fail 'the end is not reported' "$(cat said)"
[ "$(wc -l <out)" = 16 ] || fail 'not a line for each' "$(cat out)"
for i in 1 2 3 4 6; do
  line=$(sed -n "${i}p" out)
  [ "$(sed 's/.*\t\([^\t]*\t[^\t]*\t[^\t]*\)$/\1/' <<<"$line")" = "$whole" ] || fail "line $i is not the whole picture" "$line" "$whole"
done
[ "$(grep -c $'\t!\t' out)" = 10 ] || fail 'not ten that cannot be read' "$(cat out)"
for sentence in 'a path may be followed by 4 numbers' 'the region has no size' 'lies outside the picture' 'are not in clockwise order' 'lies far outside' \
  'numbers are finite' 'cannot open nowhere.jpg' 'not a JPEG, PNG or WebP'; do
  grep -qF "$sentence" out || fail "no \"$sentence\"" "$(cat out)"
done

# Lengths and images; the JSON; an input that ends too early, and one that is something else.
length() { printf '%b' "$(printf '\\x%02x' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }
framed() { length "$(stat -c %s "$1")"; cat "$1"; }
{ framed "$image"; framed lines; framed "$image"; } >two
code=0
"${serve[@]}" --stdin images --jsonl --quiet <two >out 2>said || code=$?
[ "$code" = 3 ] && [ "$(wc -l <out)" = 4 ] || fail "not three answers and an end, $code" "$(cat out said)"
sed -n 2p out | grep -q '^{"schema":{[^}]*},"path":"image 1","error":"the image is not a JPEG' || fail 'no error in its place' "$(cat out)"
sed -n 3p out | grep -q '^{"schema":{[^}]*},"path":"image 2","prediction":' || fail 'no answer in its place' "$(cat out)"
expect 3 'standard input ends in the middle of image 1' "${serve[@]}" --stdin images --quiet < <(framed "$image"; length 500; echo half)
expect 3 'image 0 has a length of' "${serve[@]}" --stdin images --quiet <"$weights"
expect 3 'line 2 contains a NUL byte' "${serve[@]}" --stdin paths --quiet < <(printf '%s\n%s\0%s\0' "$image" "$image" "$image")
expect 3 'is longer than 65536 bytes' "${serve[@]}" --stdin paths --quiet < <(head -c 300000 /dev/zero | tr '\0' x)

# Raw frames: grey ones, all the same.
head -c $((94 * 24 * 3 * 5)) /dev/zero | tr '\0' '\200' >frames
expect 0 'frame 4' "${serve[@]}" --stdin frames --frame 94x24 --quiet <frames
[ "$(cut -f 2- <<<"$said" | sort -u | wc -l)" = 1 ] || fail 'equal frames differ' "$said"
expect 3 'in the middle of frame 1' "${serve[@]}" --stdin frames --frame 94x100 --quiet <frames
for wrong in 'frames|needs their size' 'paths --frame 9x9|is the size of the raw frames' 'frames --frame 9|--frame takes WIDTHxHEIGHT' \
  'frames --frame 0x5|--frame takes WIDTHxHEIGHT' 'paths --listen 127.0.0.1:0|give one of the two' 'lines|--stdin takes'; do
  # shellcheck disable=SC2086
  expect 2 "${wrong#*|}" "${serve[@]}" --stdin ${wrong%|*}
done

# A reader that has seen enough, and a signal while the input stays open.
yes "$image" | head -n 300 | "$xtrain" predict "$weights" - --threads 1 --quiet 2>said | head -n 1 >out || true
[ -s out ] && ! grep -q error said || fail 'head makes it fail' "$(cat said)"
mkfifo pipe
sleep 30 >pipe &
stops 0 'stopping after what is in hand' TERM "${serve[@]}" --stdin paths <pipe
kill $! 2>/dev/null || true
