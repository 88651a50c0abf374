#!/bin/sh
# openssh-client 1:9.2p1 (Debian 12): SetEnv in a client's configuration.
# ssh_config(5): SetEnv: "Directly specify one or more environment variables and their contents to be sent
# to the server", and of SendEnv: "Multiple environment variables may be ... spread across multiple SendEnv
# directives".
# Expected: SetEnv of several matching blocks add up, as SendEnv's do; at least if they set different
# variables.
# Seen: the first SetEnv that matches is the only one. A Host block's own SetEnv is dropped without a word
# if a block before it has one, and `ssh -o SetEnv=TRACE=1` unsets all variables of the file. Who writes
# SetEnv into a generated or included file takes it from the user's own blocks, or is without effect.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download openssh-client=1:9.2p1-2+deb12u10 >/dev/null 2>&1 ||
	{ echo "could not be installed" >&2; exit 2; }
dpkg-deb -x openssh-client_*.deb .
cat >config <<'C'
Host *.example
	SetEnv LEVEL=1
	SendEnv LANG
Host box.example
	SetEnv NAME=box
	SendEnv TZ
C
show() {
	usr/bin/ssh -F config "$@" -G box.example </dev/null 2>/dev/null | grep 'env ' | tr '\n' ' '
	echo
}
{
	show
	show -o SetEnv=TRACE=1
	show -o SendEnv=EDITOR
} >seen
cat seen
cmp - seen <<'M'
sendenv LANG sendenv TZ setenv LEVEL=1 
sendenv LANG sendenv TZ setenv TRACE=1 
sendenv EDITOR sendenv LANG sendenv TZ setenv LEVEL=1 
M
