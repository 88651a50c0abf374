#!/bin/sh
# qemu-utils 1:7.2+dfsg-7+deb12u18+b2 (Debian 12): internal snapshots whose name is a number.
# qemu-img(1), of the argument of -a, -c and -d: it "is the name of the snapshot to create, apply or
# delete".
# Expected: `qemu-img snapshot -a 2` and `qemu-img snapshot -d 2` mean the same snapshot, of those of one
# image.
# Seen: -a 2 (and convert -l 2) takes the snapshot with the ID 2, -d 2 the one named 2; IDs are counted up
# by qemu. With snapshots made as "2" and then "first", -a 2 restores first, and -d 2 deletes 2. Reverting
# to what is named 2 and deleting it by the same word restores another state and then removes the wanted one
# for good. A name that is the number of no ID works in both, until that many snapshots have been made.
# Names have to begin with a letter.
# Exits with 0 if it is still so, with 1 if it has changed, with 2 if it could not be installed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download qemu-utils=1:7.2+dfsg-7+deb12u18+b2 libaio1 libfuse3-3 libglib2.0-0 libgnutls30 libnuma1 \
	liburing2 >/dev/null 2>&1 || { echo "could not be installed" >&2; exit 2; }
for deb in *.deb; do dpkg-deb -x "$deb" .; done
export PATH="$dir/usr/bin:$PATH" LD_LIBRARY_PATH="$dir/usr/lib/x86_64-linux-gnu:$dir/lib/x86_64-linux-gnu"
fill() { qemu-io -f qcow2 -c "write -P $1 0 512" "$2" >/dev/null; }
byte() { od -An -tu1 -N1 "$1" | tr -d ' '; }
qemu-img create -q -f qcow2 disk 1M
fill 11 disk && qemu-img snapshot -c 2 disk
fill 22 disk && qemu-img snapshot -c first disk
fill 33 disk
{
	cp disk applied && qemu-img snapshot -a 2 applied
	read_raw() { qemu-img convert -f qcow2 -O raw "$@" raw && byte raw; }
	echo "named 2 has 11, first has 22; -a 2: $(read_raw applied)"
	echo "convert -l 2: $(read_raw -l 2 disk)"
	echo "convert -l snapshot.name=2: $(read_raw -l snapshot.name=2 disk)"
	cp disk deleted && qemu-img snapshot -d 2 deleted
	echo "left after -d 2: $(qemu-img snapshot -l deleted | awk 'NR > 2 { print $2 }' | tr '\n' ' ')"
} >seen
cat seen
cmp - seen <<'M'
named 2 has 11, first has 22; -a 2: 22
convert -l 2: 22
convert -l snapshot.name=2: 11
left after -d 2: first 
M
