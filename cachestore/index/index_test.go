package index

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/tools/suites/golden"
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

func TestApply(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	var b Batch
	const n = 5000 // more than fit into one transaction
	for i := range n {
		b.SetChunk(digest(i), Location{File: uint64(i), Off: int64(i), Stored: 1, Size: 2, Encoding: blob.Zstd, Seen: 3})
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
	err := x.EachChunk(t.Context(), func(d agentbox.Digest, p Location) error {
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

func TestApplyWithoutRoom(t *testing.T) {
	full := agentbox.Errorf(agentbox.NoSpace, "full")
	room := error(nil)
	x, err := Open(t.TempDir(), func() error { return room })
	if err != nil {
		t.Fatal(err)
	}
	room = full
	var b Batch
	b.SetChunk(digest(1), Location{})
	if err := x.Apply(&b); agentbox.CodeOf(err) != agentbox.NoSpace {
		t.Fatal(err)
	}
	room = nil
	if _, ok, _ := x.Chunk(digest(1)); ok {
		t.Fatal("written all the same")
	}
	x.Close()
}

// In this case badger's own Close would retry for ever.
func TestCloseWithoutDirectory(t *testing.T) {
	for how, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-elsewhere") },
	} {
		t.Run(how, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "index")
			x, err := Open(dir, func() error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			var b Batch
			b.SetChunk(digest(1), Location{File: 1, Size: 1, Encoding: blob.Zstd})
			if err := x.Apply(&b); err != nil {
				t.Fatal(err)
			}
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			closed := make(chan error, 1)
			go func() { closed <- x.Close() }()
			select {
			case err := <-closed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(5 * time.Minute):
				t.Error("it does not end")
			}
		})
	}
}

func TestNewSecretDropsFingerprints(t *testing.T) {
	dir := t.TempDir()
	x := open(t, dir)
	secret := x.Secret()
	if secret == (blob.FingerprintKey{}) || secret == open(t, t.TempDir()).Secret() {
		t.Fatalf("not a secret: %x", secret)
	}
	f := blob.Fingerprint{1}
	var b Batch
	b.SetFingerprint(f, digest(1))
	if err := errors.Join(x.Apply(&b), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if d, ok, err := x.LookupFingerprint(f); d != digest(1) || !ok || err != nil || x.Secret() != secret {
		t.Fatalf("after a restart: %s, %v, %v", d, ok, err)
	}
	damaged := Batch{changes: []change{{secretKey, seal(secretKey, []byte("too short"))}}}
	if err := errors.Join(x.Apply(&damaged), x.Close()); err != nil {
		t.Fatal(err)
	}
	x = open(t, dir)
	if _, ok, err := x.LookupFingerprint(f); ok || err != nil || x.Secret() == secret {
		t.Fatalf("the secret is lost, and a fingerprint is not: %v, %v", ok, err)
	}
}

func TestFlippedBit(t *testing.T) {
	k := key(chunkKey, digest(1))
	good := seal(k, encodeLocation(Location{File: 1, Off: 2, Stored: 3, Size: 4}))
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

func TestVectors(t *testing.T) {
	var written bytes.Buffer
	add := func(name string, key, value []byte) { fmt.Fprintf(&written, "%s %x %x\n", name, key, value) }
	var b Batch
	d := blob.Sum([]byte("agentbox"))
	b.SetChunk(d, Location{File: 3, Off: 4096, Stored: 700, Size: 1000, Encoding: blob.Zstd, Seen: 1700000000})
	b.SetChunk(d, Location{Image: true, File: 1, Off: 1 << 19, Stored: 1 << 19, Size: 1 << 19, Seen: 1700000000})
	err := b.SetMeta(d, Meta{
		Kind: blob.Image, MediaType: "application/vnd.erofs", Size: 1 << 20, Chunks: 2, Blocks: true, Charged: 1 << 19,
		Created: time.Unix(1700000000, 0).UTC(), Used: time.Unix(1700000001, 0).UTC(), Uses: 2, File: 1, Whole: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.SetFingerprint(blob.Fingerprint{1, 2, 3}, d)
	for i, name := range []string{"chunk-in-pack", "chunk-in-image", "manifest", "fingerprint"} {
		add(name, b.changes[i].key, b.changes[i].value)
	}
	add("secret", secretKey, seal(secretKey, bytes.Repeat([]byte{7}, len(blob.FingerprintKey{}))))
	golden.Same(t, "values.txt", written.Bytes())
}

func FuzzLocation(f *testing.F) {
	f.Add(encodeLocation(Location{Image: true, File: 1, Off: 2, Stored: 3, Size: 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := decodeLocation(b); ok && string(encodeLocation(p)) != string(b) {
			t.Fatalf("%x is read as %+v", b, p)
		}
	})
}

func FuzzMeta(f *testing.F) {
	b, _ := encodeMeta(Meta{Kind: blob.Image})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := decodeMeta(b); ok && (!m.Kind.Valid() || m.Size < 0 || m.Chunks < 0 || m.Charged < 0 || m.Uses < 0) {
			t.Fatalf("%+v", m)
		}
	})
}

// FuzzValue tests the checksum of all values, and the decoding of fingerprints' digests and of the
// secret.
func FuzzValue(f *testing.F) {
	d := digest(1)
	k := fingerprintKeyOf(blob.Fingerprint{1})
	f.Add(k, seal(k, d[:]))
	f.Add(secretKey, seal(secretKey, make([]byte, len(blob.FingerprintKey{}))))
	f.Add([]byte{}, []byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		fuzzExactly[agentbox.Digest](t, k, v)
		fuzzExactly[blob.FingerprintKey](t, k, v)
	})
}

func fuzzExactly[A agentbox.Digest | blob.FingerprintKey](t *testing.T, k, v []byte) {
	var x Index
	got, ok := decoded(&x, k, v, decodeExact[A])
	if ok && (len(v) != len(got)+sumLen || !bytes.Equal(seal(k, bytes.Clone(v[:len(got)])), v) || A(v[:len(got)]) != got) {
		t.Fatalf("%x is read as %x", v, got)
	}
	if !ok && x.Damaged() == 0 {
		t.Fatal("a value that is no value is not counted")
	}
}
