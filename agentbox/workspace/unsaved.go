package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// MaxCommits is how many commits of a workspace are counted and named, newest first, besides those
// that its refs point to.
const MaxCommits = 1000

// filesTree is shell code that sets $files to the tree which committing all files of the
// checkout would produce. It changes nothing there: new objects go into a temporary directory.
// The box's git runs it, so its output is untrusted.
//
// Git must see each file, see Reveal. The copy of the index keeps its time, which tells git whose
// contents to compare. No checkout is sparse, because git would then not add files outside of its
// patterns.
const filesTree = `
cd "$(git rev-parse --show-toplevel)"
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
objects=$(git rev-parse --path-format=absolute --git-path objects)
cp -p "$(git rev-parse --git-path index)" "$t/index" 2>/dev/null || true
mkdir "$t/objects"
export GIT_INDEX_FILE="$t/index" GIT_OBJECT_DIRECTORY="$t/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
reveal
git add -A 2>/dev/null
files=$(git write-tree)
tab=$(printf '\t')
`

// Reveal is shell code for the function reveal. In the index that git uses at that moment, it makes
// git look at files which it takes for unchanged (git update-index --assume-unchanged,
// --skip-worktree). Only absent files with the skip-worktree bit keep it: a sparse checkout leaves
// them out, and they are not deleted. $t is a directory for its files.
const Reveal = `
reveal() {
	git ls-files -v >"$t/files" && sed -n 's/^[a-zS] //p' "$t/files" >"$t/hidden" || return
	[ -s "$t/hidden" ] || return 0
	git update-index --no-assume-unchanged --stdin <"$t/hidden" && git ls-files --deleted >"$t/deleted" || return
	git update-index --no-skip-worktree --stdin <"$t/hidden" && git ls-files --deleted >"$t/absent" || return
	sort "$t/deleted" "$t/deleted" "$t/absent" | uniq -u | git update-index --skip-worktree --stdin
}
`

// printFiles prints $files, one line "MODE BLOB PATH" per file.
const printFiles = `git ls-tree -r "$files" | sed "s/^\([0-9]*\) [a-z]* \([0-9a-f]*\)$tab/\1 \2 /"` + "\n"

// printNested prints the changes in the repositories that are checked out below the present one,
// such as submodules, and which commit is checked out in each: only the repository there has it. If
// one of them cannot tell, it counts as changed. A quoted name is one that printf understands.
const printNested = `
git ls-tree -r "$files" | sed -n "s/^160000 commit \([0-9a-f]*\)$tab/\1 /p" >"$t/repositories"
while read -r id name; do
	inner=${name#'"'}; inner=${inner%'"'}
	dir=$(printf "$(printf %s "$inner" | sed 's/%/%%/g')")
	[ -e "$dir/.git" ] || continue
	prefix=$(printf %s "$inner" | sed 's/[\/&]/\\&/g')
	(unset GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES; cd "./$dir"; state) |
		sed -n 's/^\(change [0-9]* [0-9a-f]*\) "\(.*\)"$/\1 "'"$prefix"'\/\2"/p; t
			s/^\(change [0-9]* [0-9a-f]*\) \(.*\)$/\1 "'"$prefix"'\/\2"/p; /^end$/p' >"$t/nested"
	sed '/^end$/d' "$t/nested"
	[ "$(tail -n 1 "$t/nested")" = end ] || id=0
	printf 'change 160000 %s %s\n' "$id" "$name"
done <"$t/repositories"
`

// StateScript prints the State of the checkout it runs in, for ReadState. Each line begins with
// its kind. The last is "end"; without it the output was cut short. Names are quoted as git
// quotes them, so each file takes one line. The box needs git, sh and mktemp, sed, sort,
// tail and uniq.
//
// It prints the newest commits and every commit that a ref, a HEAD or an entry of the stash points
// to: if all of the latter are saved, so is everything that they contain, whatever its date. Refs
// that only follow another repository are left out, since their commits come from there.
var StateScript = fmt.Sprintf(`
set -e
git() { command git -c core.sparseCheckout=false "$@"; }
%s
commits() { git log --no-show-signature --format='commit %%H %%s' "$@" --exclude='refs/remotes/*' --exclude='refs/agentbox/*' --all $stashes --; }
state() {
	%s
	stashes=$(git log -g --no-show-signature --format=%%H refs/stash -- 2>/dev/null || true)
	commits --max-count=%d
	commits --no-walk
	if git rev-parse -q --verify HEAD >/dev/null; then
		git diff-tree -r --no-renames 'HEAD^{tree}' "$files" | sed "s/^:[0-9]* \([0-9]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z]*$tab/change \1 \2 /"
	else
		%s
	fi
	%s
	echo end
}
state
`, Reveal, filesTree, MaxCommits, strings.TrimSpace(printFiles)+" | sed 's/^/change /'", printNested)

