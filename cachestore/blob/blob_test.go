package blob

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"agentbox/agentbox"
	"agentbox/tools/suites/golden"
)

var vectorKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))

// vectors are the examples of the formats. Other implementations can be tested with them, and a
// change of ours cannot go unnoticed.
func vectors(t *testing.T) map[string][]byte {
	t.Helper()
	zero, one := Chunk{Size: BlockSize}, Chunk{Digest: Sum([]byte("one")), Size: BlockSize}
	image := Manifest{
		Info: Info{Kind: Image, MediaType: "application/vnd.erofs", Parent: Sum([]byte("parent")), Trace: []uint32{2, 0}},
		Size: 2*BlockSize + 7, Blocks: true, Chunks: []Chunk{one, zero, {Digest: Sum([]byte("end")), Size: 7}},
	}
	stream := Manifest{Info: Info{Kind: Artifact}, Size: 8, Chunks: []Chunk{{Digest: Sum([]byte("hello")), Size: 5}, {Size: 3}}}
	name, err := Name{
		Namespace: "cache", Key: "deps/../<go.sum>", Manifest: Sum(image.Encode()), Scope: Team,
		Created: time.Unix(1700000000, 5), Expires: time.Unix(1800000000, 0), Comment: "make deps",
	}.Sign(vectorKey)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := name.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"image.manifest": image.Encode(), "stream.manifest": stream.Encode(), "name.json": encoded}
}

