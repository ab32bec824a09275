#!/usr/bin/env bash
# Runs every command of every page: of README.md, docs/*.md and docs/notes/*.md, each page in a folder of its own, block after block.
#
# A fence says what its block is: "```sh" is run; "```sh not-run: REASON" is not, for a reason that is written there;
# any other ("```text", "```yaml") holds no command. A command anywhere else fails the test. XTRAIN_TEST_ALL=1: those pages
# too whose commands take more than ten seconds.
. tests/cli/common.sh
shared=${XTRAIN_SHARED:-../shared}
[ -d "$shared/data/plates" ] || { echo 'skipped: no shared data'; exit 77; }
shared=$(cd "$shared" && pwd) here=$PWD
mkdir "$tree/bin" && ln -s "$xtrain" "$tree/bin/xtrain"
PATH=$tree/bin:$PATH

# What the pages speak of: the reader's own images and weights.
prepare() {
  mkdir -p "$1/photos" "$1/build" && cd "$1"
  ln -s "$shared/data/plates" plates && ln -s "$shared/data/cifar10" cifar10
  ln -s "$xtrain" build/xtrain && ln -s "$here/configs" configs
  ln -s "$shared/data/weights/lprnet_sirius.pth" lprnet.pth
  cp "$(find "$shared/data/plates/val/" -name '*.jpg' | sort | head -n 1)" car.jpg
  find "$shared/data/plates/val/" -name '*.jpg' | sort | tail -n 3 | while read -r file; do cp "$file" photos/; done
}

# What is wrong with a page's form; nothing where all is well. Its blocks to run go to the file $2.
split() {
  awk -v page="$1" -v script="$2" '
    BEGIN { printf "" >script; command = "^ *([A-Z_]+=[^ ]* +)?(build/)?(xtrain|make|sudo|apt-get|cmake|scripts/[a-z-]+[.](sh|py)|build/tests/[a-z]+)( |$)" }
    /^```/ && !inside {
      inside = 1; kind = "text"
      if ($0 == "```sh") kind = "run"
      else if ($0 ~ /^```sh not-run: ./) kind = "skip"
      else if ($0 ~ /^```sh/ || $0 == "```") print page ":" NR ": \"" $0 "\": write ```sh, ```sh not-run: REASON, or what else it is"
      if (kind == "run") printf "echo \"%s:%d\"\n", page, NR >>script
      next
    }
    /^```/ { inside = 0; next }
    inside && kind == "run" { print >>script; next }
    inside && kind == "skip" { next }
    $0 ~ command && (inside || /^    /) { print page ":" NR ": a command that is neither run nor marked: " $0 }
  ' "$1"
}

# The rule itself.
printf '```sh\ntrue\n```\n```\nx\n```\n```text\nxtrain help\n```\n    xtrain eval\n```sh not-run: a GPU\nxtrain doctor\n```\n' >"$tree/rule.md"
[ "$(split "$tree/rule.md" "$tree/rule.sh" | sed 's/.*md:\([0-9]*\):.*/\1/' | paste -sd ' ')" = '4 8 10' ] ||
  fail 'the rule lets commands pass' "$(split "$tree/rule.md" "$tree/rule.sh")"

long=' json long-runs reports resnet50 running '
[ -z "${XTRAIN_TEST_ALL:-}" ] || long=
wrong=
for page in README.md docs/*.md docs/notes/*.md; do
  name=$(basename "$page" .md)
  faults=$(split "$page" "$tree/$name.sh")
  wrong+=${faults:+$faults$'\n'}
  [ -s "$tree/$name.sh" ] && [[ $long != *" $name "* ]] || continue
  (prepare "$tree/$name" && bash -euo pipefail "$tree/$name.sh") >"$tree/said" 2>&1 </dev/null ||
    wrong+="$page: a command failed after $(grep -E '^[A-Za-z/]+[.]md:[0-9]+$' "$tree/said" | tail -n 1): $(tail -n 3 "$tree/said")"$'\n'
done
[ -z "$wrong" ] || fail "$wrong"
