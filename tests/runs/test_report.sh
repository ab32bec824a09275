#!/usr/bin/env bash
# What a run shows of itself: the page, made by the run and by "xtrain report" alike, of one run and of several; compare;
# the last screen; and that nothing of it ends a run.
. tests/cli/common.sh
cd "$tree"
run=("$xtrain" "${small[@]}" --threads 1 --val 'synth:plates?count=10&seed=4')

# The last screen, but for how long things took, and the energy that not every machine tells.
"${run[@]}" --steps 14 --log-every 2 --out 'a run' >said 2>&1
masked() {
  sed -n '/^done:/,$p' said |
    sed 's|'"$xtrain"'|xtrain|; s/[0-9]*:[0-9][0-9]/T/; s/[0-9.]* s\b/T/g; s/[0-9]* images/N images/; s/ ([0-9]* %)/ (P)/g; s/^energy: .*/energy: E/; s/^\(confidence of the best weights\): .*/\1: C/'
}
diff - <(masked) <<'END' || fail 'the last screen is not what it should be' "$(cat said)"
done: 14 steps in T
speed: N images/s, T an epoch
lost to: start T, loading T (P), evaluation T (P)
energy: E
confidence of the best weights: C
  a run/best.safetensors  the best weights: 0.0 % at step 6
  a run/last.safetensors  the last weights
  a run/metrics.jsonl     losses and evaluations
  a run/report.html       the report page, for a browser
next, every wrong image: xtrain eval 'a run' --errors 'a run/errors.html'
END
grep -qE '^energy: (not measured \(.+\)|[0-9.]+ Wh of the CPU packages)$' said || fail 'of energy nothing is said' "$(cat said)"
bash -c "$(sed -n 's/^next, every wrong image: //p' said)" >eval 2>&1 || fail 'the next command does not work' "$(cat eval)"
grep -q '^10 wrong images, worst first: a run/errors.html$' eval && [ -s 'a run/errors.html' ] || fail 'there is no list of errors' "$(cat eval)"