func TestVectors(t *testing.T) {
	for name, written := range vectors(t) {
		want := golden.Same(t, name, written)
		var err error
		if strings.HasSuffix(name, ".json") {
			_, err = DecodeName(want)
		} else if m, decodeErr := DecodeManifest(want); decodeErr != nil || !bytes.Equal(m.Encode(), want) {
			t.Errorf("%s: %v", name, decodeErr)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidManifests(t *testing.T) {
	good := Manifest{Info: Info{Kind: Artifact}, Size: 10, Chunks: []Chunk{{Digest: Sum([]byte("x")), Size: 10}}}
	if _, err := DecodeManifest(good.Encode()); err != nil {
		t.Fatal(err)
	}
	twice := good
	twice.Size, twice.Chunks = 20, append(twice.Chunks, twice.Chunks[0])
	if _, err := DecodeManifest(twice.Encode()); err != nil {
		t.Errorf("the same chunk twice is what repetition looks like: %v", err)
	}
	lies := map[string]func(m *Manifest){
		"size":           func(m *Manifest) { m.Size = 11 },
		"negative size":  func(m *Manifest) { m.Size = -1; m.Chunks = nil },
		"empty chunk":    func(m *Manifest) { m.Chunks = append(m.Chunks, Chunk{Digest: Sum(nil)}) },
		"huge chunk":     func(m *Manifest) { m.Size, m.Chunks = MaxChunk+1, []Chunk{{Size: MaxChunk + 1}} },
		"kind":           func(m *Manifest) { m.Kind = "manifest" },
		"media type":     func(m *Manifest) { m.MediaType = "a\x00b" },
		"trace":          func(m *Manifest) { m.Trace = []uint32{1} },
		"blocks missing": func(m *Manifest) { m.Blocks, m.Size = true, 1<<40 },
		"too many":       func(m *Manifest) { m.Blocks, m.Size, m.Chunks = true, 5, make([]Chunk, 2) },
	}
	for name, lie := range lies {
		m := good
		lie(&m)
		if _, err := DecodeManifest(m.Encode()); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range len(good.Encode()) {
		if _, err := DecodeManifest(good.Encode()[:n]); err == nil {
			t.Errorf("%d bytes of a manifest were enough", n)
		}
	}
	if _, err := DecodeManifest(append(good.Encode(), 0)); err == nil {
		t.Error("bytes behind a manifest were ignored")
	}
}

func TestNameSignatures(t *testing.T) {
	sign := func(namespace, key string) (Name, error) {
		return Name{Namespace: namespace, Key: key, Manifest: Sum(nil), Scope: Team, Created: time.Unix(1, 0)}.Sign(vectorKey)
	}
	for _, bad := range [][2]string{
		{"", "k"}, {"..", "k"}, {"Cache", "k"}, {"a/b", "k"}, {strings.Repeat("a", MaxNamespace+1), "k"},
		{"cache", ""}, {"cache", "a\x00b"}, {"cache", "a\nb"}, {"cache", "\xff"}, {"cache", strings.Repeat("k", 10<<10)},
	} {
		if _, err := sign(bad[0], bad[1]); agentbox.CodeOf(err) != agentbox.Invalid {
			t.Errorf("%.20q %.20q: %v", bad[0], bad[1], err)
		}
	}
	// A caller's own name with a malformed key is Invalid. In a name that came from elsewhere, the
	// same key is Corrupt: nobody here can correct it.
	foreign := Name{Version: nameVersion, Namespace: "Cache", Key: "k", Manifest: Sum(nil), Scope: Team, Producer: vectorKey.Public().(ed25519.PublicKey)}
	if err := foreign.Verify(); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("verifying a name with a malformed namespace: %v", err)
	}
	encoded, _ := foreign.Encode()
	if _, err := DecodeName(encoded); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("decoding a name with a malformed namespace: %v", err)
	}
	n, err := sign("cache", "../../etc/passwd")
	if err != nil || n.Verify() != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(n *Name){
		"key":       func(n *Name) { n.Key = "other" },
		"manifest":  func(n *Name) { n.Manifest = Sum([]byte("other")) },
		"scope":     func(n *Name) { n.Scope = Local },
		"expiry":    func(n *Name) { n.Expires = time.Unix(1<<33, 0).UTC() },
		"producer":  func(n *Name) { n.Producer = ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey) },
		"signature": func(n *Name) { n.Signature = n.Signature[:5] },
	} {
		changed := n
		change(&changed)
		if changed.Verify() == nil {
			t.Errorf("%s can be changed", name)
		}
	}
	// Another encoding of the same name is refused, so that one signature has only one name.
	encoded, _ = n.Encode()
	var spaced bytes.Buffer
	json.Indent(&spaced, encoded, "", " ")
	if _, err := DecodeName(spaced.Bytes()); err == nil {
		t.Error("a name in another form was accepted")
	}
}

func TestCompressionBombs(t *testing.T) {
	c, err := NewCodec()
	if err != nil {
		t.Fatal(err)
	}
	enc, _ := zstd.NewWriter(nil)
	bomb := enc.EncodeAll(make([]byte, 64<<20), nil)
	for _, size := range []int{1, 1000, MaxPiece} {
		if _, err := c.Decode(bomb, Zstd, size); agentbox.CodeOf(err) != agentbox.Corrupt {
			t.Errorf("%d bytes were to come out: %v", size, err)
		}
	}
	// Two frames: each is valid, but together they exceed the size.
	frame := enc.EncodeAll(make([]byte, 1000), nil)
	if _, err := c.Decode(append(bytes.Clone(frame), bomb...), Zstd, 1000); agentbox.CodeOf(err) != agentbox.Corrupt {
		t.Errorf("a second frame: %v", err)
	}
	text := bytes.Repeat([]byte("agentbox "), 1000)
	p, e := c.Encode(text)
	if e != Zstd || len(p) > 500 {
		t.Fatalf("%d bytes, encoding %d", len(p), e)
	}
	if back, err := c.Decode(p, e, len(text)); err != nil || !bytes.Equal(back, text) {
		t.Fatal(err)
	}
}

// uneven returns n bytes without a pattern: byte i is the highest byte of the i-th number of x = x
// * 6364136223846793005 + 1442695040888963407, from 0 on.
func uneven(n int) []byte {
	b, x := make([]byte, n), uint64(0)
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

func TestSplit(t *testing.T) {
	data := uneven(12 << 20)
	cut := func(b []byte) (sums []agentbox.Digest) {
		total := 0
		err := Split(bytes.NewReader(b), func(p []byte) error {
			sums = append(sums, Sum(p))
			total += len(p)
			return nil
		})
		if err != nil || total != len(b) {
			t.Fatalf("%d of %d bytes, %v", total, len(b), err)
		}
		return sums
	}
	if got := cut(nil); got != nil {
		t.Fatalf("nothing is cut into %v", got)
	}
	// The positions of cuts are part of the format.
	var sizes bytes.Buffer
	if err := Split(bytes.NewReader(data), func(p []byte) error { _, err := fmt.Fprintln(&sizes, len(p), Sum(p)); return err }); err != nil {
		t.Fatal(err)
	}
	golden.Same(t, "cuts.txt", sizes.Bytes())
	a, b := cut(data), cut(data)
	if len(a) < 3 || len(a) != len(b) || a[1] != b[1] {
		t.Fatalf("%d and %d chunks", len(a), len(b))
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifestMagic))
	f.Add(Manifest{Info: Info{Kind: Image, Trace: []uint32{0}}, Size: 3, Blocks: true, Chunks: []Chunk{{Size: 3}}}.Encode())
	f.Add(Manifest{Info: Info{Kind: Artifact, MediaType: "a/b"}, Size: 3, Chunks: []Chunk{{Size: 3}}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err == nil && (!bytes.Equal(m.Encode(), b) || m.Check() != nil) {
			t.Fatalf("%x is read as something else", b)
		}
	})
}

func FuzzName(f *testing.F) {
	n, _ := Name{Namespace: "a", Key: "b", Manifest: Sum(nil), Scope: Team}.Sign(vectorKey)
	b, _ := n.Encode()
	f.Add(b)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n, err := DecodeName(b); err == nil && n.Verify() != nil {
			t.Fatal("read, and not valid")
		}
	})
}

