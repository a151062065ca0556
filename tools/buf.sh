#!/bin/sh
# Puts buf, of the version in tools/go.mod, at the path $1: from npm, whose package is
# the program itself (30 MB), or built.
set -eu
version=$(sed -n 's|.*github.com/bufbuild/buf v\([0-9.]*\).*|\1|p' tools/go.mod)
case "$(uname -s)-$(uname -m)" in
Linux-x86_64) platform=linux-x64 ;;
Linux-aarch64) platform=linux-aarch64 ;;
Darwin-x86_64) platform=darwin-x64 ;;
Darwin-arm64) platform=darwin-arm64 ;;
*) platform= ;;
esac
mkdir -p "$(dirname "$1")"
if [ -n "$platform" ] && command -v npm >/dev/null; then
  echo "fetching buf $version (seconds, once)"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  if (cd "$folder" && npm pack --silent "@bufbuild/buf-$platform@$version" >/dev/null && tar -xzf ./*.tgz) &&
    install -m 755 "$folder/package/bin/buf" "$1" && [ "$("$1" --version 2>&1)" = "$version" ]; then
    exit 0
  fi
  rm -f "$1"
fi
echo "building buf $version (1 to 3 minutes on two cores, once)"
cd tools && ${GO:-go} build -o "$OLDPWD/$1" github.com/bufbuild/buf/cmd/buf
