package objects

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is one of git's, with versions of files that become deltas of each other.
type repository struct {
	t   *testing.T
	dir string
}

func newRepository(t *testing.T) repository {
	r := repository{t, t.TempDir()}
	r.git(nil, "init", "-q", "-b", "main")
	random := rand.NewChaCha8([32]byte{3})
	large := make([]byte, 300_000)
	_, _ = random.Read(large)
	for i := range 12 {
		copy(large[i*1000:], fmt.Sprintf("version %d", i))
		files := map[string][]byte{
			"large": large, "empty": nil, "dir/text": []byte(strings.Repeat(fmt.Sprintf("line %d\n", i), 2000)), "grows": bytes.Repeat([]byte("x\n"), i*500),
		}
		for name, content := range files {
			file := filepath.Join(r.dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		r.git(nil, "add", "-A")
		r.git(nil, "commit", "-qm", fmt.Sprint("change ", i))
	}
	r.git(nil, "tag", "-am", "annotated", "v1")
	return r
}

func (r repository) git(stdin []byte, args ...string) []byte {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@localhost"}, args...)...)
	cmd.Dir, cmd.Stdin = r.dir, bytes.NewReader(stdin)
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %v: %v", args, err)
	}
	return out
}

func (r repository) objects() string { return filepath.Join(r.dir, ".git", "objects") }

// all are the names of all objects, with their kinds.
func (r repository) all() (all map[ID]string) {
	all = map[ID]string{}
	for line := range strings.Lines(string(r.git(nil, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)"))) {
		name, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, err := ParseID(name)
		if err != nil {
			r.t.Fatal(err)
		}
		all[id] = kind
	}
	return all
}

func (r repository) open() *Store {
	r.t.Helper()
	s, err := Open(r.objects())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { s.Close() })
	return s
}

// check reads all objects and compares them with what git says.
func (r repository) check() {
	r.t.Helper()
	s := r.open()
	for id, kind := range r.all() {
		o, err := s.Read(id, 1<<20)
		if err != nil {
			r.t.Fatalf("%s: %v", id, err)
		}
		if o.Kind.String() != kind || !bytes.Equal(o.Content, r.git(nil, "cat-file", kind, id.String())) {
			r.t.Errorf("%s %s differs from what git reads", kind, id)
		}
		if name, err := o.ID(); err != nil || name != id {
			r.t.Errorf("the name of %s is %s: %v", id, name, err)
		}
	}
}

// What is loose, packed, and packed in several packs reads as git reads it.
func TestReadsWhatGitReads(t *testing.T) {
	r := newRepository(t)
	r.check()
	r.git(nil, "repack", "-q", "-a", "-d", "-f", "--depth=50", "--window=50")
	if list := r.git(nil, "verify-pack", "-v", packName(t, r)); !bytes.Contains(list, []byte("chain length = ")) {
		t.Fatal("git made no deltas: this tests nothing")
	}
	r.check()
	if err := os.WriteFile(filepath.Join(r.dir, "new"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.git(nil, "add", "-A")
	r.git(nil, "commit", "-qm", "more")
	r.check()
	r.git(nil, "repack", "-q", "-d")
	r.check()
	s := r.open()
	if _, err := s.Read(ID{1, 2, 3}, 1<<20); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an object that is not there: %v", err)
	}
	id, _ := ParseID(strings.TrimSpace(string(r.git(nil, "rev-parse", "HEAD:large"))))
	if _, err := s.Read(id, 1000); !errors.Is(err, errLarge) {
		t.Errorf("an object that is too large: %v", err)
	}
}

func packName(t *testing.T, r repository) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(r.objects(), "pack", "*.pack"))
	if err != nil || len(names) == 0 {
		t.Fatal("there is no pack")
	}
	return names[0]
}

