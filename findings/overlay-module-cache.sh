#!/bin/sh
# go 1.26 (cmd/go), module rsc.io/quote v1.5.2
#
# Expected: `go build -overlay` replaces any source file, as `go help build` says ("the disk file paths to their backing
# file paths"), so that one file of a dependency can be patched for a build without a copy of the module.
# Seen: a file in the module cache must not be replaced:
#   go: overlay contains a replacement for .../rsc.io/quote@v1.5.2/quote.go. Files beneath GOMODCACHE (...) must not be replaced.
# A patched dependency needs a copy of the whole module and a `replace` (by -modfile, if go.mod is to stay), or `go mod vendor`.
# Exits non-zero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'M'
module example.com/overlay

go 1.26

require rsc.io/quote v1.5.2
M
printf 'package main\n\nimport "rsc.io/quote"\n\nfunc main() { println(quote.Hello()) }\n' >main.go
export GOFLAGS=-mod=mod GOWORK=off
go mod download rsc.io/quote
source=$(go list -m -f '{{.Dir}}' rsc.io/quote)/quote.go
printf 'package quote\n\nfunc Hello() string { return "patched" }\n' >patched.go
printf '{"Replace": {"%s": "%s/patched.go"}}\n' "$source" "$dir" >overlay.json
if go run -overlay overlay.json . >said 2>&1; then
	echo "go run took the overlay and said: $(cat said)"
	exit 1
fi
grep -F 'must not be replaced' said
