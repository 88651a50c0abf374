package objects

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// index indexes a pack in a new directory, and returns that, with what it was told of structure.
func index(t testing.TB, pack []byte, most int64) (dir string, told []Object, err error) {
	t.Helper()
	dir = t.TempDir()
	raw, err := os.Create(filepath.Join(dir, "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	r := bytes.NewReader(pack)
	err = Index(t.Context(), r, raw, most, func(o Object) error { told = append(told, o); return nil })
	if err == nil {
		return dir, told, nil
	}
	kept, readErr := os.ReadFile(raw.Name())
	rest, _ := io.ReadAll(r)
	if readErr != nil || !bytes.Equal(append(kept, rest...), pack) {
		t.Errorf("after %v the file has other bytes than were read: %v", err, readErr)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) > 1 {
		t.Errorf("after %v there are %v", err, names)
	}
	return dir, told, err
}

// packed is a pack of all that a repository has, with deltas.
func (r repository) packed(more ...string) []byte {
	return r.git(nil, append([]string{"pack-objects", "--all", "--stdout", "-q", "--delta-base-offset", "--depth=50", "--window=50", "--no-reuse-delta"}, more...)...)
}

// The index of a pack is the same that git makes.
func TestIndexIsThatOfGit(t *testing.T) {
	r := newRepository(t)
	pack := r.packed()
	theirs := filepath.Join(t.TempDir(), "theirs")
	r.git(pack, "index-pack", "--stdin", "-o", theirs+".idx", theirs+".pack")
	dir, told, err := index(t, pack, int64(len(pack)))
	if err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "pack-*.idx"))
	got, err := os.ReadFile(names[0])
	want, wantErr := os.ReadFile(theirs + ".idx")
	if err != nil || wantErr != nil || len(names) != 1 || !bytes.Equal(got, want) {
		t.Errorf("%v: %d bytes, git's has %d: %v, %v", names, len(got), len(want), err, wantErr)
	}
	r.git(nil, "verify-pack", names[0])
	blobs := 0
	for _, kind := range r.all() {
		if kind == "blob" {
			blobs++
		}
	}
	if len(told)+blobs != len(r.all()) || slices.ContainsFunc(told, func(o Object) bool { return o.Kind == Blob }) {
		t.Errorf("told of %d objects, of %d, %d of them blobs", len(told), len(r.all()), blobs)
	}
}

// What cannot be indexed here is left as it came.
func TestIndexLeavesToGit(t *testing.T) {
	r := newRepository(t)
	pack := r.packed()
	for name, b := range map[string][]byte{
		"named bases": r.git(nil, "pack-objects", "--all", "--stdout", "-q", "--depth=50", "--window=50", "--no-reuse-delta"),
		"cut off":     pack[:len(pack)/2],
		"no sum":      pack[:len(pack)-5],
		"more behind": append(slices.Clone(pack), 'x'),
		"no pack":     []byte("no pack at all, but long enough"),
		"empty":       nil,
		"many":        binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), MaxIndexed+1),
	} {
		if _, _, err := index(t, b, int64(len(pack))); err == nil {
			t.Errorf("%s was indexed", name)
		}
	}
	if _, _, err := index(t, pack, int64(len(pack))-1); err == nil {
		t.Error("a pack that is larger than allowed was indexed")
	}
	var twice bytes.Buffer
	writePack(t, &twice, []Object{{Blob, []byte("one")}, {Blob, []byte("one")}})
	if _, _, err := index(t, twice.Bytes(), 1<<20); !errors.Is(err, errIndexed) {
		t.Errorf("an object twice: %v", err)
	}
	var small bytes.Buffer
	writePack(t, &small, []Object{{Blob, []byte("some text")}, {Tree, nil}, {Tag, bytes.Repeat([]byte("a"), 100)}})
	b := small.Bytes()
	for at := range b {
		b[at] ^= 1 << (at % 8)
		if _, _, err := index(t, b, 1<<20); err == nil {
			t.Errorf("indexed with a flipped bit in byte %d", at)
		}
		b[at] ^= 1 << (at % 8)
	}
}

// An index also knows objects beyond 2 GiB, which no test makes.
func TestIndexOfFarObjects(t *testing.T) {
	ix := &indexing{entries: []indexed{{at: 12, id: ID{1}}, {at: 1 << 33, id: ID{2}}, {at: 1<<31 + 5, id: ID{3}}}}
	text, err := ix.index(make([]byte, 20))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "far")
	if err := errors.Join(os.WriteFile(name+".idx", text, 0o644), os.WriteFile(name+".pack", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	p, err := openPack(name)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, e := range ix.entries {
		if at, ok, err := p.find(e.id); at != e.at || !ok || err != nil {
			t.Errorf("%s is at %d, want %d: %v, %v", e.id, at, e.at, ok, err)
		}
	}
}

// FuzzIndex gives it any pack.
func FuzzIndex(f *testing.F) {
	var pack bytes.Buffer
	writePack(f, &pack, []Object{{Blob, []byte("some text")}, {Tree, nil}, {Tag, bytes.Repeat([]byte("a"), 100)}})
	f.Add(pack.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		dir, _, err := index(t, b, 1<<16)
		if err != nil {
			return
		}
		if names, _ := filepath.Glob(filepath.Join(dir, "pack-*")); len(names) != 2 {
			t.Errorf("it left %v", names)
		}
	})
}
