#!/usr/bin/env bash
# The field's words, by which people search, stand in the pages and in the program's own help; words of earlier versions in none.
. tests/cli/common.sh
joined() { tr -s ' \n' ' ' | sed 's/\\-/-/g'; }
cat README.md docs/*.md | joined >"$tree/pages"
{ "$xtrain" help; "$xtrain" help train --all; "$xtrain" help eval --all; "$xtrain" man; } | joined >"$tree/help"
for word in 'fine-tuning' 'early stopping' 'confusion matrix' 'learning-rate schedule' 'gradient accumulation' 'gradient clipping' \
  'data augmentation' 'quantization' 'distributed' 'OCR' 'license plate recognition'; do
  for place in pages help; do
    grep -qi -- "$word" "$tree/$place" || fail "no \"$word\" in the $place"
  done
done

old='--cache(-dir|-limit|-file)?[ `]|--amp[ =]off|amp: off|--types[ `]|--page[ `]|xtrain export [^`|#]*--type |xtrain eval [^`|#]*--compare|xtrain data check [^`|#]*--against'
! grep -nE -- "$old" README.md docs/*.md docs/notes/*.md configs/* || fail 'a page names what an earlier version called otherwise'
! grep -E -- "$old" "$tree/help" || fail 'help names what an earlier version called otherwise'

# What README says of the PATH.
grep -q "^\`make install PREFIX=\$HOME/.local\` brings \`xtrain\` into the \`PATH\`" README.md && grep -qF 'export PATH="$PWD/build:$PATH"' README.md ||
  fail 'README does not say how xtrain gets into the PATH'
