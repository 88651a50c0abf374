package cachestore

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

var otherKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))

// flip inverts one bit of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyRepairsDamage(t *testing.T) {
	far := openStore(t, t.TempDir())
	s := openStore(t, t.TempDir())
	image, stream := diskImage(1, 6), noise(2, 3<<20)
	var digests []agentbox.Digest
	for _, st := range []*Store{far, s} {
		digests = []agentbox.Digest{putImage(t, st, image).Manifest, putStream(t, st, stream).Manifest}
	}
	if err := s.Pin(t.Context(), "p", digests...); err != nil {
		t.Fatal(err)
	}
	path, release, err := s.File(t.Context(), digests[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	flip(t, path, 4*blob.BlockSize+77)
	packs, _ := filepath.Glob(s.path(packsDir, "*"))
	flip(t, packs[0], 2<<20)
	for _, d := range digests {
		if _, err := tryRead(t.Context(), s, d, nil); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Fatalf("a flipped bit reads as %v", err)
		}
	}
	rep, err := s.Verify(t.Context(), VerifyOptions{})
	if err != nil || len(rep.Damaged) != 2 || len(rep.Missing) != 2 || rep.Repaired != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	dir := s.cfg.Dir
	s.Close()
	s = openStore(t, dir)
	if len(s.Damaged()) != 2 {
		t.Fatal("damage is forgotten")
	}
	rep, err = s.Verify(t.Context(), VerifyOptions{Source: far})
	if err != nil || len(rep.Damaged) != 0 || rep.Repaired != 2 || len(rep.Missing) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if !bytes.Equal(readBlob(t, s, digests[0], nil), image) || !bytes.Equal(readBlob(t, s, digests[1], nil), stream) {
		t.Fatal("repaired with other bytes")
	}
	// A box that has the file attached sees the repaired block.
	if got, _ := os.ReadFile(path); !bytes.Equal(got, image) {
		t.Fatal("the image's file was not repaired in its place")
	}
}

func TestReaderRepairsFromSource(t *testing.T) {
	far, s := openStore(t, t.TempDir()), openStore(t, t.TempDir())
	image := diskImage(3, 6)
	d := putImage(t, far, image).Manifest
	putImage(t, s, image)
	files, _ := filepath.Glob(s.path(imagesDir, "*"))
	flip(t, files[0], 2*blob.BlockSize)
	if !bytes.Equal(readBlob(t, s, d, far), image) || len(s.Damaged()) != 0 {
		t.Fatalf("damage: %+v", s.Damaged())
	}
	flip(t, files[0], 5*blob.BlockSize)
	if _, _, err := s.File(t.Context(), d, nil); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Fatalf("a damaged image is attached: %v", err)
	}
	path, release, err := s.File(t.Context(), d, far)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got, _ := os.ReadFile(path); !bytes.Equal(got, image) {
		t.Fatal("other bytes")
	}
}

func TestRebuild(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	base := diskImage(1, 6)
	derived := bytes.Clone(base)
	copy(derived[2*blob.BlockSize:], "x")
	stream := bytes.Repeat([]byte("compresses well "), 1<<18)
	want := map[agentbox.Digest][]byte{
		putImage(t, s, base).Manifest: base, putImage(t, s, derived).Manifest: derived, putStream(t, s, stream).Manifest: stream,
	}
	for d := range want {
		if err := s.Pin(t.Context(), d.Short(), d); err != nil {
			t.Fatal(err)
		}
	}
	check := func(s *Store) {
		t.Helper()
		for d, b := range want {
			if !bytes.Equal(readBlob(t, s, d, nil), b) {
				t.Fatal("other bytes")
			}
		}
		gc(t, s, GCOptions{All: true})
		for d, b := range want {
			if !bytes.Equal(readBlob(t, s, d, nil), b) {
				t.Fatal("other bytes after gc")
			}
		}
	}
	s.Close()
	if err := os.RemoveAll(filepath.Join(dir, indexDir)); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir)
	check(s)
	s.Close()
	// One bit in badger's list of files.
	flip(t, filepath.Join(dir, indexDir, "MANIFEST"), 12)
	s = openStore(t, dir)
	check(s)
	bad, _ := filepath.Glob(filepath.Join(dir, badIndexPrefix+"*"))
	if len(bad) != 1 {
		t.Fatalf("the unreadable index was not put aside: %v", bad)
	}
}

// TestFlippedBitInAnyFile flips bits in all parts of every kind of file. Afterwards reads return
// the right bytes or an error.
func TestFlippedBitInAnyFile(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	image, stream := diskImage(1, 4), bytes.Repeat(noise(2, 1000), 3000)
	want := map[agentbox.Digest][]byte{putImage(t, s, image).Manifest: image, putStream(t, s, stream).Manifest: stream}
	for d := range want {
		if err := s.Pin(t.Context(), d.Short(), d); err != nil {
			t.Fatal(err)
		}
		n := blob.Name{Namespace: "image", Key: d.Short(), Manifest: d, Scope: blob.Local}
		if _, err := s.Publish(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetQuota(Quota{Total: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	var files []string
	filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			files = append(files, path)
		}
		return nil
	})
	if len(files) < 9 {
		t.Fatalf("only %v", files)
	}
	for _, file := range files {
		info, _ := os.Stat(file)
		places := []int64{0, info.Size() / 3, info.Size() - 1}
		if testing.Short() {
			places = places[1:2]
		}
		for _, at := range places {
			flip(t, file, at)
			checkSurvives(t, dir, filepath.Base(file), want)
			if _, err := os.Stat(file); err == nil {
				flip(t, file, at)
			}
		}
	}
}

// checkSurvives opens a damaged store and reads everything. Results must be right, or an error that
// says what is wrong.
func checkSurvives(t *testing.T, dir, damaged string, want map[agentbox.Digest][]byte) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{Dir: copied, Key: testKey, ReserveFile: -1, Grace: -1, KeepFree: 1})
	if err != nil {
		if agentbox.CodeOf(err) == agentbox.Internal {
			t.Errorf("%s: %v", damaged, err)
		}
		return
	}
	defer s.Close()
	for d, b := range want {
		got, err := tryRead(t.Context(), s, d, nil)
		if err == nil && !bytes.Equal(got, b) {
			t.Errorf("%s: wrong bytes were read", damaged)
		}
		if err != nil && agentbox.CodeOf(err) == agentbox.Internal {
			t.Errorf("%s: %v", damaged, err)
		}
		if n, err := s.Lookup("image", d.Short()); err == nil && n.Manifest != d {
			t.Errorf("%s: the name stands for something else", damaged)
		}
	}
	// An unreadable pin needs a person's attention, so an error with a hint is allowed.
	if _, err := s.Verify(t.Context(), VerifyOptions{Rebuild: true}); err != nil && agentbox.AsError(err).Hint == "" {
		t.Errorf("%s: verify: %v", damaged, err)
	}
}
