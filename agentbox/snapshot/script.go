package snapshot

// maxLarge is the size of a file beyond which one that is not committed is left out.
const maxLarge = 512 << 20

// capture prints, in the workspace of a box, what it holds: lines of facts, then "pack" and a pack
// with the objects that the host lacks. It changes nothing there: new objects and the index are in
// a directory of its own.
//
// Its environment: HAVE, commits that the host has; ID, for the message; LARGE, in KiB.
const capture = `
set -u
export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1
export GIT_DIR="$PWD/.git" GIT_WORK_TREE="$PWD"
git() {
	command git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.untrackedCache=false -c core.splitIndex=false -c gc.auto=0 -c core.quotePath=true \
		-c advice.addEmbeddedRepo=false -c core.safecrlf=false -c core.bigFileThreshold=64m "$@"
}
fail() { printf 'failed %s\n' "$*" | tr -d '\r'; exit 0; }
command git --version >/dev/null 2>&1 || fail there is no git in the box
[ -e .git ] || fail the workspace has no .git any more
t=$(mktemp -d) || fail there is no room in the box
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
objects=$(git rev-parse --path-format=absolute --git-path objects 2>"$t/why") || fail "$(head -n 1 "$t/why")"
index=$(git rev-parse --path-format=absolute --git-path index)
head=$(git rev-parse -q --verify 'HEAD^{commit}' 2>/dev/null) || head=
ref=$(git symbolic-ref -q HEAD) || ref=
if [ -z "$head" ] && { [ -z "$ref" ] || git rev-parse -q --verify "$ref" >/dev/null 2>&1 || [ -e "$(git rev-parse --git-path "$ref")" ]; }; then
	fail "the commit of HEAD is damaged"
fi
mkdir "$t/objects" || fail there is no room in the box
export GIT_OBJECT_DIRECTORY="$t/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects" GIT_INDEX_FILE="$t/index"

printf ':/\0' >"$t/spec"
find . -path ./.git -prune -o -type f -size "+${LARGE}k" -exec printf ':(top,exclude,literal)%s\0' {} + >>"$t/spec"
again() { # begins with what is committed, for an index that git cannot read
	rm -f "$t/index"
	[ -z "$head" ] || git read-tree "$head" 2>/dev/null || fail "the commit of HEAD is damaged"
}
add() {
	git update-index -q --really-refresh >/dev/null 2>&1
	git add -A --ignore-errors --pathspec-from-file="$t/spec" --pathspec-file-nul >/dev/null 2>"$t/lost"
	tree=$(git write-tree 2>"$t/why")
}
if cp "$index" "$t/index" 2>/dev/null && git ls-files --stage >/dev/null 2>&1; then
	add || { again; add; } || fail "$(head -n 1 "$t/why")"
else
	[ -e "$index" ] && echo 'missing what was staged: the index is damaged'
	again
	add || fail "$(head -n 1 "$t/why")"
fi
sed -n 's/^error: /missing /p' "$t/lost" | head -n 20
tr '\0' '\n' <"$t/spec" | sed -n 's/^:(top,exclude,literal)\.\/\(.*\)$/missing \1 is too large/p' | head -n 20
git ls-files --stage | sed -n 's/^160000 [0-9a-f]* [0-9]	\(.*\)$/nested \1/p' | head -n 20

printf 'format %s\n' "$(git rev-parse --show-object-format 2>/dev/null || echo sha1)"
top=$head
files=0
if [ -z "$head" ] || [ "$tree" != "$(git rev-parse "$head^{tree}")" ]; then
	export GIT_AUTHOR_NAME=agentbox GIT_AUTHOR_EMAIL=agentbox@localhost GIT_COMMITTER_NAME=agentbox GIT_COMMITTER_EMAIL=agentbox@localhost
	if [ -n "$head" ]; then
		files=$(git diff-tree -r --no-renames --name-only "$head^{tree}" "$tree" | wc -l)
		top=$(git commit-tree -p "$head" -m "Uncommitted work of $ID" "$tree" 2>"$t/why") || fail "$(head -n 1 "$t/why")"
	else
		files=$(git ls-tree -r --name-only "$tree" | wc -l)
		top=$(git commit-tree -m "Uncommitted work of $ID" "$tree" 2>"$t/why") || fail "$(head -n 1 "$t/why")"
	fi
fi
printf 'head %s\ntop %s\nfiles %s\n' "$head" "$top" $files
echo "$top" >"$t/tips"
{
	git for-each-ref --format='%(objectname) %(refname)' refs/heads
	git log -g --format='%H refs/stash' refs/stash 2>/dev/null
} | head -n 100 | while read -r id name; do
	git merge-base --is-ancestor "$id" "$top" 2>/dev/null && continue
	git cat-file -e "$id^{commit}" 2>/dev/null || { echo "missing $name, which is damaged"; continue; }
	echo "$id" >>"$t/tips"
	echo "also $id $name"
done
for id in $HAVE; do
	git cat-file -e "$id^{commit}" 2>/dev/null && echo "^$id" >>"$t/tips"
done
echo pack
git pack-objects --revs --stdout --thin --delta-base-offset -q <"$t/tips"
`
