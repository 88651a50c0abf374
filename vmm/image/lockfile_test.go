package image

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentbox/agentbox"
)

func testLock() *Lock {
	l := &Lock{}
	l.Set(Recipe{Source: "apt:bookworm", Packages: []string{"make", "git"}, Platform: "linux/amd64"},
		Image{Digest: agentbox.Digest{1}, Versions: []string{"git=1:2.39", "make=4.3"}})
	l.Set(Recipe{Source: "registry.example/app:v1", Platform: "linux/amd64"},
		Image{Digest: agentbox.Digest{2}, Manifest: agentbox.Digest{3}.String()})
	return l
}

func TestLockRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockFile)
	if err := testLock().Save(path); err != nil {
		t.Fatal(err)
	}
	l, err := LoadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	r := Recipe{Source: "apt:bookworm", Packages: []string{"git", "make", "git"}, Platform: "linux/amd64", Include: []Include{{From: "/opt", To: "/opt"}}}
	if _, pin := l.Pin(r); pin != (agentbox.Digest{1}) {
		t.Errorf("pin %s", pin)
	}
	got, pin := l.Pin(Recipe{Source: "registry.example/app:v1", Platform: "linux/amd64"})
	if pin != (agentbox.Digest{2}) || got.Manifest != (agentbox.Digest{3}).String() {
		t.Errorf("pin %s, manifest %q", pin, got.Manifest)
	}
	for _, other := range []Recipe{{Source: "apt:bookworm", Platform: "linux/amd64"}, {Source: "apt:bookworm", Packages: []string{"git", "make"}, Platform: "linux/arm64"}} {
		if _, pin := l.Pin(other); !pin.IsZero() {
			t.Errorf("%v is pinned to %s", other, pin)
		}
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Save(path); err != nil {
		t.Fatal(err)
	}
	if second, _ := os.ReadFile(path); string(first) != string(second) {
		t.Errorf("saved again it reads\n%s", second)
	}
}

// A person who merges two branches may leave a list in any order: it pins what it says.
func TestEditedLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockFile)
	if err := testLock().Save(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.NewReplacer("[git, make]", "[make, git]", "[git=1:2.39, make=4.3]", "[make=4.3, git=1:2.39]").Replace(string(text))
	if edited == "" || edited == string(text) {
		t.Fatalf("nothing to edit in\n%s", text)
	}
	l, err := ParseLock(strings.NewReader(edited), LockFile)
	if err != nil {
		t.Fatal(err)
	}
	r, pin := l.Pin(Recipe{Source: "apt:bookworm", Packages: []string{"git", "make"}, Platform: "linux/amd64"})
	if pin != (agentbox.Digest{1}) || !r.samePackages(Image{Versions: []string{"git=1:2.39", "make=4.3"}}) {
		t.Errorf("pin %s, versions %q", pin, r.Versions)
	}
}

func TestLockSetAndChanges(t *testing.T) {
	l := testLock()
	r := Recipe{Source: "apt:bookworm", Packages: []string{"make", "git"}, Platform: "linux/amd64"}
	img := Image{Digest: agentbox.Digest{9}, Base: agentbox.Digest{7}, Versions: []string{"git=1:2.40", "libc6=2"}}
	pinned, _ := l.Pin(r)
	if got, want := strings.Join(changes(pinned.Versions, img.Versions), "; "), "git 1:2.39 -> 1:2.40; libc6 2 (new); make 4.3 (gone)"; got != want {
		t.Errorf("changes %q", got)
	}
	if !l.Set(r, img) || l.Set(r, img) || len(l.Images) != 2 {
		t.Errorf("set twice: %d entries", len(l.Images))
	}
	if _, pin := l.Pin(r); pin != img.Base {
		t.Errorf("pinned %s, not the base", pin)
	}
}

