package cachestore

import (
	"testing"
	"time"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
	"agentbox/tools/suites/golden"
)

// What small files hold in the examples of testdata.
var (
	examplePin = Pin{
		Version: 1, Name: "user:test", Manifests: []agentbox.Digest{blob.Sum([]byte("one")), blob.Sum([]byte("two"))}, Created: time.Unix(1700000000, 0).UTC(),
	}
	exampleQuota  = Quota{Total: 40 << 30, Kinds: map[blob.Kind]int64{blob.Image: 20 << 30, blob.Cache: 10 << 30}}
	exampleDamage = Damage{
		Digest: blob.Sum([]byte("one")), File: imagesDir + "/" + imageName(3, blob.Sum([]byte("manifest"))), Offset: 4 << 20, Bytes: blob.BlockSize,
		Image: 3, Of: blob.Sum([]byte("manifest")), Why: "it has other bytes", Found: time.Unix(1700000000, 0).UTC(),
	}
)

func encoded(t testing.TB, v interface{ encode() ([]byte, error) }) []byte {
	t.Helper()
	b, err := v.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVectors(t *testing.T) {
	if p, err := decodePin(golden.Same(t, "pin", encoded(t, examplePin))); err != nil || p.Name != examplePin.Name || len(p.Manifests) != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if q, err := decodeQuota(golden.Same(t, quotaName, encoded(t, exampleQuota))); err != nil || q.Total != exampleQuota.Total || len(q.Kinds) != 2 {
		t.Errorf("%+v, %v", q, err)
	}
	if dmg := decodeDamage(golden.Same(t, "damage.json", encoded(t, exampleDamage)), exampleDamage.Digest); dmg != exampleDamage {
		t.Errorf("%+v", dmg)
	}
}

func FuzzPin(f *testing.F) {
	f.Add(encoded(f, examplePin))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := decodePin(b); err == nil && p.check() != nil {
			t.Fatalf("%+v", p)
		}
	})
}

func FuzzQuota(f *testing.F) {
	f.Add(encoded(f, exampleQuota))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := decodeQuota(b); err == nil && q.check() != nil {
			t.Fatalf("%+v", q)
		}
	})
}

func FuzzDamage(f *testing.F) {
	f.Add(encoded(f, exampleDamage))
	f.Fuzz(func(t *testing.T, b []byte) {
		dmg := decodeDamage(b, exampleDamage.Digest)
		if dmg.Digest != exampleDamage.Digest || dmg.Offset < 0 || dmg.Bytes < 0 {
			t.Fatalf("%+v", dmg)
		}
	})
}

// FuzzFileNames: what lies in packs/ and images/ is believed by its name alone, so each number has
// one form.
func FuzzFileNames(f *testing.F) {
	f.Add(packName(1))
	f.Add(imageName(0xabc, blob.Sum(nil)))
	f.Add("000000000000000A.pack")
	f.Fuzz(func(t *testing.T, name string) {
		if id, ok := parsePack(name); ok && packName(id) != name {
			t.Fatalf("%q is pack %d", name, id)
		}
		if id, d, ok := parseImage(name); ok && imageName(id, d) != name {
			t.Fatalf("%q is image %d of %s", name, id, d)
		}
	})
}
