package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"agentbox/agentbox"
)

// MaxCommits bounds how many commits of a workspace are looked at for ones that are nowhere else.
const MaxCommits = 1000

// filesTree makes, in a shell, $files the tree that the files of the checkout would be committed as. It changes nothing
// there: new objects go into a directory of their own.
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

// listFiles prints $files, a line "MODE BLOB PATH" for each.
const listFiles = `git ls-tree -r "$files" | sed "s/^\([0-9]*\) [a-z]* \([0-9a-f]*\)$tab/\1 \2 /"` + "\n"

// StateScript prints the State of the checkout it runs in, for ReadState.
var StateScript = filesTree + fmt.Sprintf(`
refs="--branches $(git rev-parse -q --verify refs/stash || true) $(git rev-parse -q --verify HEAD || true)"
git rev-list --max-count=%d $refs | sed 's/^/commit /'
if git rev-parse -q --verify HEAD >/dev/null; then
	git diff-tree -r --no-renames 'HEAD^{tree}' "$files" | sed "s/^:[0-9]* \([0-9]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z]*$tab/change \1 \2 /"
else
	%s
fi
echo end
`, MaxCommits, strings.TrimSpace(listFiles)+" | sed 's/^/change /'")

// State is what a checkout holds: its commits, newest first, and the files that are not as in the commit that is checked out.
type State struct {
	Commits []string
	Changed []string // "MODE BLOB PATH"; a mode of zeros stands for a file that was deleted
}

// ReadState reads what StateScript printed.
func ReadState(out []byte) (State, error) {
	var s State
	for line := range strings.Lines(string(out)) {
		what, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch what {
		case "commit":
			s.Commits = append(s.Commits, value)
		case "change":
			s.Changed = append(s.Changed, value)
		case "end":
			return s, nil
		}
	}
	return s, errors.New("git did not say all")
}

// Unsaved counts what a workspace in the given state holds that the checkout it came from does not: commits, and files that
// are neither committed nor the same in the checkout.
func Unsaved(ctx context.Context, repo Repo, in State) (commits, files int, err error) {
	for _, c := range in.Commits {
		if !isHex(c) {
			return 0, 0, agentbox.Errorf(agentbox.Invalid, "%q is not a commit", c)
		}
	}
	known, err := knownCommits(ctx, repo, in.Commits)
	if err != nil || len(in.Changed) == 0 {
		return len(in.Commits) - known, 0, err
	}
	out, err := script(ctx, repo.Root, filesTree+listFiles)
	if err != nil {
		return 0, 0, err
	}
	same, there := map[string]bool{}, map[string]bool{} // files, and paths, of the checkout
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		same[line], there[pathOf(line)] = true, true
	}
	for _, change := range in.Changed {
		deleted := strings.HasPrefix(change, "000000 ")
		if !same[change] && !(deleted && !there[pathOf(change)]) {
			files++
		}
	}
	return len(in.Commits) - known, files, nil
}

// pathOf is the path in a line "MODE BLOB PATH".
func pathOf(line string) string {
	f := strings.SplitN(line, " ", 3)
	return f[len(f)-1]
}

// knownCommits counts the commits that a repository has.
func knownCommits(ctx context.Context, repo Repo, commits []string) (int, error) {
	out, err := script(ctx, repo.Root, "git cat-file --batch-check <<'END'\n"+strings.Join(commits, "\n")+"\nEND\n")
	return bytes.Count(out, []byte(" commit ")), err
}
