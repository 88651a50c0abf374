#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*), and as far as we know every release with required filters.
# git-add(1): --ignore-errors: "If some files could not be added because of errors indexing them, do
# not abort the operation, but continue adding the others."
# Expected: beside a file whose required clean filter cannot run, the other files are added, and git
#   add exits with 1, as it does for a file that it may not read.
# Seen: git add exits with 128 and adds nothing at all, whatever the order of the names. The exit code
#   and the empty index are all that tells it from success; tools that ignore the code take a tree full of new files
#   for an unchanged one.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
apt-get download -q git=1:2.39.5-0+deb12u3 >/dev/null
dpkg -x git_*.deb git
rm git_*.deb
git() { GIT_EXEC_PATH="$dir/git/usr/lib/git-core" GIT_CONFIG_NOSYSTEM=1 HOME="$dir" "$dir/git/usr/bin/git" "$@"; }
git --version
git init -q work
cd work
git config filter.up.clean no-such-program
git config filter.up.required true
echo '*.up filter=up' >.gitattributes
echo a >a
echo m >m.up
echo z >z
code=0
git add -A --ignore-errors || code=$?
added=$(git ls-files | wc -l)
echo "git add ended with $code; $added of 4 files were added"
[ "$code" = 128 ] && [ "$added" = 0 ]
