package snapshot

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// shares tells whether two checkouts have one file under a name.
func shares(t *testing.T, a, b, name string) bool {
	t.Helper()
	x, err := os.Lstat(filepath.Join(a, name))
	y, otherErr := os.Lstat(filepath.Join(b, name))
	if err != nil || otherErr != nil {
		t.Fatal(err, otherErr)
	}
	return os.SameFile(x, y)
}

// A checkout has links to what another one has alike, files and history, and copies of all else.
func TestCheckoutSharesWhatIsAlike(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo more >>a.txt; echo new >new; chmod 600 dir/b.txt`)
	first, second := filepath.Join(w.dir, "first"), filepath.Join(w.dir, "second")
	d, _ := documentOf(t, w)
	if err := Checkout(t.Context(), d.Kept(w.mirror), d.Branch, first, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.box, "a.txt"), []byte("other\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if d, _ = documentOf(t, w); d.Base == "" {
		t.Fatal("no base")
	}
	if err := Checkout(t.Context(), d.Kept(w.mirror), d.Branch, second, first); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{".gitignore": true, "a.txt": false, "new": false, "dir/b.txt": false} {
		if shares(t, first, second, name) != want {
			t.Errorf("%s is shared: %v", name, !want)
		}
	}
	packs, err := filepath.Glob(filepath.Join(w.mirror, historyDir, d.Base, "pack-*.pack"))
	if err != nil || len(packs) != 1 || !shares(t, filepath.Dir(packs[0]), filepath.Join(second, ".git", "objects", "pack"), filepath.Base(packs[0])) {
		t.Errorf("the history is not shared: %v, %v", packs, err)
	}
	gitOut(t, second, "fsck", "--strict")
	if got := gitOut(t, second, "-c", "core.checkStat=minimal", "-c", "core.trustctime=false", "diff-files", "--name-only"); got != "a.txt" {
		t.Errorf("git has to read %q", got)
	}
}

// What an earlier checkout says of its files is not believed where a link of it leads elsewhere.
func TestCheckoutSharesNothingBehindLinks(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo more >>a.txt`)
	d, _ := documentOf(t, w)
	first, second, away := filepath.Join(w.dir, "first"), filepath.Join(w.dir, "second"), filepath.Join(w.dir, "away")
	if err := Checkout(t.Context(), d.Kept(w.mirror), d.Branch, first, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(first, "dir"), away); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, filepath.Join(first, "dir")); err != nil {
		t.Fatal(err)
	}
	if err := Checkout(t.Context(), d.Kept(w.mirror), d.Branch, second, first); err != nil {
		t.Fatal(err)
	}
	if shares(t, away, filepath.Join(second, "dir"), "b.txt") {
		t.Error("a file of another directory is shared")
	}
}

// A pack that does not have all of a history is not taken for it, whoever sent it.
func TestHistoryOfAnotherIsWhole(t *testing.T) {
	isolateGit(t)
	w := newWorld(t, `base; echo more >>a.txt`)
	d, _ := documentOf(t, w)
	there := filepath.Join(w.dir, "there.git")
	for _, known := range []bool{false, true} {
		var history, work bytes.Buffer
		err := errors.Join(d.WriteHistory(t.Context(), w.mirror, &history), d.WriteWork(t.Context(), w.mirror, &work))
		if err = errors.Join(err, d.Receive(t.Context(), there, &history, &work)); err != nil {
			t.Fatal(err)
		}
		if has := exists(filepath.Join(there, historyDir, d.Base)); has == known {
			t.Errorf("into a mirror with something: %v, it is shared: %v", known, has)
		}
		if err := os.RemoveAll(filepath.Join(there, historyDir)); err != nil {
			t.Fatal(err)
		}
	}
	made := filepath.Join(w.dir, "made")
	if err := Checkout(t.Context(), d.Kept(there), d.Branch, made, ""); err != nil {
		t.Fatal(err)
	}
	gitOut(t, made, "fsck", "--strict")
}
