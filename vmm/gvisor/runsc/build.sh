#!/bin/sh
# Builds what runs gVisor machines and is embedded in agentbox: `go generate ./vmm/gvisor/runsc`. The same source gives
# the same bytes, since a template fits the runsc that made it and no other.
set -eu
cd "$(dirname "$0")"
arch=${GOARCH_GUEST:-$(go env GOHOSTARCH)}
tmp=$(mktemp -d)
root=$(cd ../../.. && pwd)
patched=$root/build/gvisor
trap 'rm -rf "$tmp" "$patched"' EXIT
export CGO_ENABLED=0 GOOS=linux GOARCH="$arch"
version=$(cd ../../../tools/runsc && go list -m -f '{{.Version}}' gvisor.dev/gvisor)

# A copy of gVisor's source with our patches. Go allows no overlay of its module cache, and the path of a replacement is
# in the program, so it is relative.
rm -rf "$patched"
mkdir -p "$root/build"
cp -r "$(cd ../../../tools/runsc && go mod download gvisor.dev/gvisor && go list -m -f '{{.Dir}}' gvisor.dev/gvisor)" "$patched"
chmod -R u+w "$patched"
(cd "$patched" && GIT_CEILING_DIRECTORIES=$root/build git apply "$root"/tools/runsc/patches/*.patch)
cp ../../../tools/runsc/go.mod ../../../tools/runsc/go.sum "$tmp"
go mod edit -replace gvisor.dev/gvisor=../../build/gvisor "$tmp/go.mod"
overlay=
if [ "$arch" = "$(go env GOHOSTARCH)" ]; then # what compiles the filters runs here
	(cd ../../../tools/runsc && go run ./filters) >"$tmp/programs.go"
	printf '{"Replace": {"%s/tools/runsc/programs.go": "%s/programs.go"}}\n' "$root" "$tmp" >"$tmp/overlay.json"
	overlay=-overlay=$tmp/overlay.json
fi
(cd ../../../tools/runsc &&
	go build -modfile="$tmp/go.mod" -trimpath -buildvcs=false $overlay -ldflags="-s -w -buildid= -X gvisor.dev/gvisor/runsc/version.version=$version" -o "$tmp/runsc" .)
go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o "$tmp/launch" ../launch
unset GOOS GOARCH
go run -trimpath -buildvcs=false ../../../agentbox/packed/pack "$tmp/runsc" "embedded/runsc-linux-$arch" "$version"
go run -trimpath -buildvcs=false ../../../agentbox/packed/pack "$tmp/launch" "embedded/launch-linux-$arch" "$version"
