package snapshot

import "agentbox/agentbox/workspace"

// maxLarge is the maximum size, in bytes, of an uncommitted file that is kept.
const maxLarge = 512 << 20

// gitInBox sets up git for the current workspace in a box, so that no configuration can run a
// program or change the output. For git, no checkout is sparse: it would leave out new and changed
// files outside of the sparse patterns.
const gitInBox = `
export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1 GIT_DIR="$PWD/.git" GIT_WORK_TREE="$PWD"
git() {
	command git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.untrackedCache=false -c core.splitIndex=false -c core.sparseCheckout=false -c gc.auto=0 -c core.quotePath=true \
		-c advice.addEmbeddedRepo=false -c core.safecrlf=false -c core.bigFileThreshold=64m "$@"
}`

// capture prints the contents of a box's workspace: lines of facts, then "pack" and a pack with
// the objects that the host lacks. It does not change the workspace: new objects and the index
// go into a temporary directory. It keeps the number of processes low, because each costs some
// ten milliseconds under gVisor.
//
// Its environment: HAVE, commits that the host has; ID, for the commit message; LARGE, the
// maximum file size in KiB; MOST, the maximum number of branches and stashes.
//
// The lines, which facts.take parses. All are optional except format, top and pack:
//
//	missing TEXT     something that cannot be kept, for display
//	nested PATH      a nested repository in the workspace
//	format FORMAT    of the objects: sha1 or sha256
//	head ID          the commit checked out; empty before the first commit
//	top ID           head, or a commit on top of it with everything uncommitted
//	files N          the number of uncommitted files in top
//	also ID REF      a branch or stash that top does not contain
//	failed TEXT      why git failed; always the last line, without a pack after it
//	pack             a thin pack follows, of all objects reachable from the ids but not from HAVE
//
// The workspace may be in any state: no commits, a damaged or locked index, an unfinished merge,
// missing objects. The script therefore works on a copy of the index, recreates it from HEAD if
// git cannot read it, and reports each failure as a line instead of an exit status. The copy keeps
// the index's time: git reads the contents of files that are as young as their index.
const capture = `
set -u
fail() { printf 'failed %s\n' "$*" | tr -d '\r'; exit 0; }
command -v git >/dev/null || fail there is no git in the box
` + gitInBox + `
[ -e .git ] || fail the workspace has no .git any more
t=$(mktemp -d) || fail there is no room in the box
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
git rev-parse --path-format=absolute --git-path objects --git-path index --show-object-format >"$t/paths" 2>"$t/why" || fail "$(head -n 1 "$t/why")"
{ read -r objects && read -r index && read -r format; } <"$t/paths"
git rev-parse 'HEAD^{commit}' 'HEAD^{tree}' >"$t/head" 2>/dev/null && { read -r head && read -r began; } <"$t/head" || head= began=
if [ -z "$head" ]; then
	ref=$(git symbolic-ref -q HEAD) || ref=
	if [ -z "$ref" ] || git rev-parse -q --verify "$ref" >/dev/null 2>&1 || [ -e "$(git rev-parse --git-path "$ref")" ]; then
		fail "the commit of HEAD is damaged"
	fi
fi
mkdir "$t/objects" || fail there is no room in the box
export GIT_OBJECT_DIRECTORY="$t/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" GIT_INDEX_FILE="$t/index"

find . -path ./.git -prune -o -type f -size "+${LARGE}k" -exec printf ':(top,exclude,literal)%s\0' {} + >"$t/large"
printf ':/\0' >"$t/spec"
[ ! -s "$t/large" ] || cat "$t/large" >>"$t/spec"
again() { # begins with what is committed, for an index that git cannot read
	rm -f "$t/index"
	[ -z "$head" ] || git read-tree "$head" 2>/dev/null || fail "the commit of HEAD is damaged"
}
` + workspace.Reveal + `
add() {
	reveal 2>"$t/why" || return
	git add -A --ignore-errors --pathspec-from-file="$t/spec" --pathspec-file-nul >/dev/null 2>"$t/lost"
	tree=$(git write-tree 2>"$t/why")
}
if ! cp -p "$index" "$t/index" 2>/dev/null || ! add; then
	if [ -e "$index" ] && ! { cp -p "$index" "$t/index" && git ls-files --stage; } >/dev/null 2>&1; then
		echo 'missing what was staged: the index is damaged'
	fi
	again
	add || fail "$(head -n 1 "$t/why")"
fi
[ ! -s "$t/lost" ] || sed -n 's/^error: /missing /p' "$t/lost" | head -n 20
[ ! -s "$t/large" ] || tr '\0' '\n' <"$t/large" | sed -n 's/^:(top,exclude,literal)\.\/\(.*\)$/missing \1 is too large/p' | head -n 20
git ls-files --stage | sed -n 's/^160000 [0-9a-f]* [0-9]	\(.*\)$/nested \1/p'

printf 'format %s\n' "$format"
count() { sed -n '1000000{=;q};$='; } # as far as that
top=$head
files=0
if [ -z "$head" ] || [ "$tree" != "$began" ]; then
	export GIT_AUTHOR_NAME=agentbox GIT_AUTHOR_EMAIL=agentbox@localhost GIT_COMMITTER_NAME=agentbox GIT_COMMITTER_EMAIL=agentbox@localhost
	if [ -n "$head" ]; then
		files=$(git diff-tree -r --no-renames --name-only "$began" "$tree" | count)
		top=$(git commit-tree -p "$head" -m "Uncommitted work of $ID" "$tree" 2>"$t/why") || fail "$(head -n 1 "$t/why")"
	else
		files=$(git ls-tree -r --name-only "$tree" | count)
		top=$(git commit-tree -m "Uncommitted work of $ID" "$tree" 2>"$t/why") || fail "$(head -n 1 "$t/why")"
	fi
fi
printf 'head %s\ntop %s\nfiles %s\n' "$head" "$top" ${files:-0}
echo "$top" >"$t/tips"
git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/stash >"$t/heads"
others=
while read -r id name; do
	[ "$id" = "$head" ] || others=1
done <"$t/heads"
if [ -n "$others" ]; then
	git cat-file --batch-check='%(objectname) %(rest)' <"$t/heads" | sed -n 's/^\([0-9a-f]*\) missing$/missing the branch at \1, which is damaged/p' | head -n 20
	{
		git log -g --format='%H refs/stash' refs/stash 2>/dev/null
		git for-each-ref --sort=-committerdate --no-merged="$top" --format='%(objectname) %(refname)' refs/heads 2>/dev/null || cat "$t/heads"
	} >"$t/branches"
	[ $(wc -l <"$t/branches") -le $MOST ] || echo "missing all branches and stashes but the first $MOST"
	head -n $MOST "$t/branches" | git cat-file --batch-check='%(objectname) %(objecttype) %(rest)' | while read -r id type name; do
		[ "$type" = commit ] || continue
		echo "$id" >>"$t/tips"
		echo "also $id $name"
	done
fi
for id in $HAVE; do
	echo "$id^{commit}"
done | git cat-file --batch-check='^%(objectname)' | sed -n '/^^[0-9a-f]*$/p' >>"$t/tips"
echo pack
git pack-objects --revs --stdout --thin --delta-base-offset -q <"$t/tips"
`
