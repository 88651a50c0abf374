package snapshot

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentbox/agentbox"
	"agentbox/agentbox/environment"
	"agentbox/agentbox/git"
)

// twoMirrors are a mirror that has two commits, and another one that has the first.
func twoMirrors(t *testing.T, change func(dir string)) (one, other mirror, base, tip string) {
	t.Helper()
	isolateGit(t)
	dir := filepath.Join(t.TempDir(), "repo")
	gitOut(t, ".", "init", "-q", "-b", "main", dir)
	large := make([]byte, 1<<20)
	_, _ = rand.Read(large)
	for name, content := range map[string][]byte{"large": large, "small": []byte("one\n"), "gone": []byte("x")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(message string) string {
		gitOut(t, dir, "add", "-A")
		gitOut(t, dir, "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", message)
		return gitOut(t, dir, "rev-parse", "HEAD")
	}
	base = commit("first")
	otherDir := filepath.Join(t.TempDir(), "other.git")
	gitOut(t, ".", "clone", "-q", "--bare", dir, otherDir)
	change(dir)
	tip = commit("second")
	return mirror{filepath.Join(dir, ".git")}, mirror{otherDir}, base, tip
}

func appendTo(t *testing.T, file string, content []byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// The pack of a few changes is small, whether they are in a large file or not, and another mirror takes it.
func TestFew(t *testing.T) {
	one, other, base, tip := twoMirrors(t, func(dir string) {
		appendTo(t, filepath.Join(dir, "large"), []byte("a line\n"))
		appendTo(t, filepath.Join(dir, "small"), []byte("two\n"))
		appendTo(t, filepath.Join(dir, "new"), []byte("a file\n"))
	})
	list, err := git.List(t.Context(), one, []string{tip}, []string{base})
	if err != nil {
		t.Fatal(err)
	}
	few := one.few(t.Context(), list, base, tip)
	if few == nil {
		t.Fatal("git has to make it")
	}
	var pack bytes.Buffer
	if err := few.write(&pack); err != nil {
		t.Fatal(err)
	}
	if pack.Len() > 16<<10 {
		t.Errorf("it has %d bytes", pack.Len())
	}
	if err := other.receivePack(t.Context(), bytes.NewReader(pack.Bytes()), DefaultLimit, false, []string{tip}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"large", "small", "gone", "new"} {
		if gitOut(t, one.dir, "show", tip+":"+name) != gitOut(t, other.dir, "show", tip+":"+name) {
			t.Errorf("%s is another", name)
		}
	}
	gitOut(t, other.dir, "fsck", "--strict", tip)
	if without := one.few(t.Context(), list, "", tip); without == nil || without[0].delta != nil {
		t.Error("without a base there is nothing to build on")
	}
	if one.few(t.Context(), bytes.Repeat(list, maxFew), base, tip) != nil || one.few(t.Context(), []byte(strings.Repeat("1", 40)+" x\n"), base, tip) != nil {
		t.Error("too many objects, or one that is not here")
	}
}

// alone is a box whose program has no script to leave anything to.
type alone struct {
	nativeGuest
	t *testing.T
}

func (a alone) Exec(ctx context.Context, c environment.Command) (environment.Status, error) {
	if c.Argv[0] == "sh" {
		a.t.Errorf("it was left to the script: %s", *a.left)
	}
	c.Argv = c.Argv[:1]
	return a.nativeGuest.Exec(ctx, c)
}

// A box takes a small pack by its own program, and by the script where it has none, or cannot: it follows no
// alternates.
func TestTakenBothWays(t *testing.T) {
	for name, c := range map[string]struct {
		native bool
		before string // in the box
	}{
		"by its program": {true, "true"}, "by the script": {false, "true"},
		"left to the script": {true, `mv "$1/.git/objects" "$1/other" && mkdir -p "$1/.git/objects/info" && echo "$1/other" >"$1/.git/objects/info/alternates"`},
	} {
		t.Run(name, func(t *testing.T) {
			one, _, base, tip := twoMirrors(t, func(dir string) {
				appendTo(t, filepath.Join(dir, "large"), []byte("a line\n"))
				appendTo(t, filepath.Join(dir, "new"), []byte("a file\n"))
			})
			box := filepath.Join(t.TempDir(), "box")
			gitOut(t, ".", "clone", "-q", filepath.Dir(one.dir), box)
			gitOut(t, box, "reset", "-q", "--hard", base)
			gitOut(t, box, "update-ref", "-d", "refs/remotes/origin/main")
			gitOut(t, box, "reflog", "expire", "--expire=now", "--all")
			gitOut(t, box, "gc", "-q", "--prune=now")
			if out, err := exec.Command("sh", "-c", c.before, "sh", box).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			left := ""
			var g Guest = localGuest{}
			if c.native {
				g = nativeGuest{left: &left}
			}
			if name == "by its program" {
				g = alone{nativeGuest{left: &left}, t}
			}
			if err := one.bring(t.Context(), g, box, []string{tip}, nil, []string{base}, "", ""); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"large", "new"} {
				if gitOut(t, box, "show", tip+":"+file) != gitOut(t, one.dir, "show", tip+":"+file) {
					t.Errorf("%s is another", file)
				}
			}
			gitOut(t, box, "fsck", "--strict", tip)
			if rest, _ := filepath.Glob(filepath.Join(box, ".git", "objects", "tmp_*")); len(rest) > 0 {
				t.Errorf("it left %v", rest)
			}
		})
	}
}

// Of a file that is new in many places, git finds the difference.
func TestMuchNewIsLeftToGit(t *testing.T) {
	one, _, base, tip := twoMirrors(t, func(dir string) {
		file := filepath.Join(dir, "large")
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		content[0]++
		content[len(content)/2]++
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	})
	list, err := git.List(t.Context(), one, []string{tip}, []string{base})
	if err != nil {
		t.Fatal(err)
	}
	if one.few(t.Context(), list, base, tip) != nil {
		t.Error("it was packed here")
	}
	var pack bytes.Buffer
	if err := one.packWork(t.Context(), &pack, []string{tip}, false, base); err != nil || pack.Len() > 16<<10 {
		t.Errorf("%d bytes: %v", pack.Len(), err)
	}
}

// A disk that is full is said to be, not that what the box sent is damaged.
func TestCopyOfAPackOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	in := &copied{from: strings.NewReader("PACK"), file: full, left: 100}
	if _, err := in.Read(make([]byte, 10)); agentbox.CodeOf(agentbox.MarkNoSpace(err)) != agentbox.NoSpace || in.failed == nil {
		t.Errorf("%v, %v", err, in.failed)
	}
}

