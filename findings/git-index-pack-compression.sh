#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*).
# git-config(1): pack.compression is "the default compression level for objects in a pack file", and
# core.looseCompression "the default compression level for objects that are not in a pack file".
# Expected: the copies of delta bases that git index-pack --fix-thin appends to a pack that it receives have the level of
#   pack.compression, and core.looseCompression changes no pack.
# Seen: pack.compression changes nothing, and core.looseCompression=0 makes the pack almost three times as large. The copies
#   are the slow and large part of receiving a small change of a large file; only the key of loose objects sets their level.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -q git=1:2.39.5-0+deb12u3 >/dev/null
dpkg -x git_*.deb git
rm git_*.deb
git() { GIT_EXEC_PATH="$dir/git/usr/lib/git-core" GIT_CONFIG_NOSYSTEM=1 HOME="$dir" "$dir/git/usr/bin/git" -c user.name=t -c user.email=t@t.example "$@"; }
git --version
git init -q from
seq 100000 >from/file
git -C from add file
git -C from commit -qm one
echo more >>from/file
git -C from commit -qam two
git -C from rev-parse HEAD ^HEAD^ | git -C from pack-objects --revs --stdout --thin -q >thin.pack
size() { # of the pack that is made with a setting
	rm -rf to
	git init -q --bare to
	echo "$dir/from/.git/objects" >to/objects/info/alternates
	git -C to -c "$1" index-pack --stdin --fix-thin <thin.pack >/dev/null
	cat to/objects/pack/*.pack | wc -c
}
default=$(size core.abbrev=7) packs=$(size pack.compression=0) loose=$(size core.looseCompression=0)
echo "received $(wc -c <thin.pack) bytes, kept $default; with pack.compression=0 $packs, with core.looseCompression=0 $loose"
[ "$packs" = "$default" ] && [ "$loose" -gt $((default * 2)) ]
