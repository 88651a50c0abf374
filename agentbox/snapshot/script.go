package snapshot

// maxLarge is the maximum size, in bytes, of an uncommitted file that is kept, and of the objects of
// a repository in the workspace.
const maxLarge = 512 << 20

// gitInBox sets up git in a box, so that no configuration can run a program or change the output.
// For git, no checkout is sparse: it would leave out new and changed files outside of the sparse
// patterns. named prints every ref but those that follow another repository and our own; adrift
// prints the commits that only a git directory's other files name: those that were left on no
// branch, a detached HEAD, and those of an interrupted operation (workspace.Adrift reads the same).
const gitInBox = `
export LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_REPLACE_OBJECTS=1 GIT_NO_LAZY_FETCH=1
git() {
	command git -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.untrackedCache=false -c core.splitIndex=false -c core.sparseCheckout=false -c gc.auto=0 -c core.quotePath=true \
		-c advice.addEmbeddedRepo=false -c core.safecrlf=false -c core.bigFileThreshold=64m -c log.showSignature=false -c 'safe.directory=*' "$@"
}
named() {
	{ # an absent object has no tag
		git for-each-ref --format='%(objectname) %(refname)%0a%(*objectname) %(refname)' || git for-each-ref --format='%(objectname) %(refname)'
	} 2>/dev/null | sed '/^ /d; / refs\/remotes\//d; / refs\/agentbox\//d'
	git log -g --format='%H refs/stash' refs/stash -- 2>/dev/null || true
}
adrift() {
	[ ! -f "$1/logs/HEAD" ] || sed -n 's/^[0-9a-f]* [0-9a-f]* .*	checkout: moving from \([0-9a-f]\{40,64\}\) to .*/\1 detached/p' "$1/logs/HEAD"
	for f in HEAD MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD MERGE_AUTOSTASH rebase-merge/orig-head rebase-merge/autostash rebase-apply/orig-head rebase-apply/autostash; do
		[ ! -f "$1/$f" ] || sed -n 's/^\([0-9a-f]\{40,64\}\).*/\1 '"${f#*/}"'/p' "$1/$f"
	done
}
`

