#!/bin/sh
# openssh-client 1:9.2p1 (Debian 12): `ssh -G`, which prints the configuration for a destination "after evaluating Host and Match blocks".
# Expected: values as ssh would use them, so that another client can connect by them.
# Seen: tokens of HostName are expanded (%h.example is x.example), those of ProxyCommand are not: it is printed as "nc %h %p",
# beside a hostname and a port that say what ssh itself would put there. A client that runs what is printed connects to "%h".
# Output: hostname x.example / port 2200 / proxycommand nc %h %p
# Exits with 1 if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download openssh-client=1:9.2p1-2+deb12u10 >/dev/null 2>&1
dpkg -x openssh-client_*.deb .
printf 'Host x\n HostName %%h.example\n Port 2200\n ProxyCommand nc %%h %%p\n' >config
usr/bin/ssh -G -F config x 2>/dev/null | grep -E '^(hostname|port|proxycommand) ' | sort | tee said
printf 'hostname x.example\nport 2200\nproxycommand nc %%h %%p\n' | cmp - said
