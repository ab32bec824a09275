#!/usr/bin/env bash
# The page in a browser (Chromium, without a screen): drawn to its end, no wider than a phone, values where the pointer is,
# closer where it drags, and names that are text whatever they hold.
. tests/cli/common.sh
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo 'skipped: no Chromium is here; run "make deps-check"'; exit 77; }
images=$PWD/tests/fuzz/corpus/image
cd "$tree"
odd='<img src=x onerror="document.body.dataset.broken=1">&amp;'
mkdir "$odd" && cp "$images/ycc_444.jpg" "$odd/京A12311_1.jpg" && cp "$images/rgba.png" "$odd/沪B54311_1.png"
run=("$xtrain" "${small[@]}" --threads 1 --log-every 1 --quiet)
"${run[@]}" --val "$odd" --steps 14 --out "r $odd" >/dev/null
"${run[@]}" --val 'synth:plates?count=4' --steps 7 --seed 2 --out b >/dev/null
"$xtrain" report "r $odd" b >/dev/null
"$xtrain" eval --init b --data "$odd" --threads 1 --errors errors.html >/dev/null
mkdir -p two/cat "two/$odd" && cp "$images/ycc_444.jpg" two/cat/ && cp "$images/rgba.png" "two/$odd/"
"$xtrain" --model resnet18 --data two --val two --image-size 32 --batch 2 --threads 1 --steps 1 --lr 1e-6 --out classes --quiet >/dev/null

"$xtrain" diff "r $odd" b --data "$odd" --threads 1 --differences plates.html >/dev/null
"$xtrain" --model resnet18 --data two --val two --image-size 32 --batch 2 --threads 1 --steps 1 --lr 1e-6 --seed 7 --out others --quiet >/dev/null
"$xtrain" diff classes others --data two --threads 1 --differences classes.html >/dev/null
"$xtrain" report b classes --page kinds.html >/dev/null
# Ended early as it should, a rollback in its record, numbers beyond all scales, and facts that are none.
mkdir ended && cp b/config.yaml ended
printf '%s\n' '{"step":1,"epoch":1,"time":1,"loss":1e308,"lr":1}' '{"step":2,"epoch":1,"time":2,"loss":2,"lr":1e999}' \
  '{"step":5,"time":3,"rolled_back_to":2,"lr_factor":0.5}' '{"step":3,"epoch":1,"time":4,"loss":3,"lr":0.5}' >ended/metrics.jsonl
cat >ended/report.json <<'FACTS'
{"state":"done: nothing was gained any more (--patience)","steps":9,"step":3,"epoch_steps":3,"ops":[{"name":"x"}],"seconds":"long",
"evaluation":{"images":3,"correct":1,"pairs":[[5,6,1]],"errors":[{"path":7}],"unit":"characters"}}
FACTS
"$xtrain" report ended >/dev/null
cp -r ended gone && sed -i 's/"state":"[^"]*"/"state":"running","written":1e9/' gone/report.json
"$xtrain" report gone >/dev/null
grep -q '"killed":true' gone/report.html || fail 'nobody uses the run, and it is not killed'
# The page as the run left it, which nobody has drawn anew since.
sed -i 's/"killed":true/"killed":false/' gone/report.html

chromium() { timeout 60 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$tree/profile" "$@" 2>/dev/null; }

# What a visitor does and sees, written down where the page's own text ends: hovering, dragging, the width.
cat >visit.html <<'VISIT'
<script>
const result = document.documentElement.dataset;
result.wide = document.documentElement.scrollWidth > innerWidth ? 'yes' : 'no';
const chart = document.querySelector('.chart svg');
if (chart) {
  const box = chart.getBoundingClientRect();
  const at = (type, part) => chart.dispatchEvent(new PointerEvent(type, {
    clientX: box.left + part * box.width, clientY: box.top + 60, pointerId: 1, bubbles: true }));
  const read = () => document.querySelectorAll('.chart .read')[1].textContent;
  const before = read();
  at('pointermove', 0.4);
  result.hover = read() !== before ? 'yes' : 'no';
  at('pointerdown', 0.3); at('pointermove', 0.6); at('pointerup', 0.6);
  result.zoom = document.querySelector('.bar-tools button').disabled ? 'no' : 'yes';
  chart.dispatchEvent(new MouseEvent('dblclick'));
  result.back = document.querySelector('.bar-tools button').disabled ? 'yes' : 'no';
  const run = document.querySelector('.legend input');
  const drawn = () => chart.querySelectorAll('path').length;
  const all = drawn();
  if (run) run.click();
  result.runs = !run || drawn() < all ? 'yes' : 'no';
  if (run) run.click();
}
</script>
VISIT
visit() { # PAGE WIDTH TEXT...: the page says each of these
  local file=$1 width=$2 text
  shift 2
  cat "$file" visit.html >visited.html
  chromium --window-size="$width",900 --dump-dom "file://$tree/visited.html" >dom || fail "the browser failed on $file"
  # The data is not what is seen.
  sed 's/<script.*//; /^<script/,/<\/script>/d' dom >seen
  grep -q 'data-drawn="yes"' dom || fail "$file was not drawn to its end at $width"
  grep -q 'data-wide="no"' dom || fail "$file is wider than a screen of $width"
  ! grep -q 'data-broken' dom || fail "$file: a name was markup"
  for text in "$@"; do grep -qF -- "$text" dom || fail "$file at $width does not say: $text" "$(head -c 3000 seen)"; done
  [ -z "${moves:-}" ] || for text in hover zoom back runs; do grep -q "data-$text=\"yes\"" dom || fail "$file at $width: no $text"; done
}
ways=('<h2>Curves</h2>' '<h2>Confusions</h2>' '<h2>The worst errors</h2>' '<h2>Where the time went</h2>' '<h2>Settings</h2>')
# A phone is where a page breaks; on a screen the run's own and the one of several stand for the others.
for width in 1280 390; do
  moves=yes visit "r $odd/report.html" $width "${ways[@]}" 'Learning rate' 'Images a second' 'Waiting for images' 'Memory' 'Busy' \
    'alt="expected 京A12311"' '&lt;img src=x onerror="document.body.dataset.broken=1"&gt;&amp;amp;/京A12311_1.jpg' 'class="steps"'
  moves=yes visit report.html $width 'Side by side' '<th>seed</th>' '2 runs'
  chromium --window-size=$width,3000 --hide-scrollbars --screenshot="$tree/$width.png" "file://$tree/r $(sed 's/%/%25/g; s/?/%3F/g; s/#/%23/g' <<<"$odd")/report.html" >/dev/null || true
  [ "$(stat -c %s $width.png)" -gt 30000 ] || fail "at $width the page shows nothing"
  [ $width = 390 ] || continue
  visit errors.html $width '2 of 2 wrong' '<h2>The worst errors</h2>'
  visit plates.html $width '2 of 2 answered differently' '<h2>Neither is right</h2>' '<h2>The weights</h2>' 'alt="expected 京A12311"' '/京A12311_1.jpg'
  visit classes.html $width 'answered differently' '<h2>The weights</h2>' 'top-1, A'
  moves=yes visit kinds.html $width 'top-1 ' 'plates read whole '
  moves=yes visit ended/report.html $width 'step 3 of 9 (33 %)' ': done: nothing was gained any more (--patience)</span>' \
    '<line class="rollback"' 'step 5 failed; back to step 2, on at 0.5 of the rate' 'The worst errors cannot be drawn: report.json is damaged'
  visit gone/report.html $width ' days ago; xtrain report says whether it still runs)'
  visit classes/report.html $width '<h2>The worst errors</h2>' 'top-1'
done