// capture tells what a box has and then sends what the host asks for: lines of facts, "ready", and,
// once the host has answered, "pack" with a pack. It changes nothing in the box: new objects and
// indexes go into a temporary directory. It keeps the number of processes low, because each costs
// some ten milliseconds under gVisor.
//
// It looks at every repository: the workspace's own, those that lie in the workspace, ignored or
// not, and those of submodules that are not checked out. Of each it looks at every work tree,
// wherever that lies in the box, and at every commit that named and adrift print. What it cannot
// read it says. A repository may be in any state: no commits, a damaged or locked index, an
// unfinished merge, missing objects.
//
// Its environment: BASE, the commit that the box began with, or nothing; ID, for the messages of
// commits; LARGE, maxLarge in KiB; NEWEST, the maximum number of commits that are listed by age;
// MOST, the maximum number of refs of a repository and of repositories; LIST, not empty to list the
// commits and the changes of the workspace itself, too; REST, not empty for what else restores the
// workspace (captureRest); SAME, not empty if the same workspace must be the same commit;
// ARTIFACTS, the globs of ignored files that belong to it, one per line.
//
// The lines, which facts.take parses. The first tree is the workspace itself, with the path "."; any
// other PATH is relative to it, or absolute for what is outside:
//
//	missing TEXT                  something that cannot be kept, for display
//	raw FILTER PATH               a file that is kept as it lies there, since its filter cannot run
//	stays WHY PATH                the objects of the repository at PATH cannot be sent: it is shallow
//	                              or partial, or they are large
//	format FORMAT                 of the objects: sha1 or sha256
//	tree TOP HEAD FILES REF PATH  a work tree. TOP is HEAD, or a commit on top of it with the FILES
//	                              that are uncommitted. HEAD is - before the first commit
//	files TREE                    all files of the workspace, staged or not
//	change MODE BLOB PATH         one of those files; an all-zero mode marks a deleted one
//	ref ID REF PATH               a commit that a ref of the repository at PATH names; stashes, newest first
//	repository PATH               the commits that follow are of this one
//	commit ID TITLE               one that these refs or trees contain
//	rest ID                       a commit with what else restores the workspace
//	failed TEXT                   why git failed; always the last line
//	ready                         the host answers: the commits that it wants, one per line, and
//	                              those that it has, as ^ID; without an answer the script ends
//	pack                          a pack follows, of all objects reachable from what was asked for
const capture = `
set -u
fail() { printf 'failed %s\n' "$*" | tr -d '\r'; exit 0; }
command -v git >/dev/null || fail there is no git in the box
` + gitInBox + captureTree + captureRepository + captureRest + `
root=$(pwd -P)
cd "$root"
exec 3<&0 </dev/null
[ -e .git ] || fail the workspace has no .git any more
t=$(mktemp -d) || fail there is no room in the box
trap 'rm -rf "$t"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$t/objects/info" || fail there is no room in the box
: >"$t/seen"; : >"$t/modules"
export GIT_AUTHOR_NAME=agentbox GIT_AUTHOR_EMAIL=agentbox@localhost GIT_COMMITTER_NAME=agentbox GIT_COMMITTER_EMAIL=agentbox@localhost
format= options=--thin at=.
open "$root/.git" || fail "$why"
for f in "$objects"/pack/*.promisor; do
	[ ! -e "$f" ] || options=--missing=allow-any
done
echo "format $format"
tree || fail "$why"
cp "$t/walk" "$t/found"
[ -z "$REST" ] || rest
[ -z "$BASE" ] || git ls-tree -r "$BASE" 2>/dev/null | sed -n 's/^160000 commit \([0-9a-f]*\).*/^\1/p' >"$t/modules"
{
	sed -n 's/^r\.\/\(.*\/\)\.git$/\1.git/p' "$t/found"
	sed -n 's/^b\.\/\(.*\)\/HEAD$/\1/p' "$t/found" | while IFS= read -r path; do
		[ ! -d "$path/objects" ] || [ ! -d "$path/refs" ] || ! git check-ignore -q "$path" || printf '%s\n' "$path"
	done
	[ ! -d .git/modules ] || find .git/modules -name HEAD -type f | sed 's/\/HEAD$//' | while IFS= read -r path; do
		[ ! -d "$path/objects" ] || [ ! -d "$path/refs" ] || printf '%s\n' "$path"
	done
} >"$t/repositories"
all=$top
repository "^$all"
[ "$(sed -n '$=' "$t/repositories")" -le $MOST ] 2>/dev/null || [ ! -s "$t/repositories" ] || echo "missing all repositories but the first $MOST"
head -n $MOST "$t/repositories" | while IFS= read -r path; do
	nested "$path"
done
echo ready
cat <&3 >"$t/wanted"
[ -s "$t/wanted" ] || exit 0
export GIT_DIR="$root/.git" GIT_WORK_TREE="$root"
sed '/^^/d' "$t/wanted" >"$t/tips"
sed -n 's/^^\(.*\)/\1^{commit}/p' "$t/wanted" | git cat-file --batch-check='^%(objectname)' | sed -n '/^^[0-9a-f]*$/p' >>"$t/tips"
echo pack
git pack-objects --revs --stdout $options --delta-base-offset -q <"$t/tips"
`