// State is what a checkout in a box holds: its commits, and the files that differ from the commit
// checked out there. All of it is untrusted: ids need not be hex, and paths can be anything.
type State struct {
	Commits []Commit // each once; the newest first, then those that refs point to
	Changed []string // "MODE BLOB PATH"; an all-zero mode marks a deleted file
}

// Paths returns the names of the changed files, quoted as the box's git printed them.
func (s State) Paths() []string {
	var paths []string
	for _, line := range s.Changed {
		paths = append(paths, parseChange(line).path)
	}
	return paths
}

// Commit is one commit of a box, as the box reports it. Title is the first line of its message
// and may hold anything except a newline.
type Commit struct{ ID, Title string }

// ReadState parses the output of StateScript and ignores unknown lines. It fails if the final
// "end" is missing. The caller bounds the size of out.
func ReadState(out []byte) (State, error) {
	var s State
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if seen[line] {
			continue
		}
		seen[line] = true
		what, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch what {
		case "commit":
			id, title, _ := strings.Cut(value, " ")
			s.Commits = append(s.Commits, Commit{id, title})
		case "change":
			s.Changed = append(s.Changed, value)
		case "end":
			return s, nil
		}
	}
	return s, errors.New("git did not say all")
}

// Work is what a box has and its checkout lacks.
type Work struct {
	Commits []Commit
	Files   []string // neither committed, nor pulled, nor the same in the checkout
}

// Unsaved returns what a workspace in the given state holds that its checkout does not. A commit
// counts as saved if its checkout keeps it (lost), or if the box began with it: base, full hex or
// "", is the commit that was checked out then. Files are compared with the checkout as it is now,
// and with the last pull from the box, which the ref memory records (MoveBranch), as long as a
// branch has it. An id that is not an object name fails with code Invalid, because it would become
// an argument of git.
func Unsaved(ctx context.Context, repo Repo, in State, base, memory string) (Work, error) {
	// Validate the ids before git sees any of them.
	for _, c := range in.Commits {
		if !isHex(c.ID) {
			return Work{}, agentbox.Errorf(agentbox.Invalid, "%q is not a commit", c.ID)
		}
	}
	v, done, err := Objects(ctx, repo)
	if err != nil {
		return Work{}, err
	}
	defer done()
	var work Work
	if work.Commits, err = lost(ctx, v, repo, in.Commits, base); err != nil || len(in.Changed) == 0 {
		return work, err
	}
	pulled, err := pulledFiles(ctx, v, repo, memory)
	if err != nil {
		return work, err
	}
	changed := in.Changed
	if pulled != nil {
		changed = slices.DeleteFunc(slices.Clone(changed), func(line string) bool { return parseChange(line).isIn(pulled) })
	}
	work.Files, err = differing(ctx, v, repo, changed)
	return work, err
}

// pulledFiles returns the modes and blobs ("MODE BLOB") of the files of the commit that the ref
// memory names, by path, or nil if there is no such ref or no branch contains the commit: one that
// the user has deleted no longer keeps the work.
func pulledFiles(ctx context.Context, v *git.View, repo Repo, memory string) (map[string]string, error) {
	commit, err := resolve(ctx, repo, memory)
	if err != nil || commit == "" {
		return nil, err
	}
	branches, err := ask(ctx, repo.Root, "for-each-ref", "--count=1", "--contains="+commit, "refs/heads")
	if err != nil || len(branches) == 0 {
		return nil, explain(err, repo.Root)
	}
	out, _, err := v.Run(ctx, git.Call{Dir: repo.Root, Args: []string{"ls-tree", "-r", "-z", "--full-tree", commit}})
	if err != nil {
		return nil, explain(err, repo.Root)
	}
	files := map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		fields, path, ok := strings.Cut(entry, "\t") // MODE TYPE BLOB
		if f := strings.Fields(fields); ok && len(f) == 3 {
			files[path] = f[0] + " " + f[2]
		}
	}
	return files, nil
}