# The run's own page equals the one that is made of its folder; pictures are omitted on request.
cp 'a run/report.html' own.html
expect 0 'a run/report.html: 1 run' "$xtrain" report 'a run'
cmp own.html 'a run/report.html' || fail 'the page of the folder is another than that of the run'
[ "$(grep -o '"picture":"data:image/png;base64,' own.html | wc -l)" = 10 ] || fail 'the page lacks pictures'
! grep -oE '(https?:)?//[a-z0-9]+\.[a-z0-9.]+' own.html | grep -v 'www.w3.org' || fail 'the page speaks of the network'
expect 0 'bare.html: 1 run' "$xtrain" report 'a run' --no-images --page bare.html
! grep -q '"picture"' bare.html || fail 'a page without images has some'
"${run[@]}" --steps 7 --seed 2 --no-images --out b --quiet >/dev/null
! grep -q '"picture"' b/report.html b/report.json || fail 'a run without images shows some'
! grep -qa PNG b/events.out.tfevents.xtrain || fail 'a run without images gives TensorBoard some'
expect 0 'report.html: 2 runs' "$xtrain" report 'a run' b
grep -q '"different":\["steps","seed","log_every"\]' report.html || fail 'the settings that differ are not named'
expect 3 'there is no run nowhere: no such folder' "$xtrain" report nowhere
mkdir empty
expect 3 'empty holds no run: it has neither config.yaml nor metrics.jsonl' "$xtrain" report empty
expect 1 'cannot write none/x.html' "$xtrain" report b --page none/x.html

# A running run: its page so far.
"$xtrain" "${small[@]}" --threads 1 --val 'synth:plates?count=10&seed=4' --steps 100000 --eval-every 1 --out going >/dev/null 2>&1 &
child=$!
for ((i = 0; i < 300; i++)); do [ -s going/report.html ] && break; sleep 0.1; done
grep -q '"state":"running"' going/report.html || fail 'a running run has no page that says so'
expect 0 'running' "$xtrain" compare going b
expect 0 'going.html: 1 run' "$xtrain" report going --page going.html
kill -KILL $child
wait $child 2>/dev/null || true
expect 0 'killed' "$xtrain" compare going b
grep -q '"state":"running"' going/report.json || fail 'a run that was killed says another thing' "$(cat going/report.json)"
# From before its first evaluation on, and again when it resumes after a stop.
for start in 1 2; do
  "$xtrain" "${small[@]}" --threads 1 --steps 100000 --log-every 100000 --out early --resume auto >/dev/null 2>&1 &
  child=$!
  for ((i = 0; i < 300; i++)); do grep -qs '"state":"running"' early/report.json && break; sleep 0.1; done
  expect 0 'early running' "$xtrain" compare early b
  [ $start = 1 ] || break
  kill -TERM $child
  wait $child || true
  expect 0 'early stopped' "$xtrain" compare early b
done
kill -KILL $child
wait $child 2>/dev/null || true
expect 0 'early killed' "$xtrain" compare early b
rm -rf going/report.json going/report.html
expect 0 'going/report.html: 1 run' "$xtrain" report going

# compare, as text and as JSON.
# Which step of several that are as good is the best depends on last bits: the run says which.
best() { sed -n 's/.*"best":{"step":\([0-9]*\),.*/\1/p' "$1/report.json"; }
"$xtrain" compare 'a run' b >compared
diff - <(sed -E 's/[0-9.]+ %/F/g; s/ [0-9]+\.[0-9]{4} / L /; s/[0-9]+:[0-9]{2} +[0-9]+$/T/' compared | tr -s ' ') <<END || fail 'compare does not say what it should' "$(cat compared)"
run state best at step last at step steps epochs loss time images/s
a run done F $(best 'a run') F 14 14 3 L T
b done F $(best b) F 7 7 2 L T
setting a run b
steps 14 7
seed 0 2
log_every 2 10
END
expect 0 '"settings":{"steps":["14","7"],"seed":["0","2"],"log_every":["2","10"]},' "$xtrain" compare 'a run' b --json
expect 2 'xtrain compare needs RUN RUN' "$xtrain" compare b

# Of several runs with few differences a row is a run, and no name of the last screen's JSON stands twice.
cp -r b c && sed -i 's/^seed: 2 /seed: 3 /' c/config.yaml
diff - <("$xtrain" compare b c | sed -n '/^run *seed/,$p' | tr -s ' ') <<'END' || fail 'the settings are not in rows of runs' "$("$xtrain" compare b c)"
run seed
b 2
c 3
END
"${run[@]}" --steps 3 --json --out d >json 2>/dev/null
[ "$(sed 's/"reliability":{[^}]*}//' json | grep -o '"[a-z_]*":' | sort | uniq -d)" = '' ] || fail 'a name stands twice' "$(cat json)"

# What resumes without images shows those of before no more.
"${run[@]}" --steps 7 --out e --quiet >/dev/null
"$xtrain" --resume e --no-images --quiet >/dev/null
! grep -q '"picture"' e/report.html e/report.json || fail 'a run that resumes without images shows some'

# Files that cannot be written: a warning each, once, and the run continues bit for bit.
expect 75 '' "${run[@]}" --steps 100000 --stop-after 1s --out whole
cp -r whole torn
for file in report.html events.out.tfevents.xtrain; do rm torn/$file && mkdir torn/$file; done
step=$(sed -n 's/.*stopped at step \([0-9]*\) .*/\1/p' <<<"$said")
"$xtrain" --resume whole --stop-after 0 --steps $((step + 14)) --quiet >/dev/null 2>&1
expect 0 "warning: the run's report: cannot write torn/report.html" "$xtrain" --resume torn --stop-after 0 --steps $((step + 14)) --quiet
[ "$(grep -c 'warning: ' <<<"$said")" = 2 ] && grep -q "warning: TensorBoard's events: " <<<"$said" || fail 'not one warning for each' "$said"
diff <(record whole) <(record torn) || fail 'without its report the run is another'
same_weights whole/last.safetensors torn/last.safetensors || fail 'without its report the weights are others'
