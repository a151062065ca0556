#!/usr/bin/env bash
# Attacks a node with everything its published document says, and with
# everything it does not say: schemathesis, all checks, all phases, with a token.
# Starts a node of its own (bin/writ, or WRIT_TEST_BINARY), or uses URL and TOKEN.
# Examples bounds the cases for each operation and phase. Deterministic.
set -euo pipefail
cd "$(dirname "$0")"
venv=../../.venv
binary=${WRIT_TEST_BINARY:-../../bin/writ}

if ! "$venv/bin/schemathesis" --version >/dev/null 2>&1 || ! cmp -s requirements.txt "$venv/requirements.txt"; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
  cp requirements.txt "$venv/requirements.txt"
fi

work=$(mktemp -d)
node=
trap '[ -z "$node" ] || { kill "$node"; wait "$node" 2>/dev/null || true; }; rm -rf "$work"' EXIT
if [ -z "${URL:-}" ]; then
  env -u WRIT_TEST_BINARY "$binary" dev --addr 127.0.0.1:0 --ready-file "$work/ready.json" --log-level warn >/dev/null 2>"$work/log" &
  node=$!
  for _ in $(seq 600); do [ -s "$work/ready.json" ] && break; kill -0 "$node" || { cat "$work/log"; exit 1; }; sleep 0.1; done
  field() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$work/ready.json" "$1"; }
  URL=$(field issuer) TOKEN=$(field "${ROLE:-admin_token}")
fi

# Three runs, which together select every operation. The feature API has its own,
# because the fuzzer would switch the resource API off with it and then find
# nothing but that.
# One worker: with more, Python's parser, which schemathesis uses, crashes.
here=$PWD
cd "$work"
attack() {
  "$here/$venv/bin/schemathesis" run "$URL/openapi.json" "$@" \
    --header "Authorization: Bearer $TOKEN" --checks all \
    --max-examples "${EXAMPLES:-200}" --generation-deterministic --workers 1 --continue-on-failure \
    --request-timeout 20 --no-color --warnings off
}
attack --exclude-tag ServiceFeatures --phases examples,coverage,fuzzing,stateful
unlinked=examples,coverage,fuzzing # nothing links these operations
attack --include-path /v2/features/system --phases "$unlinked"
# At most one of the ctx.* parameters may be given. OpenAPI cannot say so of query
# parameters (their description does), so requests with two of them, which answer
# 400, look valid to this one check.
attack --include-path /v2/features/instance --phases "$unlinked" --exclude-checks positive_data_acceptance