// Whatever way a pack is taken, git looks at what it has: names that lead elsewhere, and settings of
// submodules that it would not follow itself.
func TestBadObjectsAreRefused(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, m mirror) string{
		"a tree with .git": func(t *testing.T, m mirror) string {
			blob := gitFed(t, m.dir, "x", "hash-object", "-w", "--stdin")
			return gitFed(t, m.dir, "100644 blob "+blob+"\t.git\n", "mktree")
		},
		"a submodule whose address is an option": func(t *testing.T, m mirror) string {
			blob := gitFed(t, m.dir, "[submodule \"a\"]\n\tpath = a\n\turl = -x\n", "hash-object", "-w", "--stdin")
			return gitFed(t, m.dir, "100644 blob "+blob+"\t.gitmodules\n", "mktree")
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, other, base, _ := twoMirrors(t, func(dir string) { appendTo(t, filepath.Join(dir, "small"), []byte("two\n")) })
			tree := make(t, one)
			tip := gitFed(t, one.dir, "", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit-tree", "-m", "bad", "-p", base, tree)
			pack := []byte(gitFed(t, one.dir, tip+"\n^"+base+"\n", "pack-objects", "--revs", "--stdout", "--thin", "-q"))
			if err := other.receivePack(t.Context(), bytes.NewReader(pack), DefaultLimit, false, []string{tip}); agentbox.CodeOf(err) != agentbox.Corrupt {
				t.Errorf("taken at once: %v", err)
			}
			if err := other.receivePack(t.Context(), bytes.NewBuffer(pack), DefaultLimit, false, []string{tip}); agentbox.CodeOf(err) != agentbox.Corrupt {
				t.Errorf("taken as it comes: %v", err)
			}
			if has, err := other.has(t.Context(), tip); err != nil || has[tip] {
				t.Errorf("it is in the mirror: %v", err)
			}
		})
	}
}

// gitFed runs git with an input, and returns its output without a line end.
func gitFed(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v", args, err)
	}
	return strings.TrimSuffix(string(out), "\n")
}
