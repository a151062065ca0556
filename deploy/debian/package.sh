#!/usr/bin/env bash
# package.sh BINARY ARCH VERSION FOLDER: packs a binary for Debian. The same input makes the same file.
set -euo pipefail
cd "$(dirname "$0")/../.."
binary=$1 arch=$2 version=${3#v} folder=$4
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
mkdir -p "$folder"
BINARY=$binary ARCH=$arch VERSION=$version SOURCE_DATE_EPOCH=$epoch \
  bin/nfpm package --config deploy/debian/nfpm.yaml --packager deb --target "$folder/writ_${version}_${arch}.deb"
