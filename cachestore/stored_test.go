package cachestore

import (
	"bytes"
	"testing"

	"agentbox/agentbox"
	"agentbox/cachestore/blob"
)

// What a transfer brought a moment ago is handed on before it was made last, and what gc took is
// not.
func TestStoredBeforeFlush(t *testing.T) {
	b := noise(11, 5*blob.BlockSize)
	src, d := otherStore(t, b)
	s := openStore(t, t.TempDir())
	l := fillImage(t, s, d, src)
	m := l.Manifest()
	if err := l.Need(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.Has(m.Chunks[3].Digest); ok || err != nil {
		t.Fatalf("the block was made last already: this test shows nothing (%v)", err)
	}
	p, err := s.ReadStored(t.Context(), m.Chunks[3].Digest, nil)
	if err != nil || p.Encoding != blob.Plain || !bytes.Equal(p.Bytes, blockOf(b, 3)) {
		t.Errorf("%d bytes, %v", len(p.Bytes), err)
	}
	if bits, err := s.Bitmap(m); err != nil || !bytes.Equal(bits, []byte{1 << 3}) {
		t.Errorf("bitmap %08b, %v", bits, err)
	}
	if _, err := s.ReadStored(t.Context(), m.Chunks[2].Digest, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a block that did not come: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if bits, err := s.Bitmap(m); err != nil || !bytes.Equal(bits, []byte{1 << 3}) {
		t.Errorf("bitmap afterwards %08b, %v", bits, err)
	}
	gc(t, s, GCOptions{All: true})
	if _, err := s.ReadStored(t.Context(), m.Chunks[3].Digest, nil); agentbox.CodeOf(err) != agentbox.NotFound {
		t.Errorf("a block that was evicted: %v", err)
	}
}

func TestFetchProgress(t *testing.T) {
	b := noise(12, 6*blob.BlockSize)
	src, d := otherStore(t, b)
	l := fillImage(t, openStore(t, t.TempDir()), d, src)
	defer l.Close()
	if err := l.Need(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	last := 0
	if err := l.Complete(t.Context(), func(done, total int) {
		if done != last+1 && last != 0 || total != 6 {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last = done
	}); err != nil {
		t.Fatal(err)
	}
	if last != 6 {
		t.Errorf("progress ended at %d", last)
	}
}
