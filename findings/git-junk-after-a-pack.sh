#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*). git-index-pack(1), git-unpack-objects(1): both read a pack from
# standard input; a pack ends with the checksum of all of it.
# Expected: bytes after that are refused, or not, whatever standard input is, and by both commands with
# --strict.
# Seen: index-pack --stdin refuses them in a file ("pack has junk at the end"), and from a pipe takes the
#   same bytes, writes the rest of its buffer to standard output after its own line, and succeeds.
#   unpack-objects --strict succeeds with both, and writes them to standard output. Who keeps the input as
#   it came, since git has checked it, keeps what nobody checked.
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
echo one >from/file
git -C from add file
git -C from commit -qm one
git -C from rev-parse HEAD | git -C from pack-objects --revs --stdout -q >pack
echo junk >>pack
take() { # whether git takes it, and what it writes
	rm -rf to
	git init -q --bare to
	git -C to "$@" >said 2>error && echo "taken, $(tail -n 1 said)" || sed -n 's/^fatal: //p' error
}
file=$(take index-pack --stdin --strict <pack) pipe=$(cat pack | take index-pack --stdin --strict)
loose=$(take unpack-objects -q --strict <pack) loosePipe=$(cat pack | take unpack-objects -q --strict)
echo "index-pack from a file: $file; from a pipe: $pipe"
echo "unpack-objects from a file: $loose; from a pipe: $loosePipe"
[ "$file" = "pack has junk at the end" ] && [ "$pipe" = "taken, junk" ] && [ "$loose" = "taken, junk" ] && [ "$loosePipe" = "taken, junk" ]
