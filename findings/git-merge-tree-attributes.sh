#!/bin/sh
# git 2.39.5 (Debian 1:2.39.5-0+deb12u*).
# git-merge-tree(1): --write-tree "does not read from or write to either the working tree or index", and
# uses "the same feature as the "real" git-merge(1)".
# Expected: two commits have one result, wherever it is asked for; a merge attribute of .gitattributes that
# both of them hold (merge=union for a list or a changelog) counts.
# Seen: .gitattributes is read from the working tree, committed or not, and not from the commits. In a bare
# repository and with another branch checked out both sides' merge=union is not honoured, and the merge
# conflicts; with the file lying there untracked, a merge of commits that have none succeeds. A server or a
# script that merges this way gets what git merge would not, or the other way round.
# Exits with 0 if it is still so, with 1 if it has changed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export HOME="$dir" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com
git init -q -b main work
cd work
commit() { git add -A && git commit -qm "$1"; }
echo one >list && commit base
git branch plain
echo '* merge=union' >.gitattributes && commit attributes
for base in main plain; do
	for side in left right; do
		git checkout -q -b "$base-$side" "$base"
		echo "$side" >>list && commit "$side"
	done
done
merge() { git merge-tree --write-tree "$1-left" "$1-right" >out && code=0 || code=$?; echo "$2: exit $code"; }
{
	git checkout -q main
	merge main "attributes on both sides, and in the working tree"
	git checkout -q plain
	merge main "attributes on both sides, another branch checked out"
	merge plain "no attributes"
	echo '* merge=union' >.gitattributes
	merge plain "no attributes on a side, an untracked file of them"
	git clone -q --bare . ../bare.git
	cd ../bare.git
	merge main "attributes on both sides, bare"
} >"$dir/seen"
cat "$dir/seen"
cmp - "$dir/seen" <<'M'
attributes on both sides, and in the working tree: exit 0
attributes on both sides, another branch checked out: exit 1
no attributes: exit 1
no attributes on a side, an untracked file of them: exit 0
attributes on both sides, bare: exit 1
M
