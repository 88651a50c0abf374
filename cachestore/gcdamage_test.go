package cachestore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/cachestore/pack"
)

// damageIndex flips a bit of the value of one key of the index of a closed store, as badger was
// seen to do without an error. sort is 'c' for a chunk, 'm' for a manifest.
func damageIndex(t *testing.T, dir string, sort byte, d agentbox.Digest) {
	t.Helper()
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, indexDir)).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte{sort}, d[:]...)
	err = db.Update(func(tx *badger.Txn) error {
		item, err := tx.Get(key)
		if err != nil {
			return err
		}
		v, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		v[len(v)/2] ^= 4
		return tx.Set(key, v)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// recordAt finds the header of a piece's record in the packs of a store.
func recordAt(t *testing.T, s *Store, d agentbox.Digest) (file string, at int64) {
	t.Helper()
	packs, _ := filepath.Glob(s.path(packsDir, "*"))
	for _, name := range packs {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		err = pack.Scan(bytes.NewReader(b), int64(len(b)), func(r pack.Record, off int64) (bool, error) {
			if r.Digest == d {
				file, at = name, off-pack.HeaderSize
			}
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if file == "" {
		t.Fatalf("%s is in no pack", d.Short())
	}
	return file, at
}

// chunkOf is the digest of chunk i of a blob.
func chunkOf(t *testing.T, s *Store, manifest agentbox.Digest, i int) agentbox.Digest {
	t.Helper()
	m, err := s.Manifest(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	return m.Chunks[i].Digest
}

// pinnedBesideGarbage is a store with a stream that is pinned, and another that is not: gc moves
// the first out of the pack of both.
func pinnedBesideGarbage(t *testing.T) (s *Store, pinned []byte, manifest agentbox.Digest) {
	t.Helper()
	s, pinned = openStore(t, t.TempDir()), noise(1, 200<<10)
	manifest = putStream(t, s, pinned).Manifest
	if err := s.Pin(t.Context(), "p", manifest); err != nil {
		t.Fatal(err)
	}
	putStream(t, s, noise(2, 1<<20))
	return s, pinned, manifest
}

func TestGCMovesPieceWithDamagedHeader(t *testing.T) {
	s, pinned, manifest := pinnedBesideGarbage(t)
	file, at := recordAt(t, s, chunkOf(t, s, manifest, 0))
	flip(t, file, at+2)
	if r := gc(t, s, GCOptions{All: true}); r.Freed < 1<<20 {
		t.Fatalf("nothing was moved: %+v", r)
	}
	if !bytes.Equal(readBlob(t, s, manifest, nil), pinned) {
		t.Error("other bytes")
	}
	// The header was made anew with it.
	if rep, err := s.Verify(t.Context(), VerifyOptions{Rebuild: true}); err != nil || len(rep.Missing) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	recordAt(t, s, chunkOf(t, s, manifest, 0))
}

// TestGCKeepsChunksOfDamagedEntry has an entry of the index damaged: the bytes are in the files,
// and a gc must not take them for garbage.
func TestGCKeepsChunksOfDamagedEntry(t *testing.T) {
	image := diskImage(5, 4)
	for name, sort := range map[string]byte{"chunk": 'c', "manifest's claim": 'c', "manifest": 'm'} {
		t.Run(name, func(t *testing.T) {
			s, pinned, manifest := pinnedBesideGarbage(t)
			img := putImage(t, s, image).Manifest
			if err := s.Pin(t.Context(), "i", img); err != nil {
				t.Fatal(err)
			}
			entries := []agentbox.Digest{manifest, img}
			if name == "chunk" {
				entries = []agentbox.Digest{chunkOf(t, s, manifest, 0), chunkOf(t, s, img, 0)}
			}
			dir := s.cfg.Dir
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for _, d := range entries {
				damageIndex(t, dir, sort, d)
			}
			s = openStore(t, dir)
			gc(t, s, GCOptions{All: true})
			if !bytes.Equal(readBlob(t, s, manifest, nil), pinned) || !bytes.Equal(readBlob(t, s, img, nil), image) {
				t.Error("other bytes")
			}
			lost := s.index.Damaged()
			if gc(t, s, GCOptions{All: true}); s.index.Damaged() != lost {
				t.Error("the index is damaged still")
			}
		})
	}
}

// TestGCWithDamagedManifest has the list of a pinned blob's chunks damaged. Until it is
// repaired nobody knows which chunks it needs.
func TestGCWithDamagedManifest(t *testing.T) {
	far := openStore(t, t.TempDir())
	s, pinned, manifest := pinnedBesideGarbage(t)
	putStream(t, far, pinned)
	file, at := recordAt(t, s, manifest)
	flip(t, file, at+pack.HeaderSize+5)
	_, err := s.GC(t.Context(), GCOptions{All: true})
	if agentbox.CodeOf(err) != agentbox.Corrupt || agentbox.AsError(err).Hint == "" {
		t.Errorf("gc: %v", err)
	}
	wire := newControlledSource(far)
	if rep, err := s.Verify(t.Context(), VerifyOptions{Source: wire}); err != nil || len(rep.Damaged) != 0 || len(rep.Missing) != 0 {
		t.Errorf("%+v, %v", rep, err)
	}
	if !bytes.Equal(readBlob(t, s, manifest, nil), pinned) || wire.total() != 1 {
		t.Errorf("%d pieces had to be fetched", wire.total())
	}
	if r := gc(t, s, GCOptions{All: true}); r.Freed < 1<<20 {
		t.Errorf("%+v", r)
	}
}

// TestInterruptedRebuildContinues has the daemon end while it makes a lost index anew: the next one
// must not take what was not claimed yet for garbage.
func TestInterruptedRebuildContinues(t *testing.T) {
	for how, lose := range map[string]func(dir string) error{
		"removed": func(dir string) error { return os.RemoveAll(filepath.Join(dir, indexDir)) },
		"unreadable": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, indexDir, "MANIFEST"), []byte("nothing"), 0o600)
		},
	} {
		t.Run(how, func(t *testing.T) {
			s, pinned, manifest := pinnedBesideGarbage(t)
			dir := s.cfg.Dir
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := lose(dir); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if s, err := Open(ctx, Config{Dir: dir, Key: testKey, ReserveFile: -1, KeepFree: 1}); err == nil {
				s.Close()
				t.Fatal("it was not interrupted")
			}
			s = openStore(t, dir)
			gc(t, s, GCOptions{All: true})
			if !bytes.Equal(readBlob(t, s, manifest, nil), pinned) {
				t.Error("other bytes")
			}
		})
	}
}

// TestRebuildKeepsImageFile loses what the index knows of an image whose file a box has attached. The
// image must not get a second file: gc would make holes in the first.
func TestRebuildKeepsImageFile(t *testing.T) {
	s, image := openStore(t, t.TempDir()), diskImage(5, 4)
	d := putImage(t, s, image).Manifest
	if err := s.Pin(t.Context(), "box", d); err != nil {
		t.Fatal(err)
	}
	path, release, err := s.File(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	dir := s.cfg.Dir
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	damageIndex(t, dir, 'm', d)
	s = openStore(t, dir)
	again, release, err := s.File(t.Context(), d, nil)
	if err != nil || again != path {
		t.Fatalf("%s, %v; it was %s", again, err, path)
	}
	release()
	gc(t, s, GCOptions{All: true})
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, image) {
		t.Errorf("the file of a pinned image was changed: %v", err)
	}
}

// TestPutAgainKeepsImageFile has a block of a pinned image damaged, and the image stored
// again: the file that a box has attached must stay the image's.
func TestPutAgainKeepsImageFile(t *testing.T) {
	s, image := openStore(t, t.TempDir()), diskImage(5, 4)
	d := putImage(t, s, image).Manifest
	if err := s.Pin(t.Context(), "box", d); err != nil {
		t.Fatal(err)
	}
	path, release, err := s.File(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	flip(t, path, 2*blob.BlockSize+9)
	if _, err := s.Verify(t.Context(), VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	putImage(t, s, image)
	gc(t, s, GCOptions{All: true})
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got[:2*blob.BlockSize], image[:2*blob.BlockSize]) || !bytes.Equal(got[3*blob.BlockSize:], image[3*blob.BlockSize:]) {
		t.Errorf("the file of a pinned image was changed: %v", err)
	}
	again, release, err := s.File(t.Context(), d, nil)
	if err != nil || again != path {
		t.Fatalf("%s, %v; it was %s", again, err, path)
	}
	release()
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, image) {
		t.Errorf("other bytes: %v", err)
	}
}

// TestRepairChecksQuarantineRecord has the record of a damaged block damaged, too.
func TestRepairChecksQuarantineRecord(t *testing.T) {
	far, s, image := openStore(t, t.TempDir()), openStore(t, t.TempDir()), diskImage(5, 4)
	d := putImage(t, far, image).Manifest
	putImage(t, s, image)
	path, release, err := s.File(t.Context(), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	flip(t, path, 2*blob.BlockSize+9)
	if _, err := s.Verify(t.Context(), VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	dmg := s.Damaged()[0]
	dmg.Offset = 77
	if err := s.quarantine.add(dmg); err != nil {
		t.Fatal(err)
	}
	if rep, err := s.Verify(t.Context(), VerifyOptions{Source: far}); err != nil || len(rep.Damaged) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got[:2*blob.BlockSize], image[:2*blob.BlockSize]) {
		t.Error("another block was written over")
	}
	if !bytes.Equal(readBlob(t, s, d, nil), image) {
		t.Error("other bytes")
	}
}

// TestFailedPutIsNotCharged has many blobs of a kind fail half-way, as when a source breaks
// off: what they wrote is garbage, and must not count against the kind's quota for ever.
func TestFailedPutIsNotCharged(t *testing.T) {
	s := openStore(t, t.TempDir())
	for i := range uint64(3) {
		r := &breaking{bytes.NewReader(noise(i, 20<<20))}
		if _, err := s.PutStream(t.Context(), r, blob.Info{Kind: blob.Cache}); !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	gc(t, s, GCOptions{All: true})
	if u, err := s.Usage(t.Context()); err != nil || u.Kinds[blob.Cache] != 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

var errBroken = errors.New("it broke off")

// breaking is a reader that fails where it should end.
type breaking struct{ r *bytes.Reader }

func (b *breaking) Read(p []byte) (int, error) {
	if b.r.Len() == 0 {
		return 0, errBroken
	}
	return b.r.Read(p)
}

// TestRebuildCharges has the index made anew: quotas of kinds must go on to count.
func TestRebuildCharges(t *testing.T) {
	s, _, _ := pinnedBesideGarbage(t)
	before, err := s.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := s.cfg.Dir
	s.Close()
	if err := os.RemoveAll(filepath.Join(dir, indexDir)); err != nil {
		t.Fatal(err)
	}
	after, err := openStore(t, dir).Usage(t.Context())
	if err != nil || after.Kinds[blob.Artifact] != before.Kinds[blob.Artifact] {
		t.Errorf("%v, charged were %v, %v", after.Kinds, before.Kinds, err)
	}
}

// TestUnreadableNameIsRoot has the disk fail to give a name: that says nothing of what
// it keeps.
func TestUnreadableNameIsRoot(t *testing.T) {
	s := openStore(t, t.TempDir())
	d := putStream(t, s, noise(1, 1000)).Manifest
	if _, err := s.Publish(t.Context(), blob.Name{Namespace: "image", Key: "k", Manifest: d, Scope: blob.Local, Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	// A link to itself fails to open with an error that is none of a damaged name.
	name := s.path(namesDir, nameFile("image", "k"))
	if err := errors.Join(os.Rename(name, name+"-kept"), os.Symlink(name, name)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+"-kept", filepath.Join(t.TempDir(), "kept")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GC(t.Context(), GCOptions{All: true}); err == nil {
		t.Error("gc went on without knowing what is named")
	}
	if _, err := s.Manifest(t.Context(), d); err != nil {
		t.Errorf("what the name kept is gone: %v", err)
	}
}
