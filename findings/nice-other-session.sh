#!/bin/bash
# nice and setsid of Debian 12 (coreutils 9.1-1, util-linux 2.38.1-5+deb12u3), on a kernel with autogroup (the default).
#
# Expected: `nice -n 19` leaves the processor to programs of nice 0, whoever started them: some 1.5% for it.
# Seen: so it is within a session; started by setsid, as every daemon is, the same command at nice 19 gets half of the
# processor beside one of nice 0 in another session. Linux compares nice values within a session only, unless
# cgroups divide the processor; /proc/PID/autogroup holds the session's own value (sched(7)), which nice does not set.
# A service that starts work "niced, in the background" slows its user down all the same.
# Where autogroup is off, this shows nothing and succeeds. Run on 28 November 2026 with Linux 6.18.
set -eu
[ "$(cat /proc/sys/kernel/sched_autogroup_enabled 2>/dev/null)" = 1 ] || exit 0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -qq coreutils=9.1-1 util-linux=2.38.1-5+deb12u3
for package in *.deb; do dpkg -x "$package" .; done
export PATH="$dir/usr/bin:$dir/bin:$PATH"
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
# share prints what nice 19 gets, in percent of both; $@ starts it.
share() {
	"$@" taskset -c 0 nice -n 19 sh -c 'while :; do :; done' &
	low=$!
	taskset -c 0 sh -c 'while :; do :; done' &
	high=$!
	sleep 4
	a=$(ticks "$low") b=$(ticks "$high")
	kill "$low" "$high"
	echo $((100 * a / (a + b)))
}
same=$(share env 2>/dev/null)
other=$(share setsid 2>/dev/null)
echo "nice 19 gets $same% in the same session, $other% in another"
[ "$same" -le 15 ]
[ "$other" -ge 25 ]