func TestDamagedLock(t *testing.T) {
	d := agentbox.Digest{1}.String()
	entry := "version: 1\nimages:\n  - source: apt:bookworm\n    platform: linux/amd64\n    image: " + d + "\n"
	for text, say := range map[string]string{
		"": "version", "version: 2\n": "version", "images: [": "line", "version: 1\nimage: []\n": "line 2",
		strings.Replace(entry, d, "sha256:12", 1):       "line 5",
		strings.Replace(entry, "platform", "system", 1): "line 4",
		"<<<<<<< HEAD\n" + entry:                        "line",
		entry + "  - source: x\n":                       "lacks",
		entry + entry[len("version: 1\nimages:\n"):]:    "twice",
		entry + "    manifest: nonsense\n":              "manifest",
		strings.Repeat("#", maxLock+1):                  "4 MiB",
	} {
		_, err := ParseLock(strings.NewReader(text), "agentbox.lock")
		wantCode(t, err, agentbox.Invalid, say)
		if !strings.HasPrefix(err.Error(), "agentbox.lock is damaged") || agentbox.AsError(err).Hint == "" {
			t.Errorf("%v has no hint or does not name the file", err)
		}
	}
	if l, err := LoadLock("/no/such/agentbox.lock"); err != nil || len(l.Images) != 0 {
		t.Errorf("no lock: %v", err)
	}
}

func TestReadOnlyRepository(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	_, r := ensureLayout(t, s, "x")
	told := false
	_, err := s.EnsureLocked(t.Context(), filepath.Join(dir, LockFile), r, false, func(e agentbox.Event) { told = told || e.Note })
	if err != nil || !told {
		t.Errorf("told=%v: %v", told, err)
	}
}

func FuzzParseLock(f *testing.F) {
	path := filepath.Join(f.TempDir(), LockFile)
	if err := testLock().Save(path); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("version: 1\nimages: [&a {source: x}, *a]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLock(strings.NewReader(string(b)), "x")
		if err != nil {
			return
		}
		p := filepath.Join(t.TempDir(), "again")
		if err := l.Save(p); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadLock(p); err != nil {
			t.Errorf("what was read cannot be read again: %v", err)
		}
	})
}

