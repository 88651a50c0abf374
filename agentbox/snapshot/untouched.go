package snapshot

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
)

// quickStatus prints git's view of a box's workspace with as few processes as possible: the
// commit checked out, one line per change, and the branches and stashes. Anything a box does to
// a repository changes some of it. A full look takes seven times as long.
//
// A box that began with FILES uncommitted files always has changes. Instead of them the script
// prints the tree of all files, made as in capture. If the number of such files differs, something
// has changed and the script fails. It also fails if git takes files for unchanged without a look
// (git update-index --assume-unchanged, --skip-worktree).
const quickStatus = gitInBox + `
[ -z "$(git ls-files -v | sed -n '/^[a-zS] /{p;q;}')" ] || exit 1
if [ -z "$FILES" ]; then
	git status --porcelain=v2 --branch --untracked-files=all --ignore-submodules=none || exit 1
else
	[ $(git ls-files -z --modified --others --exclude-standard | tr -cd '\0' | wc -c) -eq "$FILES" ] || exit 1
	t=$(mktemp -d) || exit 1
	trap 'rm -rf "$t"' EXIT
	mkdir "$t/objects" && cp -p .git/index "$t/index" || exit 1
	export GIT_OBJECT_DIRECTORY="$t/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$PWD/.git/objects" GIT_INDEX_FILE="$t/index"
	git add -A || exit 1
	head=$(git rev-parse HEAD) && tree=$(git write-tree) || exit 1
	printf '# branch.oid %s\ntree %s\n' "$head" "$tree"
fi
echo refs
git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/stash || exit 1
echo end
`

// maxQuickStatus bounds the script's output, in bytes. A longer output means that something
// changed.
const maxQuickStatus = 256 << 10

// untouched reports whether the box still has exactly what it began with, by this check alone.
// It returns false when in doubt, which leads to a full look. A box that lies loses only its own
// work.
func (k *keepRun) untouched(ctx context.Context) bool {
	began, err := readBegin(k.req.Baseline)
	if err != nil || k.req.Base == "" || k.req.Checkout == "" {
		return false
	}
	tree, files := "", ""
	// The box must then have the tree of the beginning, file by file.
	if began != "" {
		var n int
		if tree, n, err = readTree(k.req.Baseline); err != nil {
			return false
		}
		files = strconv.Itoa(n)
	}
	var out bytes.Buffer
	status, err := k.guest.Exec(ctx, environment.Command{
		Argv: []string{"sh", "-c", quickStatus}, Dir: k.req.Dir, Env: map[string]string{"FILES": files}, Stdout: &bounded.Head{W: &out, Remaining: maxQuickStatus},
	})
	if err != nil || status.Code != 0 {
		return false
	}
	others, clean := readQuickStatus(out.String(), k.req.Base, tree)
	if !clean || len(others) == 0 {
		return clean
	}
	repo, err := workspace.Describe(ctx, k.req.Checkout)
	if err != nil {
		return false
	}
	k.repo = &repo
	unknown, err := k.missingCommits(ctx, others)
	return err == nil && len(unknown) == 0
}

// readQuickStatus returns the commits other than base, and reports whether nothing has changed:
// all files are as in base or, unless tree is "", as in tree. It is strict: an unexpected line
// or a missing end counts as a change.
func readQuickStatus(text, base, tree string) (others []string, clean bool) {
	at, saw, refs := "", "", false
	for line := range strings.SplitSeq(text, "\n") {
		id, isHead := strings.CutPrefix(line, "# branch.oid ")
		switch {
		case line == "end" && refs:
			return others, at == base && saw == tree
		case isHead && !refs:
			at = id
		case line == "refs":
			refs = true
		case !refs && tree != "" && line == "tree "+tree:
			saw = tree
		case !refs && !strings.HasPrefix(line, "# "):
			return nil, false
		case refs:
			id, _, _ := strings.Cut(line, " ")
			if !isObject(id, len(base)) {
				return nil, false
			}
			if id != base {
				others = append(others, id)
			}
		}
	}
	return nil, false
}

// missingCommits returns the commits that the checkout does not keep; all of them if there is no
// checkout.
func (k *keepRun) missingCommits(ctx context.Context, ids []string) ([]string, error) {
	if k.repo == nil || len(ids) == 0 {
		return ids, nil
	}
	view, done, err := workspace.Objects(ctx, *k.repo)
	if err != nil {
		return nil, err
	}
	defer done()
	return workspace.Unkept(ctx, view, *k.repo, ids, "")
}

// dropKnown drops the branches and stashes that the checkout has, since they are not the box's
// work.
func (k *keepRun) dropKnown(ctx context.Context, f *facts) error {
	var ids []string
	for _, b := range f.also {
		ids = append(ids, b.Commit)
	}
	unknown, err := k.missingCommits(ctx, ids)
	if err != nil {
		return err
	}
	f.also = slices.DeleteFunc(f.also, func(b Branch) bool { return !slices.Contains(unknown, b.Commit) })
	return nil
}
