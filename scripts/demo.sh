#!/usr/bin/env bash
# make demo: trains LPRNet from nothing on plates that the program makes itself, and reads plates that it has never seen.
# Each command is shown before it runs, so that you can continue from here yourself. Started alone, on a machine that
# need not have make yet, it installs what is missing and builds first.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${XTRAIN:-}" ]; then
    scripts/deps.sh
    make all
fi
xtrain=${XTRAIN:-build/xtrain}

show() {
    printf '\n$'
    for word; do
        case $word in
        *[!A-Za-z0-9_./:=-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@"
}

n=1
while [ -e "runs/demo-$n" ]; do n=$((n + 1)); done
run=runs/demo-$n
unseen='synth:plates?count=1000&seed=3'

echo 'xtrain demo: LPRNet from random weights to a license plate reader, on plates made on the fly.'
show "$xtrain" --model lprnet --out "$run"
printf '\nReading 1000 plates that were used neither for training nor for choosing the weights:\n'
show "$xtrain" eval --model lprnet --init "$run/best.safetensors" --data "$unseen" --show 8 | tee "$run/unseen.txt"
accuracy=$(awk '/plates read right/ { print $1 / $3 }' "$run/unseen.txt")
if ! awk -v got="$accuracy" 'BEGIN { exit !(got >= 0.95) }'; then
    echo "demo: $accuracy of the unseen plates were read whole, less than the 0.95 that this demo promises" >&2
    exit 1
fi

printf '\nThe devices of this machine:\n'
show "$xtrain" devices
cat <<EOF

Everything is in $run: best.safetensors and last.safetensors (PyTorch's load_state_dict takes them),
metrics.jsonl, config.yaml; report.html shows the run in a browser. Next, with your own plates, named like 京A12345_1.jpg:

  $xtrain --model lprnet --data DIR --val DIR --init $run/best.safetensors --augment
  $xtrain predict $run/best.safetensors IMAGE...
EOF
