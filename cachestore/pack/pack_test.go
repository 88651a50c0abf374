package pack

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"agentbox/cachestore/blob"
)

func record(text string) []byte {
	r := Record{What: Chunk, Digest: blob.Sum([]byte(text)), Size: len(text), Stored: len(text)}
	return append(r.Header(), text...)
}

func file(texts ...string) []byte {
	b := []byte(Magic)
	for _, text := range texts {
		b = append(b, record(text)...)
	}
	return b
}

func scan(t *testing.T, b []byte) (texts []string) {
	t.Helper()
	err := Scan(bytes.NewReader(b), int64(len(b)), func(r Record, off int64) error {
		texts = append(texts, string(b[off:off+int64(r.Stored)]))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestScanPassesOverDamage(t *testing.T) {
	b := file("one", "two", "three")
	if got := scan(t, b); len(got) != 3 || got[2] != "three" {
		t.Fatalf("%q", got)
	}
	b[len(Magic)+HeaderSize+3+10] ^= 1 // in the header of two
	if got := scan(t, b); len(got) != 2 || got[0] != "one" || got[1] != "three" {
		t.Fatalf("%q", got)
	}
	if got := scan(t, b[:len(b)-1]); len(got) != 1 {
		t.Fatalf("a record that is cut short was read: %q", got)
	}
	far := append(file("one"), bytes.Repeat([]byte("ABX"), 1<<20)...)
	if got := scan(t, append(far, record("far")...)); len(got) != 2 || got[1] != "far" {
		t.Fatalf("%q", got)
	}
}

func TestVector(t *testing.T) {
	got := file("hello")
	name := filepath.Join("testdata", "hello.pack")
	want, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("packs are no longer what was written (%v): %q", err, got)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(file("one", "two"))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Scan(bytes.NewReader(b), int64(len(b)), func(r Record, off int64) error {
			if off < HeaderSize || off+int64(r.Stored) > int64(len(b)) || r.Size > blob.MaxPiece {
				t.Fatalf("%+v at %d of %d", r, off, len(b))
			}
			again, err := DecodeHeader(r.Header())
			if err != nil || again != r {
				t.Fatalf("%+v is written as %+v, %v", r, again, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
