#!/bin/sh
# Builds the programs that the command line starts and that are embedded in it: `go generate ./agentbox/programs`, after
# the guest agent and gVisor, which they embed in their turn.
set -eu
cd "$(dirname "$0")"
arch=$(go env GOARCH)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
version=$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' "../../vmm/gvisor/runsc/embedded/runsc-linux-$arch.json")
go build -trimpath -ldflags='-s -w' -o "$tmp/daemon" ../daemon/agentbox-daemon
go build -tags supervisor -trimpath -ldflags='-s -w' -o "$tmp/supervisor" ../supervisor/agentbox-supervisor
go run -trimpath ../packed/pack "$tmp/daemon" "embedded/agentbox-daemon-linux-$arch" "$version"
go run -trimpath ../packed/pack "$tmp/supervisor" "embedded/agentbox-supervisor-linux-$arch" ''
