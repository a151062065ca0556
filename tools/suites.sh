#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, until one fails, and says in the end how long
# each took, and which ten packages of tests took longest.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
took=() failed=
for suite in "$@"; do
  began=$SECONDS
  "${MAKE:-make}" --no-print-directory "$suite" 2>&1 | tee -a "$log"
  [ "${PIPESTATUS[0]}" = 0 ] || failed=$suite
  took+=("$(printf '%6d s  %s' $((SECONDS - began)) "$suite")")
  [ -z "$failed" ] || break
done
echo
echo "seconds of each suite:"
printf '%s\n' "${took[@]}"
echo "the slowest packages:"
# ok  	package	12.3s; what is cached has no time
sed -n 's/^ok  \t\([^\t]*\)\t\([0-9.]*\)s.*/\2 \1/p' "$log" | sort -rn | head -10 | awk '{printf "%8.1f s  %s\n", $1, $2}'
[ -z "$failed" ] || { echo "failed: make $failed" >&2; exit 1; }
