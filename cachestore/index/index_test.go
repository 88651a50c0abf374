package index

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

func open(t *testing.T, dir string) *Index {
	t.Helper()
	x, err := Open(dir, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return x
}

func digest(i int) agentbox.Digest { return blob.Sum(fmt.Append(nil, i)) }

func TestWhatWasAppliedIsThere(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	var b Batch
	const n = 5000 // more than one transaction takes
	for i := range n {
		b.SetChunk(digest(i), Place{File: uint64(i), Off: int64(i), Stored: 1, Size: 2, Encoding: blob.Zstd, Seen: 3})
	}
	m := Meta{Kind: blob.Image, Size: 5, Created: time.Unix(1, 0).UTC(), Used: time.Unix(2, 0).UTC(), File: 7, Whole: true}
	if err := b.SetMeta(digest(1), m); err != nil {
		t.Fatal(err)
	}
	b.DropChunk(digest(4))
	if err := x.Apply(&b); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if got, ok, err := x.Meta(digest(1)); err != nil || !ok || got != m {
		t.Fatalf("%+v, %v, %v", got, ok, err)
	}
	if _, ok, err := x.Chunk(digest(4)); ok || err != nil {
		t.Fatalf("removed, and %v, %v", ok, err)
	}
	count := 0
	err := x.EachChunk(t.Context(), func(d agentbox.Digest, p Place) error {
		if d != digest(int(p.File)) {
			return fmt.Errorf("%s is file %d", d, p.File)
		}
		count++
		return nil
	})
	if err != nil || count != n-1 {
		t.Fatalf("%d, %v", count, err)
	}
}

func TestNothingIsWrittenWithoutRoom(t *testing.T) {
	full := agentbox.Errorf(agentbox.NoSpace, "full")
	room := error(nil)
	x, err := Open(t.TempDir(), func() error { return room })
	if err != nil {
		t.Fatal(err)
	}
	room = full
	var b Batch
	b.SetChunk(digest(1), Place{})
	if err := x.Apply(&b); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Fatal(err)
	}
	room = nil
	if _, ok, _ := x.Chunk(digest(1)); ok {
		t.Fatal("written all the same")
	}
	x.Close()
}

func TestFingerprintsGoWithTheSecret(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	secret := x.Secret()
	if secret == (blob.FingerprintKey{}) || secret == open(t, t.TempDir()).Secret() {
		t.Fatalf("not a secret: %x", secret)
	}
	f := blob.Fingerprint{1}
	var b Batch
	b.Remember(f, digest(1))
	if err := errors.Join(x.Apply(&b), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if d, ok, err := x.Known(f); d != digest(1) || !ok || err != nil || x.Secret() != secret {
		t.Fatalf("after a restart: %s, %v, %v", d, ok, err)
	}
	damaged := Batch{changes: []change{{secretKey, seal(secretKey, []byte("too short"))}}}
	if err := errors.Join(x.Apply(&damaged), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if _, ok, err := x.Known(f); ok || err != nil || x.Secret() == secret {
		t.Fatalf("the secret is lost, and a fingerprint is not: %v, %v", ok, err)
	}
}

func TestAFlippedBitIsNoAnswer(t *testing.T) {
	k := key(chunkKey, digest(1))
	good := seal(k, encodePlace(Place{File: 1, Off: 2, Stored: 3, Size: 4}))
	if _, ok := unseal(k, good); !ok {
		t.Fatal("a good value is refused")
	}
	for i := range len(good) * 8 {
		bad := append([]byte(nil), good...)
		bad[i/8] ^= 1 << (i % 8)
		if _, ok := unseal(k, bad); ok {
			t.Fatalf("bit %d", i)
		}
	}
	if _, ok := unseal(key(chunkKey, digest(2)), good); ok {
		t.Fatal("the value of another key")
	}
}

func FuzzPlace(f *testing.F) {
	f.Add(encodePlace(Place{Image: true, File: 1, Off: 2, Stored: 3, Size: 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := decodePlace(b); ok && string(encodePlace(p)) != string(b) {
			t.Fatalf("%x is read as %+v", b, p)
		}
	})
}

func FuzzMeta(f *testing.F) {
	b, _ := encodeMeta(Meta{Kind: blob.Image})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := decodeMeta(b); ok && (!m.Kind.Valid() || m.Size < 0) {
			t.Fatalf("%+v", m)
		}
	})
}
