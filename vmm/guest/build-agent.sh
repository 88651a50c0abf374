#!/bin/sh
# Builds the guest agent that is embedded in agentbox: `go generate ./vmm/guest`. The same source gives the same bytes,
# since the agent is part of what names a kernel directory and a template.
set -eu
cd "$(dirname "$0")"
arch=${GOARCH_GUEST:-$(go env GOHOSTARCH)}
out=embedded/agentbox-guest-linux-$arch
tmp=$(mktemp "$out.XXXXXX")
trap 'rm -f "$tmp" "$tmp.gz"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o "$tmp" ./agentbox-guest
gzip -9n <"$tmp" >"$tmp.gz"
chmod 644 "$tmp.gz"
mv "$tmp.gz" "$out.gz"