func FuzzCodec(f *testing.F) {
	c, err := NewCodec()
	if err != nil {
		f.Fatal(err)
	}
	p, _ := c.Encode(make([]byte, 1000))
	f.Add(p, 1000)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if out, err := c.Decode(b, Zstd, size); err == nil && len(out) != size {
			t.Fatalf("%d bytes, not %d", len(out), size)
		}
	})
}

func TestFingerprints(t *testing.T) {
	var key FingerprintKey
	for i := range key {
		key[i] = byte(i)
	}
	f, err := NewFingerprinter(key)
	if err != nil {
		t.Fatal(err)
	}
	// The index of every store depends on it: a change would invalidate all fingerprints.
	var lines bytes.Buffer
	for _, text := range []string{"", "agentbox", strings.Repeat("0123456789abcdef", 4)} {
		fmt.Fprintf(&lines, "secret %x chunk %q fingerprint %x\n", key, text, f.Sum([]byte(text)))
	}
	golden.Same(t, "fingerprints.txt", lines.Bytes())
	piece := make([]byte, 1000)
	seen := map[Fingerprint]string{f.Sum(nil): "nothing", f.Sum(piece): "zeros", f.Sum(piece[:999]): "fewer zeros"}
	for i := range piece {
		piece[i] = 1
		seen[f.Sum(piece)] = "a one"
		piece[i] = 0
	}
	for i := range key {
		key[i] ^= 1
		g, err := NewFingerprinter(key)
		if err != nil {
			t.Fatal(err)
		}
		seen[g.Sum(piece)] = "another key"
		key[i] ^= 1
	}
	if want := 3 + len(piece) + len(key); len(seen) != want {
		t.Errorf("%d different fingerprints, not %d", len(seen), want)
	}
}

func BenchmarkSum(b *testing.B) {
	p := make([]byte, BlockSize)
	b.SetBytes(BlockSize)
	for b.Loop() {
		Sum(p)
	}
}

func BenchmarkFingerprint(b *testing.B) {
	f, err := NewFingerprinter(FingerprintKey{1})
	if err != nil {
		b.Fatal(err)
	}
	p := make([]byte, BlockSize)
	b.SetBytes(BlockSize)
	for b.Loop() {
		f.Sum(p)
	}
}
