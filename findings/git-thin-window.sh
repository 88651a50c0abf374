#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*).
# git-pack-objects(1): --window "affects how objects stored in the pack are compressed using delta compression", and
# a delta that is there already is used again unless --no-reuse-delta is given.
# Expected: git pack-objects --thin --window=0 searches for no new deltas, and sends those that a pack has.
# Seen: it sends whole files in place of the deltas, hundreds of times as many bytes as with --window=1, which searches
#   among one object: without a window git adds no base that the receiver has to what a delta may build on. Who wants
#   a fast thin pack has to say --window=1.
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
seq 100001 >from/file
git -C from add file
git -C from commit -qm one
seq 100000 >from/file
git -C from commit -qam two
git -C from repack -q -a -d # the larger file is whole, the other one a delta of it
git -C from rev-parse HEAD ^HEAD^ >revs
size() { git -C from pack-objects --revs --stdout --thin -q "$1" <revs | wc -c; }
none=$(size --window=0) one=$(size --window=1)
echo "with --window=0 $none bytes, with --window=1 $one"
[ "$none" -gt $((one * 10)) ]
