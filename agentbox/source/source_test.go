package source

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/agentbox/durable"
	"agentbox/agentbox/project"
	"agentbox/agentbox/workspace"
)

const app = "example.com/org/app"

// repository makes a checkout with a script, after base.
func repository(t testing.TB, script string) string {
	t.Helper()
	for name, value := range map[string]string{"HOME": t.TempDir(), "XDG_CONFIG_HOME": "", "GIT_CONFIG_NOSYSTEM": "1"} {
		t.Setenv(name, value)
	}
	dir := filepath.Join(t.TempDir(), "app")
	base := `set -e; git init -q -b main "$0"; cd "$0"; git config user.name t; git config user.email t@example.com; git config gc.auto 0
		echo one >a; mkdir d; echo two >d/b; ln -s d/b l; echo '#!/bin/sh' >run; chmod +x run; printf 'ignored\n' >.gitignore; git add .; git commit -qm one; echo no >ignored
	`
	shell(t, "", base+script, dir)
	return dir
}

func shell(t testing.TB, dir, script string, args ...string) {
	t.Helper()
	c := exec.Command("sh", append([]string{"-c", script}, args...)...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// newStore makes a store that trusts the times of files which have just changed, unless a test says
// otherwise.
func newStore(t testing.TB) *Store {
	t.Helper()
	s, err := OpenStore(filepath.Join(t.TempDir(), "sources"))
	if err != nil {
		t.Fatal(err)
	}
	s.racy = -time.Hour
	return s
}

func capture1(t testing.TB, s *Store, dir string) Captured {
	t.Helper()
	repo, err := workspace.Describe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	c, release, err := s.Capture(t.Context(), repo, app)
	if err != nil {
		t.Fatal(err)
	}
	release()
	return c
}

// apply returns the copy's files with their contents, and the listing of its directory.
func apply(t testing.TB, s Source) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "copy")
	if _, err := s.Apply(t.Context(), dir, 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

func contents(t testing.TB, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A box of a captured checkout does not see what happened to the checkout since.
func TestCapturedStays(t *testing.T) {
	dir := repository(t, "echo changed >>a; echo new >u")
	s := newStore(t)
	c := capture1(t, s, dir)
	for _, later := range []string{
		"echo later >>a; rm u; git checkout -q -f -b other; git commit -q --allow-empty -m more; git gc -q --prune=now",
		`rm -rf "$PWD"`,
	} {
		shell(t, dir, later)
		got, release, err := s.Open(t.Context(), c.Digest())
		if err != nil {
			t.Fatal(err)
		}
		release()
		copied := apply(t, got)
		if contents(t, copied, "a") != "one\nchanged\n" || contents(t, copied, "u") != "new\n" || got.Repo().Branch != "main" {
			t.Errorf("after %q it is not what was captured", later)
		}
		if _, err := os.Lstat(filepath.Join(copied, "ignored")); err == nil {
			t.Error("it has an ignored file")
		}
		shell(t, copied, "git fsck --strict && test ! -e .git/"+project.CapturedFile+` && test "$(git status --porcelain)" = " M a
?? u"`)
		if p, err := project.Identify(t.Context(), got.Repo().Root); err != nil || p.Name != app {
			t.Errorf("its project is %v, %v", p, err)
		}
	}
}

// Every change is seen, and what did not change is the same file.
func TestCaptureIsIncremental(t *testing.T) {
	dir := repository(t, "")
	s := newStore(t)
	before := capture1(t, s, dir)
	if again := capture1(t, s, dir); again.Digest() != before.Digest() {
		t.Errorf("nothing changed, and it is another source: %s", again.Digest())
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir, newPrefix+"*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, change := range []string{
		"printf 'eno\n' >a", "chmod +x a", "touch -d 2001-01-01 a", "rm a", "ln -sfn a l", "mv d/b d/c", "git commit -q --allow-empty -m two", "git branch x", "git add -N d/c",
		"git config user.name other", "mkdir e; echo e >e/e", "git tag t", "echo a >.git/info/exclude", "chmod 700 d", "mkdir -p d/inner; git -C d/inner init -q; echo i >d/inner/i", "git gc -q",
	} {
		shell(t, dir, change)
		after := capture1(t, s, dir)
		if after.Digest() == before.Digest() {
			t.Errorf("%q is not seen", change)
		}
		shell(t, dir, `diff -r --no-dereference -x .git -x ignored . "$0" && diff .git/HEAD "$0/.git/HEAD"`, apply(t, after))
		one, two := stat(t, filepath.Join(before.Repo().Root, "run")), stat(t, filepath.Join(after.Repo().Root, "run"))
		if !os.SameFile(one, two) {
			t.Errorf("after %q, a file that did not change was copied", change)
		}
		before = after
	}
}

func stat(t testing.TB, path string) os.FileInfo {
	t.Helper()
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

// A file that changes right after it was captured, in the same tick of the clock and to the same
// size, is not taken for the old one.
// TestNothingIsReadAgain: the links that a capture makes of git's objects change their times, and so do
// those of others.
func TestNothingIsReadAgain(t *testing.T) {
	dir := repository(t, `git gc -q`)
	s := newStore(t)
	capture1(t, s, dir)
	shell(t, dir, `for f in $(find .git/objects -type f); do ln "$f" .git/linked; rm .git/linked; done`)
	repo, err := workspace.Describe(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	run := &capture{tree: filepath.Join(t.TempDir(), "tree"), before: s.readPrevious(repo.Root), seen: map[string]durable.Identity{}, manifest: manifest{Project: app}}
	if _, err := workspace.Stage(t.Context(), repo, run.tree, workspace.Options{Link: true, Bulk: run.bulk}); !errors.Is(err, errUnchanged) {
		t.Errorf("%v; read again: %q", err, run.fresh)
	}
}

func TestRacyChange(t *testing.T) {
	dir := repository(t, "")
	s := newStore(t)
	s.racy = racy
	first := capture1(t, s, dir)
	shell(t, dir, "touch -r a /tmp/$$; printf 'eno\n' >a; touch -r /tmp/$$ a; rm /tmp/$$")
	p := s.readPrevious(dir)
	for i, e := range p.Entries {
		if e.Kind == kindFile && p.stamps[i] != (stamp{}) {
			t.Errorf("%s changed a moment ago, and is trusted", e.Path)
		}
	}
	if second := capture1(t, s, dir); second.Digest() == first.Digest() || contents(t, second.Repo().Root, "a") != "eno\n" {
		t.Error("the change is not seen")
	}
}

// Equal contents are equal sources, wherever they lie and whatever inodes they have.
func TestEqualContentEqualDigest(t *testing.T) {
	dir := repository(t, "echo x >>a")
	other := filepath.Join(t.TempDir(), "elsewhere", "app")
	shell(t, dir, `mkdir -p "${0%/*}"; cp -a . "$0"`, other)
	if a, b := capture1(t, newStore(t), dir), capture1(t, newStore(t), other); a.Digest() != b.Digest() {
		t.Errorf("%s and %s", a.Digest(), b.Digest())
	}
}

// What is captured of a file beside a writer is a state that it had, and times are not mixed up: the
// next capture sees what came later.
func TestCaptureBesideWriter(t *testing.T) {
	dir := repository(t, "")
	s := newStore(t)
	s.racy = racy
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			text := strings.Repeat(string(rune('a'+n%26)), 4096)
			if err := os.WriteFile(filepath.Join(dir, "a.tmp"), []byte(text), 0o644); err == nil {
				_ = os.Rename(filepath.Join(dir, "a.tmp"), filepath.Join(dir, "a"))
			}
		}
	}()
	for range 5 {
		got := contents(t, apply(t, capture1(t, s, dir)), "a")
		if got != "one\n" && (len(got) != 4096 || strings.Trim(got, got[:1]) != "") {
			t.Errorf("a state that the file never had: %d bytes", len(got))
		}
	}
	close(stop)
	<-done
	if got := contents(t, apply(t, capture1(t, s, dir)), "a"); got != contents(t, dir, "a") {
		t.Error("the last state was not captured")
	}
}

func TestCollect(t *testing.T) {
	dir := repository(t, "")
	s := newStore(t)
	c := capture1(t, s, dir)
	d := c.Digest()
	_, release, err := s.Open(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	here := func() bool { _, err := os.Stat(s.path(d)); return err == nil }
	old := time.Now().Add(-2 * Grace)
	if err := os.Chtimes(s.path(d), old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.Collect(map[agentbox.Digest]bool{d: true}); err != nil || !here() {
		t.Errorf("one that is needed is gone: %v", err)
	}
	if err := s.Collect(nil); err != nil || !here() {
		t.Errorf("one that is open is gone: %v", err)
	}
	release()
	if err := s.Collect(nil); err != nil || here() {
		t.Errorf("one that nobody needs stays: %v", err)
	}
	if _, _, err := s.Open(t.Context(), d); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("it opens: %v", err)
	}
	if again := capture1(t, s, dir); again.Digest() != d {
		t.Error("without its last source, a checkout is another")
	}
}

// What a power loss left of a source is not given to a box.
func TestDamagedIsRefused(t *testing.T) {
	dir := repository(t, "")
	s := newStore(t)
	c := capture1(t, s, dir)
	if err := os.Truncate(filepath.Join(c.Repo().Root, "d", "b"), 0); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := c.Apply(t.Context(), to, 0); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("it is applied: %v", err)
	}
	if _, err := os.Lstat(to); err == nil {
		t.Error("something is left")
	}
	if _, _, err := c.ApplyTemp(t.Context(), to, false); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("it is used: %v", err)
	}
}

func TestManifestRoundTrip(t *testing.T) {
	s := newStore(t)
	c := capture1(t, s, repository(t, `printf x >"$(printf 'odd\n\351 "name"')"; ln -s "$(printf 'a\377')" odd`))
	m, err := s.readManifest(c.Digest())
	if err != nil {
		t.Fatal(err)
	}
	text := m.encode()
	if d, err := digest(text); err != nil || d != c.Digest() {
		t.Errorf("%s, %v", d, err)
	}
}

// FuzzManifest looks for a manifest that is accepted and would write outside of its tree, or does
// not come out as it went in.
func FuzzManifest(f *testing.F) {
	head := header + "\nproject \"p\"\n"
	hex := strings.Repeat("0", 64)
	for _, lines := range []string{
		"d 755 \".\"\nd 755 \".git\"\nf 644 0 1 " + hex + " \".git/HEAD\"\nf 644 5 1 " + hex + " \"a\"\nl 5 \"t\" \"b\"\n",
		"d 755 \".\"\nf 644 0 1 " + hex + " \"../a\"\n", "d 755 \".\"\nl 1 \"/\" \"a\"\nf 644 0 1 " + hex + " \"a/b\"\n", "d 755 \".\"\nd 4755 \"a\"\n",
		"d 755 \".\"\nd 755 \".git\"\nd 755 \".git/objects\"\nd 755 \".git/objects/info\"\nf 644 0 1 " + hex + " \".git/objects/info/alternates\"\n",
	} {
		f.Add([]byte(head + lines))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parse(bytes.NewReader(text))
		if err != nil {
			if agentbox.CodeOf(err) != agentbox.Corrupt {
				t.Fatalf("%v", err)
			}
			return
		}
		links := map[string]bool{}
		for _, e := range m.Entries {
			if !filepath.IsLocal(e.Path) || links[filepath.Dir(e.Path)] || e.borrows() {
				t.Errorf("%q", e.Path)
			}
			links[e.Path] = e.Kind != kindDir
		}
		again, err := parse(bytes.NewReader(m.encode()))
		if err != nil || !bytes.Equal(again.encode(), m.encode()) {
			t.Errorf("%v", err)
		}
	})
}

// BenchmarkCaptureNothingNew captures a checkout of 100 MB in 5,000 files, with as much history, in
// which nothing changed since the last time.
func BenchmarkCaptureNothingNew(b *testing.B) {
	dir := repository(b, `i=0; while [ $i -lt 50 ]; do mkdir -p dir$i; head -c 2000000 /dev/urandom | split -b 20000 - dir$i/f; i=$((i+1)); done; git add .; git commit -qm files; git gc -q`)
	s := newStore(b)
	repo, err := workspace.Describe(context.Background(), dir)
	if err != nil {
		b.Fatal(err)
	}
	first := capture1(b, s, dir)
	for b.Loop() {
		c, release, err := s.Capture(context.Background(), repo, app)
		if err != nil || c.Digest() != first.Digest() {
			b.Fatal(err)
		}
		release()
	}
}
