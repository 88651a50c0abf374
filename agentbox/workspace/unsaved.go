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

// MaxCommits bounds how many commits of a workspace are looked at for ones that are nowhere else:
// the newest. Those before them are taken as known.
const MaxCommits = 1000

// filesTree makes, in a shell, $files the tree that the files of the checkout would be committed
// as. It changes nothing there: new objects go into a directory of their own. It is run in the box
// by its git, so what it prints is the box's word.
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

// printFiles prints $files, a line "MODE BLOB PATH" for each.
const printFiles = `git ls-tree -r "$files" | sed "s/^\([0-9]*\) [a-z]* \([0-9a-f]*\)$tab/\1 \2 /"` + "\n"

// StateScript prints the State of the checkout it runs in, for ReadState. Each line begins with
// what it is; "end" is the last, without which the answer was cut short. Names are quoted as git
// quotes them, so a line is one file. It needs sh, sed, mktemp and git in the box.
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

// State is what a checkout holds: its commits, newest first, and the files that are not as in the
// commit that is checked out. All of it is the box's word: ids need not be hex, and paths can be
// anything.
type State struct {
	Commits []Commit
	Changed []string // "MODE BLOB PATH"; a mode of zeros stands for a file that was deleted
}

// Paths are the names of the changed files.
func (s State) Paths() []string {
	var paths []string
	for _, line := range s.Changed {
		paths = append(paths, parseChange(line).path)
	}
	return paths
}

// Commit is one commit of a box, as the box calls it. Title is the first line of its message and
// may hold anything but a newline.
type Commit struct{ ID, Title string }

// ReadState reads what StateScript printed. Unknown lines are passed over. What out may hold is
// bounded by its reader.
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

// Work is what a box has and the checkout that it came from has not.
type Work struct {
	Commits []Commit
	Files   []string // that are neither committed nor the same in the checkout
}

// Unsaved tells what a workspace in the given state holds that the checkout it came from does not.
// A commit counts as saved if the checkout's repository has it, on whatever branch. Files are
// compared with the checkout as it is now. An id that is no object name is an error of code
// Invalid: it would become an argument of git.
func Unsaved(ctx context.Context, repo Repo, in State) (Work, error) {
	// Before git sees any of them.
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
	work.Files, err = differing(ctx, v, repo, in.Changed)
	return work, err
}

// unknownCommits are those that a repository has not.
func unknownCommits(ctx context.Context, v *git.View, commits []Commit) ([]Commit, error) {
	var ids []string
	for _, c := range commits {
		ids = append(ids, c.ID)
	}
	have, err := git.Commits(ctx, v, ids...)
	return slices.DeleteFunc(slices.Clone(commits), func(c Commit) bool { return have[c.ID] }), err
}
