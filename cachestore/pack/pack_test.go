package pack

import (
	"bytes"
	"testing"

	"agentbox/cachestore/blob"
	"agentbox/tools/suites/golden"
)

func record(text string) []byte {
	r := Record{Kind: Chunk, Digest: blob.Sum([]byte(text)), Size: len(text), Stored: len(text)}
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
	err := Scan(bytes.NewReader(b), int64(len(b)), func(r Record, off int64) (bool, error) {
		text := b[off : off+int64(r.Stored)]
		if blob.Check(r.Digest, text) != nil {
			return false, nil
		}
		texts = append(texts, string(text))
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

func TestScanSkipsDamage(t *testing.T) {
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

// TestScanContinuesBehindDamage has a pack stored in a pack, as in an image of a machine that
// runs agentbox. With the outer header damaged the inner one is found, whose length means nothing
// here.
func TestScanContinuesBehindDamage(t *testing.T) {
	inner := Record{Kind: Chunk, Digest: blob.Sum([]byte("x")), Size: 1 << 20, Stored: 1 << 10}.Header()
	for name, text := range map[string]string{"longer than the pack": string(inner[:]), "over the next record": string(inner[:]) + "data"} {
		b := file("one", text, "three", string(make([]byte, 1<<10)))
		if name == "longer than the pack" {
			b = file("one", text, "three")
		}
		b[len(Magic)+HeaderSize+3+1] ^= 1
		if got := scan(t, b); len(got) < 2 || got[1] != "three" {
			t.Errorf("%s: %.20q", name, got)
		}
	}
	// A good header over damaged bytes costs that record.
	b := file("one", "two", "three")
	b[len(Magic)+HeaderSize] ^= 1
	if got := scan(t, b); len(got) != 2 || got[0] != "two" {
		t.Errorf("%q", got)
	}
}

func TestVector(t *testing.T) {
	golden.Same(t, "hello.pack", file("hello"))
}

// TestVectorOfAllRecords reads a pack with a record of each kind. What zstd makes of a text may
// differ from version to version, what it is read as may not.
func TestVectorOfAllRecords(t *testing.T) {
	codec, err := blob.NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("agentbox "), 100)
	packed, encoding := codec.Encode(text)
	manifest := blob.Manifest{Info: blob.Info{Kind: blob.Artifact}, Size: 900, Chunks: []blob.Chunk{{Digest: blob.Sum(text), Size: 900}}}.Encode()
	written := file("hello")
	for _, r := range []struct {
		Record
		bytes []byte
	}{
		{Record{Kind: Chunk, Encoding: encoding, Digest: blob.Sum(text), Size: len(text), Stored: len(packed)}, packed},
		{Record{Kind: Manifest, Digest: blob.Sum(manifest), Size: len(manifest), Stored: len(manifest)}, manifest},
	} {
		written = append(append(written, r.Header()...), r.bytes...)
	}
	b := golden.Read(t, "records.pack", written)
	var found []Record
	err = Scan(bytes.NewReader(b), int64(len(b)), func(r Record, off int64) (bool, error) {
		found = append(found, r)
		p, err := codec.Decode(b[off:off+int64(r.Stored)], r.Encoding, r.Size)
		if err != nil {
			return false, err
		}
		return true, blob.Check(r.Digest, p)
	})
	if err != nil || len(found) != 3 || found[1].Encoding != blob.Zstd || found[1].Digest != blob.Sum(text) || found[2].Kind != Manifest {
		t.Errorf("%+v, %v", found, err)
	}
}

func FuzzScan(f *testing.F) {
	f.Add(file("one", "two"))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := Scan(bytes.NewReader(b), int64(len(b)), func(r Record, off int64) (bool, error) {
			if off < HeaderSize || off+int64(r.Stored) > int64(len(b)) || r.Size > blob.MaxPiece {
				t.Fatalf("%+v at %d of %d", r, off, len(b))
			}
			again, err := DecodeHeader(r.Header())
			if err != nil || again != r {
				t.Fatalf("%+v is written as %+v, %v", r, again, err)
			}
			return blob.Check(r.Digest, b[off:off+int64(r.Stored)]) == nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
