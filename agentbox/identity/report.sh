#!/bin/sh
# Prints what this machine is, for `agentbox identity check --ci FILE`. Run it in the checkout, by the
# step of CI that runs the tests: sh report.sh >report.txt. It changes nothing, and prints no values of
# variables.
say() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }
tool() { # NAME ARGUMENT...: its version, if it is here
	name=$1
	command -v "$name" >/dev/null 2>&1 || return 0
	say tool "$name" "$("$@" 2>&1 </dev/null | grep -o '[0-9][0-9]*\.[0-9][0-9.]*' | head -n 1)"
}
echo 'agentbox report 1'
say commit HEAD "$(git rev-parse HEAD 2>/dev/null)"
for file in LOCKFILES; do
	[ -f "$file" ] && say lockfile "$file" "sha256:$(sha256sum <"$file" | cut -d' ' -f1)"
done
tool go version
for name in node npm pnpm yarn python3 ruby java javac rustc cargo gcc clang cmake make git bash psql; do
	case $name in java | javac) tool "$name" -version ;; *) tool "$name" --version ;; esac
done
say architecture machine "$(uname -m)"
say kernel "$(uname -s)" "$(uname -r)"
(. /etc/os-release 2>/dev/null && say system "$ID" "$VERSION_ID")
command -v dpkg-query >/dev/null 2>&1 && dpkg-query -W -f='package\t${Package}\t${Version}\n' 2>/dev/null
say locale LC_ALL "${LC_ALL:-${LANG:-}}"
say locale timezone "$(date +%Z)"
say limit files "$(ulimit -n)"
for name in CI GOFLAGS GOPROXY GOTOOLCHAIN NODE_ENV NODE_OPTIONS PYTHONPATH RUSTFLAGS CFLAGS LD_PRELOAD LD_LIBRARY_PATH DATABASE_URL; do
	eval "[ -n \"\${$name+x}\" ]" && say variable "$name" set
done
exit 0
