package snapshot

import (
	"os/exec"
	"testing"

	"agentbox/agentbox"
)

// hugeTree makes a commit of ten to the tenth files out of twelve objects.
const hugeTree = `b=$(echo x | git hash-object -w --stdin)
t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '100644 blob %s\tf%s\n' $b $i; done | git mktree)
for level in 1 2 3 4 5 6 7 8 9; do
	t=$(for i in 0 1 2 3 4 5 6 7 8 9; do printf '040000 tree %s\td%s\n' $t $i; done | git mktree)
done
git update-ref HEAD $(git commit-tree -p HEAD -m forest $t)
`

// telling is a box that says what capture would, without looking at its files: its commit is what
// it has checked out, or has not committed.
func telling(t *testing.T, w world, head string) scriptedGuest {
	t.Helper()
	cmd := exec.Command("sh", "-ec", `printf 'format sha1\ntree %s %s 1 HEAD .\nready\npack\n' $1 "$3"; printf '%s\n^%s\n' $1 $2 | git pack-objects --revs --stdout -q`,
		"x", gitOut(t, w.box, "rev-parse", "HEAD"), w.base, head)
	cmd.Dir = w.box
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return scriptedGuest{out}
}

// A few objects may mean more files than anybody can list: they are kept, and that they cannot be
// listed is said.
func TestHugeTreeIsKept(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, "base\n"+hugeTree)
	commit := gitOut(t, w.box, "rev-parse", "HEAD")
	kept, err := Keep(t.Context(), telling(t, w, commit), w.request())
	if err != nil || kept.Commits != 1 || kept.Commit != commit || len(kept.Missing) > 0 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if _, err := Changes(t.Context(), kept); agentbox.CodeOf(err) != agentbox.Conflict {
		t.Errorf("its files: %v", err)
	}
}

// The same where what was uncommitted is to be told apart from it.
func TestHugeTreeWithBaseline(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of git")
	}
	w, req := dirty(t, "echo mine >mine", "git config user.name t; git config user.email t@example.com; git commit -q --allow-empty -m begin; "+hugeTree)
	commit := gitOut(t, w.box, "rev-parse", "HEAD")
	kept, err := Keep(t.Context(), telling(t, w, w.base), req)
	if err != nil || kept.Whole != commit || len(kept.Missing) > 0 {
		t.Fatalf("%+v, %v", kept, err)
	}
	if n, err := (mirror{kept.Mirror}).countFiles(t.Context(), "", kept.Whole); n != maxCount || err != nil {
		t.Errorf("%d files, %v", n, err)
	}
}

// A name in a commit may be longer than any file's.
func TestLongNameIsTruncated(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base
b=$(echo x | git hash-object -w --stdin)
t=$(printf '100644 blob %s\t%s\n' $b $(head -c 3000000 /dev/zero | tr '\0' n) | git mktree)
git update-ref HEAD $(git commit-tree -p HEAD -m long $t)`)
	kept, err := Keep(t.Context(), telling(t, w, gitOut(t, w.box, "rev-parse", "HEAD")), w.request())
	if err != nil {
		t.Fatal(err)
	}
	files, err := Changes(t.Context(), kept)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if len(f.Path) > 2*maxPath {
			t.Errorf("a file with a name of %d bytes", len(f.Path))
		}
	}
}
