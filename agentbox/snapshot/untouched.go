package snapshot

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"agentbox/agentbox/bounded"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/workspace"
)

// quickStatus prints git's view of a box's workspace with as few processes as possible: the
// commit checked out, one line per change, and the refs. Anything a box does to a repository changes
// some of it. A full look takes seven times as long. The script fails if there is another work tree
// or repository, or a commit that no ref names.
//
// A box that began with FILES uncommitted files always has changes. Instead of them the script
// prints the tree of all files, made as in capture. If the number of such files differs, something
// has changed and the script fails. It also fails if git takes files for unchanged without a look
// (git update-index --assume-unchanged, --skip-worktree).
const quickStatus = gitInBox + `
export GIT_DIR="$PWD/.git" GIT_WORK_TREE="$PWD"
[ -z "$(ls -A .git/worktrees .git/modules 2>/dev/null; adrift .git | sed '/ HEAD$/d;q')" ] || exit 1
[ -z "$(find . -path ./.git -prune -o \( -name .git -prune -o -name HEAD -type f \) -print | head -n 1)" ] || exit 1
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
named || exit 1
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
	view, done, err := workspace.Objects(ctx, repo)
	if err != nil {
		return false
	}
	defer done()
	unknown, err := workspace.Unkept(ctx, view, repo, others, k.req.Base)
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
