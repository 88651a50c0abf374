package storetest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

func directory(t *testing.T, pieces [][]byte) cachestore.Source {
	dir := t.TempDir()
	for _, p := range pieces {
		if err := os.WriteFile(filepath.Join(dir, blob.Sum(p).Hex()), p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cachestore.Directory(dir)
}

func TestDirectory(t *testing.T) {
	TestSource(t, directory)
	TestSession(t, directory)
}

func TestSlow(t *testing.T) {
	slow := func(t *testing.T, pieces [][]byte) cachestore.Source {
		return &Slow{Source: directory(t, pieces), Rate: 1 << 30}
	}
	TestSource(t, slow)
	TestSession(t, slow)
}

func TestStore(t *testing.T) {
	store := func(t *testing.T, pieces [][]byte) cachestore.Source {
		s, err := cachestore.Open(t.Context(), cachestore.Config{Dir: t.TempDir(), ReserveFile: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		for _, p := range pieces {
			if _, err := s.PutStream(t.Context(), bytes.NewReader(p), blob.Info{Kind: blob.Artifact}); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	TestSource(t, store)
	TestSession(t, store)
}

// TestExport has a blob travel through a directory, by way of a slow link.
func TestExport(t *testing.T) {
	open := func() *cachestore.Store {
		s, err := cachestore.Open(t.Context(), cachestore.Config{Dir: t.TempDir(), ReserveFile: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	from, to, dir := open(), open(), t.TempDir()
	b := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	st, err := from.PutImage(t.Context(), bytes.NewReader(b), int64(len(b)), blob.Info{Kind: blob.Image})
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Export(t.Context(), st.Manifest, dir, nil); err != nil {
		t.Fatal(err)
	}
	src := &Slow{Source: cachestore.Directory(dir)}
	path, release, err := to.File(t.Context(), st.Manifest, src)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if src.Bytes() > 2<<20 {
		t.Errorf("%d bytes came for three blocks and a manifest", src.Bytes())
	}
}
