#!/usr/bin/env bash
# promtool.sh TO: promtool from PATH, else the one file of Debian's package, without installing the rest.
set -euo pipefail
to=$(realpath -m "$1")
mkdir -p "$(dirname "$to")"
if found=$(command -v promtool); then ln -sf "$found" "$to"; exit; fi
command -v apt-get >/dev/null || { echo "promtool is missing: install Prometheus" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch" # apt reads as a user of its own
cd "$scratch"
apt-get download -q prometheus >/dev/null 2>&1 || { echo "promtool: apt-get download prometheus failed; apt-get update first?" >&2; exit 1; }
dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
mv usr/bin/promtool "$to"
