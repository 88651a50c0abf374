#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*).
# git-commit(1), DATE FORMATS: the internal format is "<unix-timestamp> <time-zone-offset>, where
# <unix-timestamp> is the number of seconds since the UNIX epoch". Tools that want the same result each time
# set GIT_COMMITTER_DATE to the epoch itself.
# Expected: what is done with such a date can be found again.
# Seen: a commit of that date is one like any other, but an entry of a reflog is taken for damaged, without
# a word. git stash says "Saved working directory", and git stash list prints nothing, exit 0; git gc
# drops all stashes but the newest. git switch - knows no branch. One second later (@1) all of it works.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME="$dir" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com LC_ALL=C
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
for second in 0 1; do
	export GIT_COMMITTER_DATE="@$second +0000"
	git init -q -b main "work$second"
	cd "work$second"
	echo one >file && git add file && git commit -qm base
	git switch -qc other
	for n in 1 2; do
		echo "$n" >>file
		git stash | sed 's/ state .*//'
		[ "$n" = 2 ] || first=$(git rev-parse stash)
	done
	before=$(git switch - 2>&1 | head -n 1)
	list=$(git stash list | grep -c .) || true
	git gc -q --prune=now
	git cat-file -e "$first" 2>/dev/null && kept=kept || kept=gone
	echo "@$second: $(git log -1 --format=%ct) in the commit, $list in the list, the first is $kept; $before"
	cd ..
done >seen
cat seen
cmp - seen <<'M'
Saved working directory and index
Saved working directory and index
@0: 0 in the commit, 0 in the list, the first is gone; fatal: invalid reference: @{-1}
Saved working directory and index
Saved working directory and index
@1: 1 in the commit, 2 in the list, the first is kept; Switched to branch 'main'
M
