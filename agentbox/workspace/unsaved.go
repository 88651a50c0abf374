package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/agentbox/git"
)

// MaxCommits is how many commits of a workspace, newest first, are checked for being nowhere
// else. Older ones are assumed to be known.
const MaxCommits = 1000

// filesTree is shell code that sets $files to the tree which committing all files of the
// checkout would produce. It changes nothing there: new objects go into a temporary directory.
// The box's git runs it, so its output is untrusted.
const filesTree = `
set -e
cd "$(git rev-parse --show-toplevel)"
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
objects=$(git rev-parse --path-format=absolute --git-path objects)
cp "$(git rev-parse --git-path index)" "$t/index" 2>/dev/null || true
mkdir "$t/objects"
export GIT_INDEX_FILE="$t/index" GIT_OBJECT_DIRECTORY="$t/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
git add -A 2>/dev/null
files=$(git write-tree)
tab=$(printf '\t')
`

// printFiles prints $files, one line "MODE BLOB PATH" per file.
const printFiles = `git ls-tree -r "$files" | sed "s/^\([0-9]*\) [a-z]* \([0-9a-f]*\)$tab/\1 \2 /"` + "\n"

// StateScript prints the State of the checkout it runs in, for ReadState. Each line begins with
// its kind. The last is "end"; without it the output was cut short. Names are quoted as git
// quotes them, so each file takes one line. The box needs sh, sed, mktemp and git.
var StateScript = filesTree + fmt.Sprintf(`
refs="--branches $(git rev-parse -q --verify refs/stash || true) $(git rev-parse -q --verify HEAD || true)"
git log --no-show-signature --max-count=%d --format='commit %%H %%s' $refs
if git rev-parse -q --verify HEAD >/dev/null; then
	git diff-tree -r --no-renames 'HEAD^{tree}' "$files" | sed "s/^:[0-9]* \([0-9]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z]*$tab/change \1 \2 /"
else
	%s
fi
echo end
`, MaxCommits, strings.TrimSpace(printFiles)+" | sed 's/^/change /'")

// State is what a checkout in a box holds: its commits, newest first, and the files that differ
// from the commit checked out there. All of it is untrusted: ids need not be hex, and paths can
// be anything.
type State struct {
	Commits []Commit
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
	for line := range strings.Lines(string(out)) {
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
// counts as saved if the checkout's repository has it, on any branch. Files are compared with
// the checkout as it is now, and with the last pull from the box, which the ref memory records
// (MoveBranch), as long as a branch has it. An id that is not an object name fails with code
// Invalid, because it would become an argument of git.
func Unsaved(ctx context.Context, repo Repo, in State, memory string) (Work, error) {
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
	if work.Commits, err = unknownCommits(ctx, v, in.Commits); err != nil || len(in.Changed) == 0 {
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

// unknownCommits returns the commits that the repository lacks.
func unknownCommits(ctx context.Context, v *git.View, commits []Commit) ([]Commit, error) {
	var ids []string
	for _, c := range commits {
		ids = append(ids, c.ID)
	}
	have, err := git.Commits(ctx, v, ids...)
	return slices.DeleteFunc(slices.Clone(commits), func(c Commit) bool { return have[c.ID] }), err
}
