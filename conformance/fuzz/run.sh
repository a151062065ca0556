#!/usr/bin/env bash
# Attacks a node with everything its published document says, and with
# everything it does not say: schemathesis, all checks, all phases, with a token.
# Starts a node of its own (bin/writ, or WRIT_TEST_BINARY), or uses URL, TOKEN and,
# for instances and the features of the system, SYSTEM_TOKEN, and CLIENT (JSON).
# EXAMPLES bounds the cases that fuzzing makes for each operation, and SEQUENCES
# those of linked operations; SEED makes other ones. Both are small in `make test`, large in
# `make nightly`. What coverage makes has no
# bound: it is about 50 cases an operation.
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
  env -u WRIT_TEST_BINARY "$binary" dev --addr 127.0.0.1:0 --ready-file ready.json --password-cost minimal --log-level warn --log-format json >/dev/null 2>log &
  node=$!
  for _ in $(seq 600); do [ -s ready.json ] && break; kill -0 "$node" || { cat log; exit 1; }; sleep 0.1; done
  field() { python3 -c 'import json,sys; print(json.load(open("ready.json"))[sys.argv[1]])' "$1"; }
  URL=$(field issuer) TOKEN=$(field admin_token) SYSTEM_TOKEN=$(field system_token)
  CLIENT=$(python3 -c 'import json; print(json.dumps(json.load(open("ready.json"))["clients"]["post"]))')
fi

# What the run stands on, for hooks.py; and all features on, for behind one that
# is off there is nothing to find.
KEPT=$(URL=$URL TOKEN=$TOKEN python3 - <<'EOF'
import json, os, urllib.request
def call(method, path, body):
    request = urllib.request.Request(os.environ["URL"] + path, json.dumps(body).encode(), method=method, headers={
        "Authorization": "Bearer " + os.environ["TOKEN"], "Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))
kept = set()
for kind in "users", "organizations", "memberships", "domains":
    for found in call("POST", f"/resources/v3alpha/{kind}/_search", [])["result"]:
        details = found["details"]
        kept.add(f"{kind}/" + details["id"])
        if details["resourceOwner"]["type"] == "OWNER_TYPE_INSTANCE":
            kept.add("instances/" + details["resourceOwner"]["id"])
call("PUT", "/v2/features/instance", {"userSchema": True})
print(*kept)
EOF
)
export KEPT

# attack NAME TOKEN PHASES EXAMPLES ARGUMENTS... writes NAME.out, and NAME.failed
# when it found something.
attack() {
  local name=$1 token=$2 phases=$3 examples=$4
  shift 4
  local began=$SECONDS
  # One worker: with more, Python's parser, which schemathesis uses, crashes.
  # Two processes do not share one.
  mkdir "$name"
  (cd "$name" && SCHEMATHESIS_HOOKS=$here/hooks.py PYTHONDONTWRITEBYTECODE=1 "$venv/bin/schemathesis" run "$URL${DOCUMENT:-/openapi.json}" "$@" \
    --header "Authorization: Bearer $token" --checks all --phases "$phases" --max-examples "$examples" --seed "${SEED:-1}" \
    --workers 1 --continue-on-failure --request-timeout 20 --no-color --warnings off >"../$name.out" 2>&1) || touch "$name.failed"
  echo "$name: $((SECONDS - began)) s, $(grep " generated, " "$name.out" | xargs)"
}
EXAMPLES=${EXAMPLES:-5}
SYSTEM_TOKEN=${SYSTEM_TOKEN:-$TOKEN}
export CLIENT=${CLIENT:-{\}} # of the endpoints of OAuth, with its secret
most=(--exclude-tag ServiceFeatures --exclude-tag ServiceInstances --exclude-tag OAuth)
attack coverage "$TOKEN" examples,coverage 1 "${most[@]}" &
beside=$!
attack stateful "$TOKEN" stateful "${SEQUENCES:-25}" "${most[@]}"
attack fuzzing "$TOKEN" fuzzing "$EXAMPLES" "${most[@]}"
attack oauth "$TOKEN" examples,coverage,fuzzing $((5 * EXAMPLES)) --include-tag OAuth
# Only callers of the system may touch instances.
attack instances "$SYSTEM_TOKEN" examples,coverage,fuzzing,stateful "$EXAMPLES" --include-tag ServiceInstances
wait $beside
# The feature API comes by itself and last, because the fuzzer would switch the
# resource API off with it and then find nothing but that; it has no stateful
# phase, because nothing in it has an ID that a link could follow. That of the
# system answers others than its owner 403, whatever they send.
attack features "$TOKEN" examples,coverage,fuzzing "$EXAMPLES" --include-path /v2/features/instance
attack system-features "$SYSTEM_TOKEN" examples,coverage,fuzzing "$EXAMPLES" --include-path /v2/features/system
# What only development has, last: it moves the clock. A few worlds are enough.
if [ -n "$node" ]; then
  # Durations, seeds and users have more rules than a schema tells, and faults are what they are.
  DOCUMENT=/_dev/openapi.json attack development "$TOKEN" examples,coverage,fuzzing $((EXAMPLES / 4 + 1)) \
    --exclude-checks positive_data_acceptance,refusals_are_declared
  curl -sf -o /dev/null -X DELETE "$URL/_dev/faults"
  curl -sf -o /dev/null -H 'Content-Type: application/json' -d '{"reset":true,"frozen":false}' "$URL/_dev/clock"
fi

failed=0
cat -- *.out
if ls -- *.failed 2>/dev/null; then failed=1; fi
# The callers have to be there still: 401 satisfies every check.
for token in "$TOKEN" "$SYSTEM_TOKEN"; do
  curl -sf -o /dev/null -H "Authorization: Bearer $token" "$URL/v2/features/instance" || { echo "the run cut off its own caller"; failed=1; }
done

# SEC-296: no input makes the node log an error, or die.
if [ -n "$node" ]; then
  kill -0 "$node" || { echo "the node ended:"; tail -50 log; failed=1; }
  if grep '"level":"ERROR"' log; then failed=1; fi
fi
exit $failed