// A thin pack of git's gives the objects that git makes of it.
func TestReadsThinPacks(t *testing.T) {
	r := newRepository(t)
	r.git(nil, "repack", "-q", "-a", "-d", "-f")
	base := r.open()
	thin := r.git([]byte("HEAD\n^HEAD~3\n"), "pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q")
	to := t.TempDir()
	asked := 0
	read := func(pack []byte, most int64) (n int, err error) {
		err = ReadPack(bytes.NewReader(pack), most, func(id ID) (Object, error) {
			asked++
			return base.Read(id, most)
		}, func(o Object) error {
			n++
			_, err := WriteLoose(to, o, false)
			return err
		})
		return n, err
	}
	n, err := read(thin, 1<<24)
	if err != nil || n != int(binary.BigEndian.Uint32(thin[8:])) || asked == 0 {
		t.Fatalf("%d objects, of which %d are deltas: %v", n, asked, err)
	}
	r.git(nil, "-c", "core.alternateRefsCommand=true", "fsck", "--strict")
	t.Setenv("GIT_ALTERNATE_OBJECT_DIRECTORIES", to)
	for line := range strings.Lines(string(r.git(nil, "rev-list", "--objects", "HEAD", "^HEAD~3"))) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		id, _ := ParseID(name)
		want, err := base.Read(id, 1<<20)
		got, gotErr := readLoose(looseFile(to, id), 1<<20)
		if err != nil || gotErr != nil || got.Kind != want.Kind || !bytes.Equal(got.Content, want.Content) {
			t.Errorf("%s: %v, %v", id, err, gotErr)
		}
	}
	if _, err := read(thin, 1000); !errors.Is(err, errLarge) {
		t.Errorf("a pack that is too large: %v", err)
	}
	for at := range thin { // whatever a bit does, there is an error
		broken := bytes.Clone(thin)
		broken[at] ^= 1 << (at % 8)
		if _, err := read(broken, 1<<24); err == nil {
			t.Fatalf("a flipped bit in byte %d was not seen", at)
		}
	}
	if _, err := read(append(bytes.Clone(thin), 0), 1<<24); err == nil {
		t.Error("a byte behind the pack was not seen")
	}
}

