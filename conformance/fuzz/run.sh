#!/usr/bin/env bash
# Attacks a node with everything its published document says, and with
# everything it does not say: schemathesis, all checks, all phases, with a token.
# Starts a node of its own (bin/writ, or WRIT_TEST_BINARY), or uses URL, TOKEN and,
# for the features of the system, SYSTEM_TOKEN.
# EXAMPLES bounds the cases for each operation and phase; SEED makes other ones.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
venv=$here/../../.venv
binary=$(realpath "${WRIT_TEST_BINARY:-$here/../../bin/writ}")

if ! "$venv/bin/schemathesis" --version >/dev/null 2>&1 || ! cmp -s requirements.txt "$venv/requirements.txt"; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
  cp requirements.txt "$venv/requirements.txt"
fi

work=$(mktemp -d)
node=
trap '[ -z "$node" ] || { kill "$node" 2>/dev/null; wait "$node" || true; }; rm -rf "$work"' EXIT
cd "$work" # schemathesis leaves files where it runs
if [ -z "${URL:-}" ]; then
  env -u WRIT_TEST_BINARY "$binary" dev --addr 127.0.0.1:0 --ready-file ready.json --log-level warn --log-format json >/dev/null 2>log &
  node=$!
  for _ in $(seq 600); do [ -s ready.json ] && break; kill -0 "$node" || { cat log; exit 1; }; sleep 0.1; done
  field() { python3 -c 'import json,sys; print(json.load(open("ready.json"))[sys.argv[1]])' "$1"; }
  URL=$(field issuer) TOKEN=$(field admin_token) SYSTEM_TOKEN=$(field system_token)
fi

failed=0
# One worker: with more, Python's parser, which schemathesis uses, crashes.
attack() {
  SCHEMATHESIS_HOOKS=$here/hooks.py PYTHONDONTWRITEBYTECODE=1 "$venv/bin/schemathesis" run "$URL/openapi.json" "$@" \
    --header "Authorization: Bearer $TOKEN" --checks all --max-examples "${EXAMPLES:-200}" --seed "${SEED:-1}" \
    --workers 1 --continue-on-failure --request-timeout 20 --no-color --warnings off || failed=1
}
# Three runs, which together select every operation. The feature API comes by
# itself and last, because the fuzzer would switch the resource API off with it
# and then find nothing but that; it has no stateful phase, because nothing in
# it has an ID that a link could follow. That of the system answers others than
# its owner 403, whatever they send.
attack --phases examples,coverage,fuzzing,stateful --exclude-tag ServiceFeatures
attack --phases examples,coverage,fuzzing --include-path /v2/features/instance
TOKEN=${SYSTEM_TOKEN:-$TOKEN}
attack --phases examples,coverage,fuzzing --include-path /v2/features/system

# SEC-296: no input makes the node log an error, or die.
if [ -n "$node" ]; then
  kill -0 "$node" || { echo "the node ended"; failed=1; }
  if grep '"level":"ERROR"' log; then failed=1; fi
fi
exit $failed
