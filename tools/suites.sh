#!/usr/bin/env bash
# Runs targets of the Makefile in lanes side by side, and says in the end how long each took and
# which ten packages of tests took longest:
#
#	tools/suites.sh 'generated tools' 'unit pooled' 'contract fuzz'
#
# The targets of the first argument come first, one after the other; each further argument is a
# lane, whose targets run one after the other beside those of the other lanes. What a target
# prints comes when it has ended. After a failure no further target begins.
#
# With LANES=1 the lanes run one after the other. With CACHED=1 a target is skipped that has passed for what is in this checkout, committed or
# not, with these tools.
set -uo pipefail
case "${MAKEFLAGS%% *}" in *n*) exit 0 ;; esac # make -n only says what it would do
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
make=${MAKE:-make}
began=$SECONDS

# state names all that a target can depend on.
state() {
  { git rev-parse HEAD:; git diff HEAD; git ls-files -o --exclude-standard | while read -r file; do echo "$file"; cat "$file"; done
    go version; uname -sm; } 2>/dev/null | cksum | tr ' ' '-'
}
passed=.cache/passed/$(state)
mkdir -p "$passed"

run() {
  local suite=$1 start=$SECONDS outcome=ok
  [ ! -e "$work/failed" ] || return 1
  if [ -n "${CACHED:-}" ] && [ -e "$passed/$suite" ]; then
    echo "       -  $suite (it has passed for this)" >>"$work/took"
    return 0
  fi
  echo "=== $suite begins ($((start - began)) s)"
  "$make" --no-print-directory "$suite" >"$work/$suite.log" 2>&1 || outcome=failed
  { echo "=== $suite: $outcome after $((SECONDS - start)) s"; cat "$work/$suite.log"; } >"$work/$suite.out"
  cat "$work/$suite.out" # in one go, so that lanes do not mix
  printf '%8d s  %s\n' $((SECONDS - start)) "$suite" >>"$work/took"
  if [ $outcome = failed ]; then echo "$suite" >>"$work/failed"; return 1; fi
  [ "$(state)" != "${passed#.cache/passed/}" ] || touch "$passed/$suite"
}

lane() { for suite in $1; do run "$suite" || return 1; done; }

lane "$1"
shift
export BUILT=1 # by the first: lanes do not build the same at once
for suites in "$@"; do
  if [ "${LANES:-}" = 1 ]; then lane "$suites"; else lane "$suites" & fi
done
wait

echo
echo "seconds of each suite, $((SECONDS - began)) s in all:"
cat "$work/took"
echo "the slowest packages:"
# ok  	package	12.3s; what is cached has no time
cat "$work"/*.log | sed -n 's/^ok  \t\([^\t]*\)\t\([0-9.]*\)s.*/\2 \1/p' | sort -rn | head -10 | awk '{printf "%8.1f s  %s\n", $1, $2}'
[ ! -e "$work/failed" ] || { echo "failed: $(sed 's/^/make /' "$work/failed" | xargs)" >&2; exit 1; }
