#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*).
# git-stash(1): create makes "a stash entry (which is a regular commit object)", "intended to be useful for
# scripts". It is how tools keep a state of the working tree without changing it.
# Expected: it takes push's --include-untracked, or refuses it; and new files that are marked by git add -N
# (as tools do to see them in git diff) are in the entry.
# Seen: "-u" and "--include-untracked" become the entry's message; the exit code is 0, and the new file is
# not in the entry. With one file marked by git add -N, create fails whatever else has changed, and prints
# no commit: "error: Entry 'new' not uptodate. Cannot merge." With nothing changed but new files it prints
# nothing, exit 0: an empty answer with 0 means "as HEAD", though the tree is not.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME="$dir" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com LC_ALL=C
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git init -q -b main work
cd work
echo one >old && git add old && git commit -qm base
echo new >new
{
	echo "only a new file: '$(git stash create)', exit $?"
	echo two >>old
	entry=$(git stash create --include-untracked)
	echo "$(git log -1 --format='%s, %p' "$entry" | sed 's/[0-9a-f]\{7,\}/parent/g')"
	echo "in it: $(git ls-tree --name-only "$entry" | tr '\n' ' ')"
	git add -N new
	entry=$(git stash create 2>../err) && code=0 || code=$?
	echo "after add -N: '$entry', exit $code: $(head -n 1 ../err)"
} >"$dir/seen"
cat "$dir/seen"
cmp - "$dir/seen" <<'M'
only a new file: '', exit 0
On main: --include-untracked, parent parent
in it: old 
after add -N: '', exit 1: error: Entry 'new' not uptodate. Cannot merge.
M
