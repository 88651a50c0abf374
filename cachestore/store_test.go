package cachestore

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// testKey is the same in every test.
var testKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func openStore(t *testing.T, dir string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{Dir: dir, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1}
	for _, f := range change {
		f(&cfg)
	}
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// noise returns bytes that do not compress, the same for the same seed.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	r.Read(b)
	return b
}

// diskImage returns an image with data, zeros, a block that occurs twice, and a short end.
func diskImage(seed uint64, blocks int) []byte {
	b := noise(seed, blocks*blob.BlockSize+12345)
	clear(b[blob.BlockSize : 2*blob.BlockSize])
	copy(b[3*blob.BlockSize:4*blob.BlockSize], b[:blob.BlockSize])
	return b
}

func putImage(t *testing.T, s *Store, b []byte) PutResult {
	t.Helper()
	st, err := s.PutImage(t.Context(), bytes.NewReader(b), int64(len(b)), blob.Info{Kind: blob.Image, MediaType: "application/test"})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func putStream(t *testing.T, s *Store, b []byte) PutResult {
	t.Helper()
	st, err := s.PutStream(t.Context(), bytes.NewReader(b), blob.Info{Kind: blob.Artifact})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func readBlob(t *testing.T, s *Store, d agentbox.Digest, src Source) []byte {
	t.Helper()
	b, err := tryRead(t.Context(), s, d, src)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryRead(ctx context.Context, s *Store, d agentbox.Digest, src Source) ([]byte, error) {
	r, err := s.OpenBlob(ctx, d, src)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
}

func TestPutAndRead(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	image, stream := diskImage(1, 5), noise(2, 9<<20)
	si, ss := putImage(t, s, image), putStream(t, s, stream)
	if !bytes.Equal(readBlob(t, s, si.Manifest, nil), image) || !bytes.Equal(readBlob(t, s, ss.Manifest, nil), stream) {
		t.Fatal("other bytes")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	if !bytes.Equal(readBlob(t, s, si.Manifest, nil), image) || !bytes.Equal(readBlob(t, s, ss.Manifest, nil), stream) {
		t.Fatal("other bytes after a restart")
	}
	r, err := s.OpenBlob(t.Context(), ss.Manifest, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	part := make([]byte, 3<<20)
	if _, err := r.ReadAt(part, 1<<20+1); err != nil || !bytes.Equal(part, stream[1<<20+1:4<<20+1]) {
		t.Fatalf("a part of it: %v", err)
	}
}

func TestDeduplication(t *testing.T) {
	s := openStore(t, t.TempDir())
	image := diskImage(1, 40)
	first := putImage(t, s, image)
	if again := putImage(t, s, image); again.Manifest != first.Manifest || again.Written != 0 {
		t.Fatalf("again: %+v", again)
	}
	copy(image[17*blob.BlockSize+99:], "changed")
	changed := putImage(t, s, image)
	if changed.Manifest == first.Manifest || changed.Written > blob.BlockSize+8<<10 {
		t.Fatalf("one block changed: %+v", changed)
	}
	stream := noise(3, 20<<20)
	putStream(t, s, stream)
	moved := putStream(t, s, append([]byte("something in front"), stream...))
	if moved.Written > 3*blob.MaxChunk {
		t.Fatalf("%d bytes were written for 18 new ones", moved.Written)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	first := diskImage(1, 12)
	second := bytes.Clone(first)
	copy(second[5*blob.BlockSize:], "other")
	putImage(t, s, first)
	d := putImage(t, s, second).Manifest
	path, release, err := s.File(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, second) {
		t.Fatalf("the file is not the image: %v", err)
	}
	to := filepath.Join(t.TempDir(), "copy")
	if err := s.CopyTo(t.Context(), d, to, nil); err != nil {
		t.Fatal(err)
	}
	if got, _ = os.ReadFile(to); !bytes.Equal(got, second) {
		t.Fatal("the copy is not the image")
	}
}

func TestMissingChunksAreFetched(t *testing.T) {
	far, near := openStore(t, t.TempDir()), openStore(t, t.TempDir())
	image, stream := diskImage(4, 8), noise(5, 6<<20)
	for _, d := range []agentbox.Digest{putImage(t, far, image).Manifest, putStream(t, far, stream).Manifest} {
		r, err := near.OpenBlob(t.Context(), d, far)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 10)
		if _, err := r.ReadAt(p, 4<<20); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		before, err := near.Presence(r.fill.m)
		if err != nil || before.Present != 1 {
			t.Fatalf("%d chunks are here after one was read, %v", before.Present, err)
		}
		if err := near.Fetch(t.Context(), d, far, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(readBlob(t, near, putImage(t, near, image).Manifest, nil), image) {
		t.Fatal("other bytes")
	}
}
