#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*).
# git-fetch(1): --prune, "Before fetching, remove any remote-tracking references that no longer exist on the
# remote"; --atomic, "Use an atomic transaction to update local refs. Either all refs are updated, or on
# error, no refs are updated".
# Expected: both together follow a branch renamed from topic to topic/one, as --prune does by itself.
# Seen: with --atomic the fetch fails, each time: "cannot lock ref 'refs/remotes/origin/topic/one':
# 'refs/remotes/origin/topic' exists". The removal is a part of the same transaction, and one transaction
# cannot remove topic and create topic/one (git update-ref --stdin cannot, either). No other branch arrives
# any more, until somebody prunes without --atomic. What keeps a mirror exact by both options stops at the
# first such rename.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME="$dir" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com LC_ALL=C
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git init -q -b main source
git -C source commit -q --allow-empty -m base
git -C source branch topic
for clone in prune both; do git clone -q source $clone; done
git -C source branch -m topic topic/one
git -C source branch other
branches() {
	git -C "$1" for-each-ref --format='%(refname:lstrip=3)' refs/remotes/origin | grep -v HEAD | xargs
}
{
	git -C prune fetch -q --prune && echo "prune: exit 0, $(branches prune)"
	git -C both fetch -q --prune --atomic 2>err && code=0 || code=$?
	echo "prune and atomic: exit $code, $(branches both)"
	tr ';' '\n' <err
	git -C both fetch -q --prune && git -C both fetch -q --prune --atomic && echo "after prune: $(branches both)"
	git -C both for-each-ref --format='delete %(refname)' refs/remotes/origin/topic/one >steps
	echo "create refs/remotes/origin/topic/one/two HEAD" >>steps
	git -C both update-ref --stdin <steps 2>err || echo "update-ref: exit $?"
} >seen
cat seen
cmp - seen <<'M'
prune: exit 0, main other topic/one
prune and atomic: exit 254, main topic
error: cannot lock ref 'refs/remotes/origin/topic/one': 'refs/remotes/origin/topic' exists
 cannot create 'refs/remotes/origin/topic/one'
after prune: main other topic/one
update-ref: exit 128
M
