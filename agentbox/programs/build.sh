#!/bin/sh
# Builds the programs that the command line starts and that are embedded in it: `go generate ./agentbox/programs`, after
# the guest agent and gVisor, which they embed in their turn. They stay in build/, where go need not link them again.
set -eu
cd "$(dirname "$0")"
export CGO_ENABLED=0 # they run on any Linux; the loader of libc would take a fifth of a start
arch=$(go env GOARCH)
out=../../build/programs
mkdir -p "$out"
version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' "../../vmm/gvisor/runsc/embedded/runsc-linux-$arch.json")
go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$out/daemon" ../daemon/agentbox-daemon
go build -tags supervisor -trimpath -buildvcs=false -ldflags='-s -w' -o "$out/supervisor" ../place/local/supervisor/agentbox-supervisor
go build -trimpath -buildvcs=false -ldflags='-s -w' -o "$out/check" ../check/agentbox-check
# Lima says in each of its machines which version made it.
lima=$(go list -m -f '{{.Version}}' github.com/lima-vm/lima/v2)
go build -trimpath -buildvcs=false -ldflags="-s -w -X github.com/lima-vm/lima/v2/pkg/version.Version=$lima" -o "$out/lima" ../lima/agentbox-lima
go run -trimpath -buildvcs=false ../packed/pack "$out/daemon" "embedded/agentbox-daemon-linux-$arch" "$version"
go run -trimpath -buildvcs=false ../packed/pack "$out/supervisor" "embedded/agentbox-supervisor-linux-$arch" ""
go run -trimpath -buildvcs=false ../packed/pack "$out/check" "embedded/agentbox-check-linux-$arch" ""
go run -trimpath -buildvcs=false ../packed/pack "$out/lima" "embedded/agentbox-lima-linux-$arch" "$lima"
