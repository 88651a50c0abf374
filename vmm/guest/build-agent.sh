#!/bin/sh
# Builds the guest agent that is embedded in agentbox: `go generate ./vmm/guest`. The same source gives the same bytes,
# since the agent is part of what names a kernel directory and a template. Its digest lies beside it: who only wants to know
# which agent this is need not unpack it.
set -eu
cd "$(dirname "$0")"
arch=${GOARCH_GUEST:-$(go env GOHOSTARCH)}
out=embedded/agentbox-guest-linux-$arch
tmp=$(mktemp embedded/.agent.XXXXXX) # hidden: whoever builds agentbox meanwhile does not embed it
trap 'rm -f "$tmp" "$tmp.gz" "$tmp.sha256"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags="-s -w -buildid=" -o "$tmp" ./agentbox-guest
gzip -9n <"$tmp" >"$tmp.gz"
sha256sum <"$tmp" | sed 's/^\([0-9a-f]*\).*/sha256:\1/' >"$tmp.sha256"
chmod 644 "$tmp.gz" "$tmp.sha256"
# What is there already stays, so that whoever compiles it meanwhile has both or neither.
cmp -s "$tmp.sha256" "$out.sha256" && cmp -s "$tmp.gz" "$out.gz" && exit
mv "$tmp.sha256" "$out.sha256"
mv "$tmp.gz" "$out.gz"