// The same packages serve where they gave other bytes, with a line, and the pin stays for those who
// have its bytes.
func TestSamePackagesSatisfyPin(t *testing.T) {
	s := newStore(t)
	r, err := Recipe{Source: "apt:bookworm", Packages: []string{"git"}, Platform: "linux/amd64"}.normal()
	if err != nil {
		t.Fatal(err)
	}
	versions := []string{"git=1:2.39", "libc6=2"}
	built, err := s.findOrMake(t.Context(), r.key(""), nil, func(agentbox.Digest) bool { return false }, nil, func(b *build) error {
		b.image = Image{Name: r.Source, Source: r.Source, Platform: r.Platform, Packages: r.Packages, Versions: versions}
		return b.prepare()
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), LockFile)
	lock := &Lock{}
	lock.Set(r, Image{Digest: agentbox.Digest{1}, Versions: versions})
	if err := lock.Save(path); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	img, err := s.EnsureLocked(t.Context(), path, r, false, func(e agentbox.Event) {
		if e.Note {
			told++
		}
	})
	if err != nil || img.Digest != built.Digest || told != 1 {
		t.Errorf("%s, told %d times, %v", img.Digest.Short(), told, err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the lock reads\n%s (%v)", after, err)
	}
}

func TestChangedPackagesAreReported(t *testing.T) {
	r := Recipe{Source: "apt:bookworm", Versions: []string{"a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1"}}
	for _, c := range []struct {
		now  []string
		want string
	}{
		{[]string{"a=1", "b=2", "c=1", "d=1", "e=1", "f=1", "h=1"}, "other versions than there are now: b 1 -> 2, g 1 (gone), h 1 (new)"},
		{[]string{"a=2", "b=2", "c=2", "d=2", "e=2", "f=2", "g=2"}, "a 1 -> 2, b 1 -> 2, c 1 -> 2, d 1 -> 2, e 1 -> 2 and 2 more"},
		{nil, "and 2 more"},
		{r.Versions, "from other bytes"},
	} {
		err := mismatch(r, agentbox.Digest{1}, Image{Digest: agentbox.Digest{2}, Versions: c.now})
		wantCode(t, err, agentbox.Conflict, c.want)
		if !strings.Contains(agentbox.AsError(err).Hint, "agentbox image build --update") {
			t.Errorf("hint %q", agentbox.AsError(err).Hint)
		}
	}
}

// A lock file is the repository's. It names no image of another repository that is here for other
// boxes: one with files of this host that somebody included elsewhere, say.
func TestLockCannotNameOtherImage(t *testing.T) {
	s := newStore(t)
	home := testHome(t)
	tree(t, home, "private/key", "of another project")
	other, _ := ensureLayout(t, s, "other")
	included, err := s.Ensure(t.Context(), Recipe{Source: other.Source, Include: []Include{{From: "~/private", To: "/opt/private"}}}, none, nil)
	if err != nil {
		t.Fatal(err)
	}
	derived, err := s.Derive(t.Context(), other, Derivation{Key: agentbox.Digest{1}, Name: "with setup", Layers: []func() (io.ReadCloser, error){archive(t, "home/agent/made", "x")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	own, _ := ensureLayout(t, s, "own")
	for name, pin := range map[string]Image{"another source": other, "with includes": included, "with setup": derived} {
		for _, source := range []string{own.Source, other.Source} {
			got, err := s.Ensure(t.Context(), Recipe{Source: source}, pin.Digest, nil)
			if pin.Digest == other.Digest && source == other.Source {
				if err != nil || got.Digest != other.Digest {
					t.Errorf("its own image: %s, %v", got.Digest, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%s: a lock file of %s gives %s", name, source, got.Name)
			}
		}
	}
}

// What the team has under the digest that a lock file names is used only where it is what the
// recipe is of.
func TestTeamImageMustMatchRecipe(t *testing.T) {
	for name, source := range map[string]string{"of the recipe": "", "of another": "apt:other"} {
		s := newStore(t)
		built, _ := ensureLayout(t, s, "own")
		asked := Image{Digest: agentbox.Digest{7}, Name: "x", Source: built.Source, Platform: built.Platform, Size: 1, Lazy: &Lazy{Manifest: agentbox.Digest{8}, From: "team"}}
		if source != "" {
			asked.Source = source
		}
		s = newStore(t)
		s.FindRemote = func(context.Context, agentbox.Digest, string) (Image, error) { return asked, nil }
		got, err := s.Ensure(t.Context(), Recipe{Source: built.Source}, asked.Digest, nil)
		if used := err == nil && got.Digest == asked.Digest; used != (source == "") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// What was derived elsewhere is found, if it was of the very base.
func TestDerivedImageFromRemote(t *testing.T) {
	s := newStore(t)
	base, _ := ensureLayout(t, s, "own")
	key := agentbox.Digest{5}
	if _, err := s.Find(t.Context(), base, key, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Error(err)
	}
	there := Image{
		Digest: agentbox.Digest{7}, Name: "x", Source: base.Source, Platform: base.Platform, Size: 1, Key: derivedKey(key), Lazy: &Lazy{Manifest: agentbox.Digest{8}, From: "team"},
	}
	s.FindRemote = func(_ context.Context, pin agentbox.Digest, k string) (Image, error) {
		if !pin.IsZero() || k != derivedKey(key) {
			t.Errorf("asked for %s, %s", pin, k)
		}
		return there, nil
	}
	if img, err := s.Find(t.Context(), base, key, nil); err == nil {
		t.Errorf("of another base: %+v", img)
	}
	s, there.Base = newStore(t), base.Digest
	s.FindRemote = func(context.Context, agentbox.Digest, string) (Image, error) { return there, nil }
	for range 2 {
		if img, err := s.Find(t.Context(), base, key, nil); err != nil || img.Digest != there.Digest {
			t.Errorf("%+v, %v", img, err)
		}
	}
}

func TestLockFileIsPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), LockFile)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	_, err := LoadLock(path)
	wantCode(t, err, agentbox.Invalid, "not a regular file")
}

// Making an image takes minutes. What somebody else writes into the lock file meanwhile stays.
func TestConcurrentPins(t *testing.T) {
	s, path := newStore(t), filepath.Join(t.TempDir(), LockFile)
	other := LockEntry{Source: "apt:trixie", Platform: "linux/amd64", Image: lockDigest(agentbox.Digest{7})}
	r := Recipe{Source: "oci:" + testLayout(t, testImage(t, "x"))}
	wrote := false
	img, err := s.EnsureLocked(t.Context(), path, r, false, func(agentbox.Event) {
		if wrote {
			return
		}
		wrote = true
		if err := (&Lock{Images: []LockEntry{other}}).Save(path); err != nil {
			t.Error(err)
		}
	})
	if err != nil || !wrote {
		t.Fatal(wrote, err)
	}
	lock, err := LoadLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, pin := lock.Pin(other.recipe()); pin != (agentbox.Digest{7}) {
		t.Error("the pin that came while the image was made is lost")
	}
	if _, pin := lock.Pin(r); pin != img.Pin() {
		t.Errorf("pinned to %s instead of %s", pin.Short(), img.Pin().Short())
	}
}
