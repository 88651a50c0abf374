package source

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"agentbox/agentbox"
)

// made makes a source of a project by a script in a repository.
func made(t *testing.T, s *Store, script string) Captured {
	t.Helper()
	c, release, err := s.Make(t.Context(), "p", func(dir, _ string) error {
		shell(t, filepath.Dir(dir), `git init -q tree; cd tree; printf same >same; `+script+`; touch -d @1700000000 same`)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	release()
	return c
}

// listed describes a tree as a source does.
func listed(t *testing.T, dir string) (all []entry) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, _ fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, file)
		e, describeErr := describe(file, filepath.ToSlash(name))
		if all = append(all, e); err == nil && relErr == nil {
			err = describeErr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A workspace that begins with a copy of an earlier source is the same as any other.
func TestApplyOverWhatWasCopiedAhead(t *testing.T) {
	s := newStore(t)
	s.CopyAhead("p")
	if len(s.ahead) != 0 {
		t.Fatal("there was nothing to copy")
	}
	made(t, s, `echo 1 >changed; echo 1 >gone; mkdir -p dir/below other; echo 1 >dir/below/f; echo 1 >other/f; ln -s same link; ln -s other todir; echo x >mode; echo f >file`)
	next := made(t, s, `echo 2 >changed; echo 1 >dir; mkdir file other; echo 2 >file/new; echo 1 >other/f; ln -s changed link; mkdir todir; echo 2 >todir/f; echo x >mode; chmod 755 mode; touch -d @1700000001 other/f`)
	plain := filepath.Join(t.TempDir(), "plain")
	if _, err := next.Apply(t.Context(), plain, 0); err != nil {
		t.Fatal(err)
	}
	want := listed(t, plain)
	for _, limit := range []int64{0, 1 << 20, 1} {
		if err := os.Chtimes(s.path(next.digest), time.Time{}, time.Unix(1, 0)); err != nil { // the first one was used last
			t.Fatal(err)
		}
		s.CopyAhead("p")
		a := s.ahead["p"]
		if a == nil {
			t.Fatal("nothing is copied")
		}
		<-a.done
		inode := stat(t, filepath.Join(a.dir, treeDir, "same"))
		dst := t.TempDir()
		_, err := next.Apply(t.Context(), dst, limit)
		if limit == 1 {
			if left, _ := os.ReadDir(dst); agentbox.CodeOf(err) != agentbox.NoSpace || len(left) > 0 {
				t.Errorf("beyond the limit: %v, %v", err, left)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !os.SameFile(inode, stat(t, filepath.Join(dst, "same"))) {
			t.Error("the copy was not taken")
		}
		got := listed(t, dst)
		for i := range want {
			if i >= len(got) || len(got) != len(want) || got[i] != want[i] {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, newPrefix+"*")); len(s.ahead) > 0 || len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A copy that nobody takes goes.
func TestCopyAheadIsDropped(t *testing.T) {
	s := newStore(t)
	made(t, s, "true")
	s.CopyAhead("p")
	first := s.ahead["p"]
	s.CopyAhead("p")
	second := s.ahead["p"]
	s.replaceAhead("p", first, nil)
	if s.ahead["p"] != second {
		t.Error("another was dropped")
	}
	s.replaceAhead("p", second, nil)
	if len(s.ahead) != 0 {
		t.Error("it is still there")
	}
	for _, a := range []*ahead{first, second} { // before the test's directory goes
		<-a.done
		for _, err := os.Lstat(a.dir); err == nil; _, err = os.Lstat(a.dir) {
			runtime.Gosched()
		}
	}
}
