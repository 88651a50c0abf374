#!/bin/sh
# Builds what runs gVisor machines and is embedded in agentbox: `go generate ./vmm/gvisor/runsc`. The same source gives
# the same bytes, since a template fits the runsc that made it and no other.
set -eu
cd "$(dirname "$0")"
arch=${GOARCH_GUEST:-$(go env GOHOSTARCH)}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export CGO_ENABLED=0 GOOS=linux GOARCH="$arch"
version=$(cd ../../../tools/runsc && go list -m -f '{{.Version}}' gvisor.dev/gvisor)
overlay=
if [ "$arch" = "$(go env GOHOSTARCH)" ]; then # what compiles the filters runs here
	(cd ../../../tools/runsc && go run ./filters) >"$tmp/programs.go"
	printf '{"Replace": {"%s/programs.go": "%s/programs.go"}}\n' "$(cd ../../../tools/runsc && pwd)" "$tmp" >"$tmp/overlay.json"
	overlay=-overlay=$tmp/overlay.json
fi
(cd ../../../tools/runsc &&
	go build -trimpath -buildvcs=false $overlay -ldflags="-s -w -buildid= -X gvisor.dev/gvisor/runsc/version.version=$version" -o "$tmp/runsc" .)
go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o "$tmp/launch" ../launch
unset GOOS GOARCH
go run -trimpath -buildvcs=false ../../../agentbox/packed/pack "$tmp/runsc" "embedded/runsc-linux-$arch" "$version"
go run -trimpath -buildvcs=false ../../../agentbox/packed/pack "$tmp/launch" "embedded/launch-linux-$arch" "$version"