// A pack that is written here is one that git takes.
func TestGitReadsWhatIsWritten(t *testing.T) {
	r := newRepository(t)
	s := r.open()
	var all []Object
	for id := range r.all() {
		o, err := s.Read(id, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	var pack bytes.Buffer
	writePack(t, &pack, all)
	other := repository{t, t.TempDir()}
	other.git(nil, "init", "-q")
	other.git(pack.Bytes(), "unpack-objects", "-q", "--strict")
	if there := other.all(); len(there) != len(all) {
		t.Errorf("git has %d of %d objects", len(there), len(all))
	}
	loose := repository{t, t.TempDir()}
	loose.git(nil, "init", "-q")
	for _, o := range all {
		if _, err := WriteLoose(loose.objects(), o, true); err != nil {
			t.Fatal(err)
		}
	}
	loose.git(nil, "fsck", "--strict")
	loose.check()
}

func writePack(t testing.TB, w io.Writer, all []Object) {
	t.Helper()
	if err := WritePack(w, all); err != nil {
		t.Fatal(err)
	}
}

func TestDeltas(t *testing.T) {
	base := []byte("0123456789")
	for name, c := range map[string]struct {
		delta string
		want  string
		fails bool
	}{
		"copy":           {"\x0a\x04\x91\x02\x04", "2345", false},
		"insert":         {"\x0a\x03\x03abc", "abc", false},
		"both":           {"\x0a\x05\x90\x03\x02ab", "012ab", false},
		"nothing":        {"\x0a\x00", "", false},
		"another base":   {"\x0b\x03\x03abc", "", true},
		"too short":      {"\x0a\x04\x03abc", "", true},
		"too long":       {"\x0a\x02\x03abc", "", true},
		"beyond":         {"\x0a\x04\x91\x08\x04", "", true},
		"reserved":       {"\x0a\x01\x00a", "", true},
		"cut off":        {"\x0a\x03\x03ab", "", true},
		"cut off copy":   {"\x0a\x03\x91", "", true},
		"no size":        {"\x0a", "", true},
		"impossible":     {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "", true},
		"64 KiB of less": {"\x0a\x80\x80\x04\x80", "", true},
	} {
		got, err := applyDelta(base, []byte(c.delta), 1<<20)
		if string(got) != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// A delta that is made here makes of the one version the other.
func sameByDelta(t *testing.T, old, now []byte) {
	d, ok := Delta(old, now)
	if !ok {
		if len(now) <= maxMiddle {
			t.Errorf("there is none from %d to %d bytes", len(old), len(now))
		}
		return
	}
	if got, err := applyDelta(old, d, int64(len(now))); err != nil || !bytes.Equal(got, now) {
		t.Errorf("%d bytes of another content, want %d: %v", len(got), len(now), err)
	}
}

func TestDeltaOfVersions(t *testing.T) {
	a, large := bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("0123456789"), 4_000_000)
	for _, pair := range [][2][]byte{
		{nil, []byte("x")}, {[]byte("x"), nil}, {a, a[1:]}, {a[1:], a}, {a, append(slices.Clone(a), 'b')}, {a, append([]byte("b"), a...)},
		{a, slices.Concat(a[:50_000], []byte("middle"), a[50_001:])}, {large, append(slices.Clone(large), "end"...)},
	} {
		sameByDelta(t, pair[0], pair[1])
	}
	if _, ok := Delta(large, bytes.ToUpper(bytes.Repeat([]byte("x"), maxMiddle+1))); ok {
		t.Error("a delta of what is all new")
	}
}

func FuzzMakeDelta(f *testing.F) {
	f.Add([]byte("one\ntwo\n"), []byte("one\n2\ntwo\n"))
	f.Fuzz(sameByDelta)
}

func FuzzReadPack(f *testing.F) {
	var pack bytes.Buffer
	writePack(f, &pack, []Object{{Blob, []byte("some text")}, {Tree, nil}, {Tag, bytes.Repeat([]byte("a"), 100)}})
	f.Add(pack.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 16
		total := 0
		_ = ReadPack(bytes.NewReader(b), most, func(ID) (Object, error) { return Object{Blob, []byte("0123456789")}, nil }, func(o Object) error {
			if total += len(o.Content); total > most || o.Kind < Commit || o.Kind > Tag {
				t.Errorf("%d bytes of %s", total, o.Kind)
			}
			return nil
		})
	})
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte("0123456789"), []byte("\x0a\x05\x90\x03\x02ab"))
	f.Fuzz(func(t *testing.T, base, delta []byte) {
		if out, err := applyDelta(base, delta, 1<<16); err == nil && len(out) > 1<<16 {
			t.Errorf("%d bytes", len(out))
		}
	})
}

// FuzzStore reads a repository whose pack, index and loose file are anything.
func FuzzStore(f *testing.F) {
	f.Add([]byte("PACK\x00\x00\x00\x02"), []byte("\xfftOc\x00\x00\x00\x02"), []byte("x"))
	f.Fuzz(func(t *testing.T, data, index, loose []byte) {
		dir := t.TempDir()
		id := ID{0xab}
		file := looseFile(dir, id)
		err := errors.Join(os.MkdirAll(filepath.Join(dir, "pack"), 0o755), os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, loose, 0o644),
			os.WriteFile(filepath.Join(dir, "pack", "pack-1.pack"), data, 0o644), os.WriteFile(filepath.Join(dir, "pack", "pack-1.idx"), index, 0o644))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			return
		}
		defer s.Close()
		if o, err := s.Read(id, 1<<16); err == nil && len(o.Content) > 1<<16 {
			t.Errorf("%d bytes", len(o.Content))
		}
	})
}
