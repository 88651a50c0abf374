package cachestore

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
)

// flips is how many bytes are flipped in each file of a store, for
// TestGCAfterFlippedByte.
func flips() int {
	if testing.Short() {
		return 2
	}
	return 12
}

// TestGCAfterFlippedByte flips a byte of a small store, collects garbage, and repairs
// from another store. Everything pinned must be readable then, and no more may have been fetched
// than the one piece that was hit, a manifest or a chunk.
func TestGCAfterFlippedByte(t *testing.T) {
	far, dir := openStore(t, t.TempDir()), t.TempDir()
	s := openStore(t, dir)
	want := map[agentbox.Digest][]byte{}
	for i, b := range [][]byte{noise(1, 600<<10), noise(2, 300<<10), bytes.Repeat([]byte("compresses "), 40<<10)} {
		want[putStream(t, s, b).Manifest] = b
		putStream(t, far, b)
		putStream(t, s, noise(uint64(50+i), 400<<10)) // garbage beside it
	}
	image := diskImage(3, 4)
	want[putImage(t, s, image).Manifest] = image
	putImage(t, far, image)
	for d := range want {
		if err := s.Pin(t.Context(), d.Short(), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, pattern := range []string{"packs/*", "images/*", "index/*"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		files = append(files, found...)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Size() == 0 || filepath.Base(file) == "LOCK" {
			continue
		}
		// Headers are where the most depends on a byte.
		places := []int64{0, min(9, info.Size()-1), info.Size() - 1}
		for range flips() {
			places = append(places, rand.Int64N(min(info.Size(), 1<<21)), rand.Int64N(min(info.Size(), 200)))
		}
		for _, at := range places {
			flip(t, file, at)
			checkAfterFlip(t, dir, filepath.Base(file), at, far, want)
			flip(t, file, at)
		}
	}
}

// checkAfterFlip collects garbage in a copy of a damaged store, repairs it and reads everything.
func checkAfterFlip(t *testing.T, dir, file string, at int64, far *Store, want map[agentbox.Digest][]byte) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(copied)
	s, err := Open(t.Context(), Config{Dir: copied, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
	if err != nil {
		t.Errorf("%s at %d: %v", file, at, err)
		return
	}
	defer s.Close()
	if _, err := s.GC(t.Context(), GCOptions{All: true}); err != nil && agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("%s at %d: gc: %v", file, at, err)
	}
	source := newControlledSource(far)
	if _, err := s.Verify(t.Context(), VerifyOptions{Source: source}); err != nil {
		t.Errorf("%s at %d: verify: %v", file, at, err)
	}
	for d, b := range want {
		got, err := tryRead(t.Context(), s, d, source)
		if err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s at %d: %s: %d bytes, %v", file, at, d.Short(), len(got), err)
		}
	}
	if n := source.total(); n > 1 {
		t.Errorf("%s at %d: %d pieces were lost", file, at, n)
	}
	if _, err := s.GC(t.Context(), GCOptions{All: true}); err != nil {
		t.Errorf("%s at %d: gc after the repair: %v", file, at, err)
	}
}
