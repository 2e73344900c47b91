#!/usr/bin/env bash
# Makes Go stubs of the contract, and compiles them, and a client of them. Everything is Debian's; nothing is loaded.
#   check.sh
set -euo pipefail
proto=$(realpath "$(dirname "$0")/..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
module=weft.invalid/stubs
files=$(cd "$proto" && find weft/v1 weft/agent -name '*.proto' | sort)
annotations=google.golang.org/genproto/googleapis/api/annotations
options=()
for file in google/api/annotations.proto google/api/http.proto; do
  # They have Go code of their own, which genproto brings.
  options+=("--go_opt=M$file=$annotations" "--go-grpc_opt=M$file=$annotations")
done
for file in $files; do
  package=$module/$(dirname "$file")
  options+=("--go_opt=M$file=$package" "--go-grpc_opt=M$file=$package")
done
mkdir -p "$work/src/weft.invalid/stubs" "$work/src/weft.invalid/client"
(cd "$proto" && protoc --proto_path=. --go_out="$work/src" --go-grpc_out="$work/src" "${options[@]}" $files)
cp "$proto/go/client.go" "$work/src/weft.invalid/client/main.go"
export GO111MODULE=off GOPATH="$work:/usr/share/gocode" GOFLAGS= CGO_ENABLED=0
export GOCACHE="${XDG_CACHE_HOME:-$HOME/.cache}/weft/go"
go vet "$module/..." weft.invalid/client
go build -o "$work/client" weft.invalid/client
echo "$(find "$work/src/weft.invalid/stubs" -name '*.go' | wc -l) files of stubs compile, and a client of them"
if [ $# -gt 0 ]; then "$work/client" "$@"; fi
