#!/usr/bin/env bash
# Runs every unit test so many times, in another order each time, beside a busy neighbour, then
# the conformance suites that share nothing, and the fuzzers for long with a seed of the day.
# Says in the end what failed, if only once; then it fails.
set -uo pipefail
times=$1
log=$(mktemp)
neighbours=()
trap 'kill "${neighbours[@]}" 2>/dev/null; rm -f "$log"' EXIT
for _ in $(seq "$(getconf _NPROCESSORS_ONLN)"); do
  nice -n 5 sh -c 'while :; do :; done' &
  neighbours+=($!)
done
shared="go run ./impl/core/store/pgtest/shared"
for _ in $(seq "$times"); do
  $shared go test -vet=off -count=1 -timeout 60m -parallel 6 -shuffle on ./cmd/... ./impl/... 2>&1 | tee -a "$log"
  WRIT_TEST_BINARY=$PWD/bin/writ go test -vet=off -count=1 -timeout 60m ./conformance/oidc ./conformance/interop ./conformance/executions 2>&1 | tee -a "$log"
done
EXAMPLES=100 SEQUENCES=400 SEED=$(date +%Y%j) conformance/fuzz/run.sh 2>&1 | tee -a "$log" || echo "--- FAIL: conformance/fuzz" >>"$log"
failed=$(grep -E '^ *--- FAIL|^panic:' "$log" | sort | uniq -c)
[ -z "$failed" ] || { echo "failed at least once:"; echo "$failed"; exit 1; }
