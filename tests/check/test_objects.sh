#!/usr/bin/env bash
# The check of object files sees a global that can be written, and a call that ends the process; constants pass.
set -euo pipefail
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect CODE TEXT SOURCE [UNIT]: the check on this source, compiled as UNIT, ends with this code and says this.
expect() {
  local code=0 said object=$tree/${4:-data/thing}.o
  mkdir -p "$(dirname "$object")"
  gcc -xc -c -o "$object" - <<<"$3"
  said=$(scripts/check-objects.sh "$tree" "$object" 2>&1) || code=$?
  if [ "$code" != "$1" ] || ! grep -qF -- "$2" <<<"$said"; then
    printf 'expected code %s and "%s", got code %s and:\n%s\n' "$1" "$2" "$code" "$said"
    exit 1
  fi
}

expect 0 'hold no global state' 'static const char *const names[] = {"a", "b"}; const char *f(int i) { return names[i]; }'
expect 1 'the variable calls is writable' 'int f(void) { static int calls; return ++calls; }'
expect 1 'the variable seed is writable' 'int seed = 3;'
expect 1 'the variable mine is writable' '_Thread_local int mine;'
expect 0 'hold no global state' 'static int log_state = 1; void set(int l) { log_state = l; } int f(void) { return log_state; }' base/log
expect 1 'calls exit()' '#include <stdlib.h>
void f(void) { exit(3); }'
expect 0 'end no process' '#include <stdlib.h>
int main(void) { exit(3); }' cli/main