// lost returns the commits that the checkout does not keep.
func lost(ctx context.Context, v *git.View, repo Repo, commits []Commit, base string) ([]Commit, error) {
	var ids []string
	for _, c := range commits {
		ids = append(ids, c.ID)
	}
	ids, err := Unkept(ctx, v, repo, ids, base)
	unkept := make(map[string]bool, len(ids))
	for _, id := range ids {
		unkept[id] = true
	}
	return slices.DeleteFunc(slices.Clone(commits), func(c Commit) bool { return !unkept[c.ID] }), err
}

// Unkept returns the commits that the checkout does not keep: those that no ref and no HEAD of its
// work trees contains, nor an entry of its stash, nor base, which may be "". An object that merely
// lies there, for example after a pull that could not make its branch, is lost with the next git
// gc. The record of the last pull keeps nothing either, since a user who deletes the branch does
// not see that ref. v shows the checkout's objects. On an error all commits are returned with it.
func Unkept(ctx context.Context, v *git.View, repo Repo, ids []string, base string) ([]string, error) {
	have, err := git.Commits(ctx, v, ids...)
	if err != nil || len(have) == 0 {
		return ids, explain(err, repo.Root)
	}
	keeping, err := tips(ctx, repo)
	if err != nil {
		return ids, err
	}
	list := slices.Collect(maps.Keys(have))
	for _, id := range append(keeping, base) {
		if isHex(id) {
			list = append(list, "^"+id)
		}
	}
	// A ref may name a missing object, and base may be missing.
	out, _, err := v.Run(ctx, git.Call{Args: []string{"rev-list", "--ignore-missing", "--stdin"}, Stdin: strings.NewReader(strings.Join(list, "\n") + "\n")})
	if err != nil {
		return ids, explain(err, repo.Root)
	}
	for id := range strings.FieldsSeq(string(out)) {
		delete(have, id)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return have[id] }), nil
}

// pulledRefs are the refs that record the last pull from each box.
const pulledRefs = "refs/agentbox/pulled/"

// tips returns the objects that git keeps for the user of a checkout, with all that they contain:
// those of refs, of the HEADs of work trees, and of the stash. Some may be no object names.
func tips(ctx context.Context, repo Repo) (ids []string, err error) {
	refs, err := ask(ctx, repo.Root, "for-each-ref", "--format=%(objectname) %(refname)")
	if err != nil {
		return nil, explain(err, repo.Root)
	}
	for line := range strings.Lines(string(refs)) {
		if id, name, _ := strings.Cut(line, " "); !strings.HasPrefix(name, pulledRefs) {
			ids = append(ids, id)
		}
	}
	// A HEAD on a branch is no name, and its branch is among the refs.
	dirs := []string{repo.CommonDir}
	trees, _ := git.ReadDir(filepath.Join(repo.CommonDir, "worktrees")) // usually there is none
	for _, tree := range trees {
		dirs = append(dirs, filepath.Join(repo.CommonDir, "worktrees", tree.Name()))
	}
	for _, dir := range dirs {
		if head, err := git.ReadPlain(filepath.Join(dir, "HEAD"), maxPointer); err == nil {
			ids = append(ids, strings.TrimSpace(string(head)))
		}
	}
	return append(append(ids, repo.Commit), stashes(repo)...), nil
}

// maxStashes bounds the size of the log of the stash that is read, in bytes.
const maxStashes = 16 << 20

// stashes returns the commits of a checkout's stash. Git keeps all but the latest only in the log
// of the ref. If that cannot be read there are none, and rm asks although nothing would be lost.
func stashes(repo Repo) (ids []string) {
	log, err := git.ReadPlain(filepath.Join(repo.CommonDir, "logs/refs/stash"), maxStashes)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(log)) {
		if f := strings.Fields(line); len(f) > 1 { // OLD NEW ...
			ids = append(ids, f[1])
		}
	}
	return ids
}
