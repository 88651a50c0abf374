package cachestore

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/index"
)

// fingerprints counts what the index remembers.
func fingerprints(t *testing.T, s *Store) (n int) {
	t.Helper()
	err := s.index.EachFingerprint(t.Context(), func(f blob.Fingerprint, d agentbox.Digest) error {
		n++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// addWrongFingerprint makes the index remember a digest for the bytes of another chunk, which
// nothing but a broken disk can do.
func addWrongFingerprint(t *testing.T, s *Store, p []byte, d agentbox.Digest) {
	t.Helper()
	var b index.Batch
	b.SetFingerprint(s.fingerprints.Sum(p), d)
	if err := s.index.Apply(&b); err != nil {
		t.Fatal(err)
	}
}

func TestFingerprintIsUsedForStoredChunks(t *testing.T) {
	s := openStore(t, t.TempDir())
	here, fresh := noise(1, blob.BlockSize), noise(2, blob.BlockSize)
	putImage(t, s, here)
	addWrongFingerprint(t, s, fresh, blob.Sum(here))
	d := putImage(t, s, fresh).Manifest
	if !bytes.Equal(readBlob(t, s, d, nil), here) {
		t.Fatal("a chunk that is here was hashed again")
	}
	other := noise(3, blob.BlockSize)
	addWrongFingerprint(t, s, other, blob.Sum([]byte("what is not here")))
	d = putImage(t, s, other).Manifest
	if !bytes.Equal(readBlob(t, s, d, nil), other) {
		t.Fatal("a chunk was stored under a digest that is not its own")
	}
}

func TestFingerprintsAreCollected(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	image, stream := diskImage(1, 6), noise(2, 3<<20)
	kept, gone := putImage(t, s, image), putStream(t, s, stream)
	if err := s.Pin(t.Context(), "p", kept.Manifest); err != nil {
		t.Fatal(err)
	}
	all := fingerprints(t, s)
	s.Close()
	s = openStore(t, dir)
	for _, p := range [][]byte{image[:blob.BlockSize], image[6*blob.BlockSize:]} {
		if d, ok, err := s.index.LookupFingerprint(s.fingerprints.Sum(p)); !ok || d != blob.Sum(p) || err != nil {
			t.Fatalf("after a restart %s, %v, %v", d.Short(), ok, err)
		}
	}
	gc(t, s, GCOptions{All: true})
	if _, err := s.Manifest(t.Context(), gone.Manifest); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Fatal(err)
	}
	if n := fingerprints(t, s); n != 5 || n >= all {
		t.Fatalf("%d of %d fingerprints for the 5 chunks that stay", n, all)
	}
	s.Close()
	if err := os.RemoveAll(filepath.Join(dir, indexDir)); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	if d, ok, _ := s.index.LookupFingerprint(s.fingerprints.Sum(image[:blob.BlockSize])); !ok || d != blob.Sum(image[:blob.BlockSize]) {
		t.Fatal("an index that was made anew knows no fingerprint")
	}
}

func TestPutReplacesDamage(t *testing.T) {
	s := openStore(t, t.TempDir())
	image := diskImage(1, 6)
	d := putImage(t, s, image).Manifest
	files, _ := filepath.Glob(s.path(imagesDir, "*"))
	flip(t, files[0], 4*blob.BlockSize+77)
	to := filepath.Join(t.TempDir(), "copy")
	if err := s.CopyTo(t.Context(), d, to, nil); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Fatalf("a flipped bit was copied: %v", err)
	}
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Fatalf("a copy that failed is left: %v", err)
	}
	putImage(t, s, image)
	if !bytes.Equal(readBlob(t, s, d, nil), image) || len(s.Damaged()) != 0 {
		t.Fatalf("not repaired: %+v", s.Damaged())
	}
}