// captureTree is the part of capture for one work tree.
//
// It works on a copy of the index, recreates that from HEAD if git cannot read it, and gives the
// copy the index's time: git reads the contents of files that are as young as their index. git add
// adds nothing if a required filter fails, so each filter that does is turned off, and its files are
// added as they are. reveal makes git look at files which it takes for unchanged (git update-index
// --assume-unchanged, --skip-worktree); only absent files with the skip-worktree bit keep it: a
// sparse checkout leaves them out, and they are not deleted.
//
// The commit of a work tree other than the workspace has the date of its parent, so that it is the
// same as long as the files are.
const captureTree = `
lost() { # what is missing in the tree or repository at $at
	[ "$at" = . ] || set -- "in $at: $*"
	printf 'missing %s\n' "$*"
}
linked() { # $dotgit, the .git of the work tree whose git directory is $1
	[ -f "$1/gitdir" ] && IFS= read -r dotgit <"$1/gitdir" || return
	case $dotgit in /*) ;; *) dotgit=$(cd "$1/${dotgit%/.git}" 2>/dev/null && pwd -P)/.git ;; esac
}
walk() { # lists what may be a repository, and large files, with a letter before each name and \001 for its newlines
	find . -path ./.git -prune -o -name .git -prune -exec printf 'r%s\0' {} + -o -name HEAD -type f -exec printf 'b%s\0' {} + -o -type f -size "+${LARGE}k" -exec printf 'l%s\0' {} + 2>/dev/null |
		tr '\0\n' '\n\001' >"$t/walk"
}
reveal() {
	git ls-files -v >"$t/files" && sed -n 's/^[a-zS] //p' "$t/files" >"$t/hidden" || return
	[ -s "$t/hidden" ] || return 0
	git update-index --no-assume-unchanged --stdin <"$t/hidden" && git ls-files --deleted >"$t/deleted" || return
	git update-index --no-skip-worktree --stdin <"$t/hidden" && git ls-files --deleted >"$t/absent" || return
	sort "$t/deleted" "$t/deleted" "$t/absent" | uniq -u | git update-index --skip-worktree --stdin
}
without() { # turns off a filter
	off="$off$1 "
	for key in clean process required; do
		export "GIT_CONFIG_KEY_$settings=filter.$1.$key" "GIT_CONFIG_VALUE_$settings="
		settings=$((settings + 1))
	done
	export GIT_CONFIG_COUNT=$settings
}
add() {
	reveal 2>"$t/why" || return
	off=' ' settings=0
	export GIT_CONFIG_COUNT=0
	while git add -A --ignore-errors --pathspec-from-file="$t/spec" --pathspec-file-nul >/dev/null 2>"$t/lost"; [ $? -gt 1 ]; do
		filter=$(sed -n "s/^fatal: .*: clean filter '\(.*\)' failed$/\1/p" "$t/lost" | head -n 1)
		case $off$filter in
		"$off") lost "$(sed -n 's/^fatal: //p' "$t/lost" | head -n 1)"; break ;;
		*" $filter "*) break ;;
		esac
		without "$filter"
	done
	tree=$(git write-tree 2>"$t/why")
}
again() { # begins with what is committed, for an index that git cannot read
	rm -f "$t/index"
	[ -z "$head" ] || git read-tree "$head" 2>/dev/null || { echo fatal: the commit of HEAD is damaged >"$t/why"; return 1; }
}
tree() { # the work tree of the current directory; $why says why git cannot tell
	why='the commit of HEAD is damaged'
	ref=$(git symbolic-ref -q HEAD) || ref=HEAD
	git rev-parse 'HEAD^{commit}' 'HEAD^{tree}' >"$t/head" 2>/dev/null && { read -r head && read -r began; } <"$t/head" || head= began=
	if [ -z "$head" ]; then
		[ "$ref" != HEAD ] && ! git rev-parse -q --verify "$ref" >/dev/null 2>&1 && [ ! -e "$common/$ref" ] || return
		began=$(git hash-object -t tree /dev/null)
	fi
	walk
	prefix=
	[ "$at" = . ] || prefix=$at/
	export GIT_INDEX_FILE="$t/index"
	printf ':/\0' >"$t/spec"
	sed -n 's/^l/:(top,exclude,literal)/p' "$t/walk" | tr '\n\001' '\0\n' >>"$t/spec"
	for w in "$common"/worktrees/*; do # one that lies in this work tree is not a file of it
		linked "$w" || continue
		case $dotgit in "$PWD"/*/.git) dotgit=${dotgit%/.git}; printf ':(top,exclude,literal)%s\0' "${dotgit#"$PWD"/}" >>"$t/spec" ;; esac
	done
	if rm -f "$t/index"; ! cp -p "$index" "$t/index" 2>/dev/null || ! add; then
		if [ -e "$index" ] && ! { cp -p "$index" "$t/index" && git ls-files --stage; } >/dev/null 2>&1; then
			lost 'what was staged: the index is damaged'
		fi
		again && add || { why=$(head -n 1 "$t/why"); return 1; }
	fi
	sed -n '/^error: .*external filter /d; /^error: .*subprocess /d; /^error: cannot run /d; /does not have a commit checked out/d; s/^error: //p; s/^warning: could not open directory //p' "$t/lost" | head -n 20 | while read -r what; do lost "$what"; done
	sed -n 's/^l\.\///p' "$t/walk" | head -n 20 | while read -r what; do lost "$what is too large"; done
	git diff-tree -r --no-renames "$began" "$tree" | sed 1000000q >"$t/changes"
	[ "$off" = ' ' ] || git diff-tree -r -z --no-renames --name-only "$began" "$tree" | git check-attr -z --stdin filter | tr '\0\n' '\n\001' | sed -n 'N;N;s/^\(.*\)\nfilter\n\(.*\)$/\2 \1/p' |
		while read -r filter path; do
			case $off in *" $filter "*) printf 'raw %s %s\n' "$filter" "$prefix$path" ;; esac
		done
	export GIT_CONFIG_COUNT=0
	changed
}
changed() { # prints the tree, unless it is one of several and has nothing of its own
	top=$head files=$(sed -n '$=' "$t/changes")
	if [ -z "$head" ] && [ "$at" = . ] || [ "$tree" != "$began" ]; then
		top=$(
			[ "$at" = . ] && [ -z "$SAME" ] || date="@$([ -z "$head" ] && echo 0 || git log -1 --format=%ct "$head") +0000"
			[ "$at" = . ] && [ -z "$SAME" ] || export GIT_AUTHOR_DATE="$date" GIT_COMMITTER_DATE="$date"
			git commit-tree ${head:+-p "$head"} -m "Uncommitted work of $ID" "$tree" 2>"$t/why"
		) || { why=$(head -n 1 "$t/why"); return 1; }
	fi
	[ "$at" = . ] || [ "$top" != "$head" ] || return 0
	[ "$at" != . ] || printf 'files %s\n' "$tree"
	printf 'tree %s %s %s %s %s\n' "$top" "${head:--}" "${files:-0}" "$ref" "$at"
	[ "$at" = . ] && [ -z "$LIST" ] || sed -n '1,200000 s/^:[0-9]* \([0-9]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z]*	/change \1 \2 /p' "$t/changes"
}
`

