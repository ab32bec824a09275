#!/usr/bin/env bash
# Parses every command line of xtrain in README.md, Containerfile, docs/, configs/ and the heads of scripts, whether
# test_docs.sh runs it or not: in fences, in `inline code`, in comments. Nothing is opened but the files of --config and --resume.
. tests/cli/common.sh
set -f

# The command lines of a page, "LINE<tab>KIND<tab>WORDS": KIND is whole for lines of a fence or a comment; part for inline
# code, which may leave out arguments. Lines that end in \ and inline code over two lines are joined.
commands_of() {
  awk '
    function each(text, kind, at,    script) {
      while (match(text, /(^|[ `(|"\/])(xtrain|configs\/(loop|slurm|slurm-mpi)\.sh) +[^ ]/)) {
        text = substr(text, RSTART)
        sub(/^[ `(|"\/]/, "", text)
        script = text ~ /^configs/
        sub(/^[^ ]+ +/, "", text)
        if (!script || text ~ /^-/) print at "\t" kind "\t" text
      }
    }
    FILENAME ~ /\.md$/ && /^```/ { fence = !fence; shell = /^```(sh|Dockerfile|dockerfile)/; next }
    FILENAME ~ /\.md$/ && !fence {
      count = split(held $0, pieces, "`")
      for (i = 2; i <= count - (count % 2 == 0); i += 2) if (pieces[i] ~ /^(build\/|mpirun --bind-to none -n 4 )?xtrain /) each(pieces[i], "part", NR)
      held = count % 2 == 0 ? "`" pieces[count] " " : ""
      if ($0 == "") held = ""
      next
    }
    FILENAME ~ /\.md$/ && !shell { next }
    FILENAME !~ /\.md$/ && /`xtrain [^`]*`/ { count = split($0, pieces, "`"); for (i = 2; i <= count; i += 2) if (pieces[i] ~ /^xtrain /) each(pieces[i], "part", NR); next }
    FILENAME !~ /\.md$/ && !/^# +(xtrain|configs|podman run)[ \/]|^RUN / && !joined { next }
    /\\$/ { joined = joined substr($0, 1, length($0) - 1); sub(/^#/, "", joined); next }
    { line = joined $0; joined = ""; sub(/^# +/, "", line); sub(/ #.*/, "", line); each(line, "whole", NR) }
  ' "$1"
}

# The words of one simple command: up to a pipe, redirection or comment; [optional] ones are taken, "..." is not.
words_of() {
  sed -E "s/(^| )#.*//; s/[0-9]+>/>/; s/^(([^'\"|;<>&\`]|'[^']*'|\"[^\"]*\")*).*/\1/; s/[][]//g; s/(^| )\.\.\.( |\$)/ /g" <<<"$1"
}

warm=$(sed -n 's/^ARG WARM="\(.*\)"/\1/p' configs/Containerfile)
mkdir "$tree/here" && ln -s "$PWD/configs" "$tree/here/configs"

# What is wrong with the command line $3 of kind $2; nothing where it parses.
fault_of() {
  local kind=$1 text said code=0 i path
  text=$(words_of "$2")
  case $text in *'$('* | *'`'*) echo "cannot be read by this test: $text"; return ;; esac
  eval "local -a words=(${text//\$WARM/$warm})" || return
  [ "$kind" = whole ] || for i in "${!words[@]}"; do [ "${words[i]}" != W ] || words[i]=best.safetensors; done
  for i in "${!words[@]}"; do
    path=${words[i + 1]:-}
    case ${words[i]} in
    --config) [ -e "$tree/here/$path" ] || [[ $path == configs/* ]] || { mkdir -p "$tree/here/$(dirname "$path")" && echo 'model: lprnet' >"$tree/here/$path"; } ;;
    --resume) [ "$path" = auto ] || { mkdir -p "$tree/here/$path" && echo 'model: lprnet' >"$tree/here/$path/config.yaml"; } ;;
    esac
  done
  said=$(cd "$tree/here" && "$xtrain" "${words[@]}" --parse-only 2>&1 </dev/null) || code=$?
  [ $code = 0 ] || { [ "$kind" = part ] && grep -qE 'needs (a subcommand|--|a value|[A-Z[])' <<<"$said"; } || echo "xtrain $text: $said"
}

# The faults of a page, one a line.
faults_of() {
  local at kind text fault
  while IFS=$'\t' read -r at kind text; do
    fault=$(fault_of "$kind" "$text" 2>&1)
    [ -z "$fault" ] || echo "$1:$at: $fault"
  done < <(commands_of "$1")
}

# The rule itself: wrong lines in a fence, across lines, in inline code and in a comment are found, and right ones are not.
printf '%s\n' '```sh not-run: it trains' 'xtrain --model lprnet --steps 2 | head   # --no-such' \
  'xtrain --config configs/gone.yaml' 'xtrain --model lprnet \' '  --no-such' '```' '`xtrain eval --bogus` `xtrain predict W -`, `xtrain eval' \
  '--compare f99`' >"$tree/rule.md"
printf '# A head.\n#   xtrain --model lprnet --lr no\n' >"$tree/rule.sh"
found=$(for page in "$tree/rule.md" "$tree/rule.sh"; do faults_of "$page"; done | sed -E 's/.*rule\.(md|sh):([0-9]+):.*/\2/' | paste -sd ' ')
[ "$found" = '3 5 7 8 2' ] || fail "the rule finds other lines: $found" "$(faults_of "$tree/rule.md")"

set +f
wrong=$(for page in README.md Containerfile docs/*.md configs/* scripts/*.sh; do set -f; faults_of "$page"; done)
[ -z "$wrong" ] || fail "$wrong"

# A config holds what a person chooses: no line of it says what the network's recipe says.
for config in configs/*.yaml; do
  model=$(sed -n 's/^model: //p' "$config")
  copied=$("$xtrain" --model "$model" --print-config | grep 'recipe of' | sed -E 's/ +#.*//' | grep -Fxf - "$config" || true)
  [ -z "$copied" ] || fail "$config copies the recipe of $model: $copied"
done

# From given weights a ready-made config trains by the recipe for that, unless the person says otherwise.
expect 0 'lr: 0.0001 ' "$xtrain" --config configs/lprnet.yaml --init lprnet.pth --print-config
expect 0 'dropout: 0 ' "$xtrain" --config configs/lprnet.yaml --init lprnet.pth --print-config
expect 0 'lr: 0.003 ' "$xtrain" --config configs/lprnet.yaml --init lprnet.pth --lr 3e-3 --print-config