// captureRepository is the part of capture for one repository. Commits that other machines have are
// nobody's loss: those that a remote with an address elsewhere has, and those of submodules that the
// box began with.
const captureRepository = `
open() { # finds the repository of the .git or bare repository $1, and adds its objects to those that git sees
	unset GIT_OBJECT_DIRECTORY GIT_INDEX_FILE
	export GIT_DIR="$1" GIT_WORK_TREE="$PWD"
	git rev-parse --path-format=absolute --git-dir --git-common-dir --git-path objects --git-path index --show-object-format >"$t/paths" 2>"$t/why" || { why=$(head -n 1 "$t/why"); return 1; }
	{ IFS= read -r gitdir && IFS= read -r common && IFS= read -r objects && IFS= read -r index && read -r form; } <"$t/paths"
	[ "${format:=$form}" = "$form" ] || { why="its objects have another format"; return 1; }
	printf '%s\n' "$objects" >>"$t/objects/info/alternates"
	export GIT_OBJECT_DIRECTORY="$t/objects"
}
new() { # whether $1 has not been seen
	while IFS= read -r known; do
		[ "$known" != "$1" ] || return
	done <"$t/seen"
	printf '%s\n' "$1" >>"$t/seen"
}
place() { # $at for the directory $1
	at=$1
	case $1 in "$root"/*) at=${1#"$root"/} ;; esac
}
repository() { # the linked work trees and the commits of the repository that was opened, but those of the arguments
	home=$at main=$common from=$head
	new "$gitdir"
	for w in "$common"/worktrees/*; do
		linked "$w" && [ -e "$dotgit" ] && new "$w" && cd "${dotgit%/.git}" 2>/dev/null || continue
		place "$PWD"
		open "$dotgit" && tree || lost "this work tree cannot be read: $why"
	done
	cd "$root"
	at=$home
	export GIT_DIR="$main" GIT_WORK_TREE="$root"
	commits "$@"
}
commits() {
	printf '%s\n' "$@" | sed '/^$/d' | cat - "$t/modules" >"$t/known"
	set --
	[ "$at" = . ] || for remote in $(git config --get-regexp '^remote\..*\.url$' | sed -n '/\.url file:/d; s/^remote\.\([^*?[ ]*\)\.url [^/]*:.*/\1/p'); do
		set -- "$@" "--remotes=$remote"
	done
	named >"$t/named"
	for w in "$main" "$main"/worktrees/*; do adrift "$w"; done >"$t/adrift"
	sort -u "$t/named" "$t/adrift" >"$t/ids"
	git cat-file --batch-check='%(objectname) %(objecttype) %(rest)' <"$t/named" | sed -n 's/^\([0-9a-f]*\) missing$/\1/p' | sort -u | head -n 20 | while read -r id; do lost "the commit $id of a branch, which is damaged"; done
	git cat-file --batch-check='%(objectname) %(objecttype) %(rest)' <"$t/ids" | sed -n 's/^\([0-9a-f]*\) commit .*/\1/p' >"$t/tips"
	: >"$t/own"
	[ ! -s "$t/tips" ] || cat "$t/tips" "$t/known" | git rev-list --ignore-missing --stdin --not "$@" 2>"$t/why" >"$t/own" || { lost "its commits: $(head -n 1 "$t/why")"; cp "$t/tips" "$t/own"; }
	[ -z "$LIST" ] || titles "$@"
	[ -s "$t/own" ] || return
	{ sed 's/$/ !/' "$t/own"; cat "$t/ids"; } | sort | sed -n '/ !$/{h;d;}; G; s/^\([0-9a-f]*\) \(.*\)\n\1 !$/\1 \2/p' >"$t/refs"
	[ "$(sed -n '$=' "$t/refs")" -le $MOST ] || lost "all branches and stashes but the first $MOST"
	# Stashes are a stack, which the order of its names would lose.
	if [ -f "$(git rev-parse --git-common-dir)/logs/refs/stash" ]; then
		{ sed '/ refs\/stash$/d' "$t/refs"; grep ' refs/stash$' "$t/named" | grep -Fxf "$t/refs"; } >"$t/stacked"
		mv "$t/stacked" "$t/refs"
	fi
	head -n $MOST "$t/refs" | while read -r id ref; do printf 'ref %s %s %s\n' "$id" "$ref" "$at"; done
}
titles() { # the newest commits, and all that something names
	[ "$at" != . ] || { [ -z "$from" ] || echo "$from"; [ -z "$BASE" ] || echo "^$BASE"; } >"$t/known"
	cat "$t/tips" "$t/known" >"$t/ends"
	printf 'repository %s\n' "$at"
	git log --format='commit %H %s' --max-count=$NEWEST --ignore-missing --stdin --not "$@" <"$t/ends" 2>/dev/null | cut -b 1-1000
	[ ! -s "$t/own" ] || git log --format='commit %H %s' --no-walk --ignore-missing --stdin <"$t/tips" 2>/dev/null | cut -b 1-1000
}
nested() { # the repository $1 in the workspace: a .git, or a bare one
	cd "$root"
	case $1 in *.git) [ -e "$1/HEAD" ] || [ -f "$1" ] || return ;; esac
	place "$root/${1%/.git}"
	case $1 in .git/*) ;; *) cd "${1%/.git}" 2>/dev/null ;; esac
	head=
	if ! open "$root/$1"; then
		cd "$root"
		# If git takes it for no repository, its files are among those of the workspace.
		[ "$(GIT_DIR="$root/.git" GIT_OBJECT_DIRECTORY="$t/objects" git cat-file -t "$all:$at" 2>/dev/null)" = tree ] || lost "this repository cannot be read: $why"
		return
	fi
	new "$gitdir" || return
	why=
	[ ! -e "$common/shallow" ] || why=shallow
	for f in "$objects"/pack/*.promisor; do
		[ ! -e "$f" ] || why=partial
	done
	[ -n "$why" ] || [ "$(du -sk "$objects" | sed 's/[^0-9].*//')" -le $LARGE ] || why=large
	[ -z "$why" ] || printf 'stays %s %s\n' "$why" "$at"
	case $1 in */.git) tree || lost "its files cannot be read: $why" ;; esac
	new "$common/" && repository
}
`

// captureRest is the part of capture for what restores a workspace exactly and is in no commit of it:
// a commit without a parent, with files that parseRest reads:
//
//	staged     how the index differs from HEAD, as git diff-index --raw -z prints it
//	unmerged   its conflicts, as git ls-files -u -z does
//	flags      git ls-files -v -z, of what git is told not to look at, "I PATH" of what is to be added
//	           (git add --intent-to-add), and "A PATH" of what a sparse checkout leaves out
//	modes      "MODE ./PATH" and a zero byte for files with other permissions than 644 and 755
//	times      git ls-files --debug -z of the files that differ from HEAD, of which only mtime
//	refs       "ID REF" of each branch and tag, of the stash, and of a bisect
//	tags       what git cat-file --batch says of annotated tags, which commits do not lead to
//	before     what was checked out before, which is in a reflog only
//	objects/   what is staged
//	ignored/   the ignored files that ARTIFACTS names
//	state/     the files of an interrupted merge, rebase, cherry-pick, revert or bisect
//
// It has no date of its own, so the same workspace is the same commit.
const captureRest = `
rest() {
	r=$t/rest
	mkdir "$r" && cp -p "$index" "$r/index" 2>/dev/null || return 0
	export GIT_INDEX_FILE="$r/index" GIT_LITERAL_PATHSPECS=1
	git diff-index --cached --raw -z --no-renames --no-abbrev "$began" >"$r/staged" 2>/dev/null
	git ls-files -u -z >"$r/unmerged"
	sparse=false # in a sparse checkout, a file that is there is not skipped, whatever the index says
	[ ! -f "$gitdir/info/sparse-checkout" ] || sparse=$(command git -c 'safe.directory=*' config --type=bool core.sparseCheckout) || sparse=false
	git -c core.sparseCheckout="$sparse" ls-files -v -z | tr '\0\n' '\n\001' | sed -n '/^[a-zS] /p' >"$r/told"
	if [ -s "$r/staged" ]; then
		git diff-index --cached --ita-invisible-in-index --raw -z --no-renames --no-abbrev "$began" >"$r/staged" 2>/dev/null
		git diff-files --ita-invisible-in-index --diff-filter=A --name-only -z | tr '\0\n' '\n\001' | sed 's/^/I /' >>"$r/told"
	fi
	[ ! -s "$r/told" ] || GIT_INDEX_FILE=$t/index git ls-files -v -z | tr '\0\n' '\n\001' | sed -n 's/^S /A /p' >>"$r/told"
	tr '\n\001' '\0\n' <"$r/told" >"$r/flags"
	set --
	for mode in 400 440 444 500 550 555 600 640 660 664 666 700 740 744 750 754 770 775 777 711; do
		set -- "$@" -o -perm "$mode" -exec printf "$mode %s\\0" {} +
	done
	find . -path ./.git -prune -o -type f ! -perm 644 ! -perm 755 \( -perm 000 "$@" \) >"$r/found" 2>/dev/null
	sort -z "$r/found" >"$r/modes" 2>/dev/null || cp "$r/found" "$r/modes"
	GIT_INDEX_FILE="$t/index"
	sep=$(printf '\001')
	when() { # without what differs between two lives of a box: inodes, and when they changed
		xargs -0 git -c 'safe.directory=*' -c core.fsmonitor=false ls-files --debug -z -- | tr '\0\n' '\n\001' |
			sed "s/^  ctime: [0-9:]*$sep\(  mtime: [0-9:]*$sep\)  dev: [^$sep]*$sep  uid: [^$sep]*$sep  size: [^$sep]*$sep/\1/" | tr '\n\001' '\0\n' >>"$r/times"
	}
	: >"$r/times"
	git diff-tree -r -z --no-renames --name-only --diff-filter=d "$began" "$tree" >"$r/changed"
	tr '\0' '\n' <"$r/staged" | sed '/^:/d' | tr '\n' '\0' >>"$r/changed"
	[ ! -s "$r/changed" ] || when <"$r/changed"
	none=$(git hash-object -t tree /dev/null) ignored= state=
	unset GIT_LITERAL_PATHSPECS
	if [ -n "$ARTIFACTS" ]; then
		# With the index, which has the rules that a sparse checkout leaves out: all of it, so no common
		# prefix.
		printf '%s\n' "$ARTIFACTS" .git/none | sed 's/^/:(glob)/' | tr '\n' '\0' | xargs -0 git -c 'safe.directory=*' ls-files -o -i --exclude-standard -z -- >"$r/names"
		export GIT_INDEX_FILE="$r/ignored" GIT_LITERAL_PATHSPECS=1
		if [ -s "$r/names" ]; then
			git add -f --ignore-errors --pathspec-from-file="$r/names" --pathspec-file-nul >/dev/null 2>&1
			ignored=$(git write-tree) && when <"$r/names"
		fi
		unset GIT_LITERAL_PATHSPECS
	fi
	git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags refs/stash refs/bisect >"$r/refs"
	git for-each-ref --format='%(objecttype) %(objectname)' refs/tags | sed -n 's/^tag //p' | sort -u | git cat-file --batch >"$r/tags"
	sed -n 's/.*	checkout: moving from \([^ ]*\) to .*/\1/p' "$gitdir/logs/HEAD" 2>/dev/null | tail -n 1 >"$r/before"
	GIT_INDEX_FILE=$r/state
	(
		cd "$gitdir" 2>/dev/null && for f in MERGE_HEAD MERGE_MSG MERGE_MODE MERGE_AUTOSTASH SQUASH_MSG CHERRY_PICK_HEAD REVERT_HEAD REBASE_HEAD BISECT_* rebase-merge rebase-apply sequencer; do
			[ ! -e "$f" ] || find "$f" -type f -size -2048k -print
		done
	) >"$r/files"
	if [ -s "$r/files" ]; then
		sed "s|^|$gitdir/|" "$r/files" | git hash-object -w --no-filters --stdin-paths >"$r/ids"
		paste "$r/ids" "$r/files" | sed 's/^/100644 /' | git update-index --add --index-info && state=$(git write-tree)
	fi
	[ -s "$r/staged" ] || [ -s "$r/unmerged" ] || [ -s "$r/flags" ] || [ -s "$r/modes" ] || [ -s "$r/times" ] || [ -s "$r/refs" ] || [ -n "$ignored$state" ] || return 0
	tr '\0' '\n' <"$r/staged" | sed -n 's/^:[0-7]* 1[02][0-7]* [0-9a-f]* \([0-9a-f]*\) .*/\1/p' >"$r/blobs"
	tr '\0' '\n' <"$r/unmerged" | sed -n 's/^1[02][0-7]* \([0-9a-f]*\) [1-3]	.*/\1/p' >>"$r/blobs"
	objects=$(git cat-file --batch-check='%(objectname) %(objecttype)' <"$r/blobs" | sed -n 's/^\([0-9a-f]*\) blob$/100644 blob \1	\1/p' | sort -u | git mktree)
	(cd "$r" && git hash-object -w --no-filters staged unmerged flags modes times refs tags before) >"$r/ids" || return 0
	made=$({
		for name in staged unmerged flags modes times refs tags before; do
			read -r id && printf '100644 blob %s\t%s\n' "$id" "$name"
		done <"$r/ids"
		printf '040000 tree %s\t%s\n' "$objects" objects "${ignored:-$none}" ignored "${state:-$none}" state
	} | git mktree --missing) || return 0
	made=$(GIT_AUTHOR_DATE='@0 +0000' GIT_COMMITTER_DATE='@0 +0000' git commit-tree -m rest "$made") && printf 'rest %s\n' "$made"
}
`
